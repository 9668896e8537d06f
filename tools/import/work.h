/* State of one import, shared by its parts. */
#ifndef IMPORT_WORK_H
#define IMPORT_WORK_H

#include "folder.h"

struct import_arch;

/* A tensor computed from config.json: divisors of RoPE. */
struct import_factors {
    const char *name;
    float *v; /* [n]; NULL: no such tensor */
    size_t n;
};

/* An input of matrices in a W8A8 file: b of 0 .. 255 stands for (b - zero) * scale. */
struct import_input {
    float scale;
    int zero;
    bool is_static; /* false: the range is each token's own */
    bool mixed;     /* its matrices have different ranges in the folder */
};

/* Factors that falcon-h1 has beside its weights; in a GGUF file the weights contain them. */
struct import_multipliers {
    double embedding, head, key, attn_in, attn_out, ssm_in, ssm_out;
    double ffn[2]; /* of the gate, of down */
    double ssm[5]; /* of z, x, b, c and the steps of Mamba-2 */
};

/*
 * D = n_embd, F = n_ff, H = n_head, G = n_head_kv, E = head_dim, V = n_vocab, as in model.h.
 */
struct import {
    struct import_folder folder;
    const struct import_arch *arch;
    const json_t *text; /* the part of config.json about the text model */
    const char *ignore; /* members of config.json that count as absent, separated by commas; or
                           NULL */
    json_t *seen;       /* an object with the names of members that were asked for */
    json_t *defaults;   /* defaults of the class in transformers for members that config.json
                           lacks */
    uint64_t n_layer, n_ctx, n_embd, n_ff, n_head, n_head_kv, head_dim, n_rot;
    uint64_t context; /* n_ctx, or what YaRN makes of it */
    uint64_t n_vocab; /* imported rows of the embedding */
    uint64_t n_expert, n_ff_expert, n_taps; /* of experts, of short convolutions; 0: none */
    uint64_t n_ff_shared; /* hidden activations of shared experts; 0: none */
    uint64_t n_latent;    /* width of experts that differs from the model's; 0: it does not */
    uint64_t n_leading;   /* the first n_leading layers have no experts */
    uint64_t n_predict;   /* blocks after the layers, which predict further tokens: 0 or 1 */
    bool is_ternary;      /* weights of tensors with IMPORT_TERNARY become ternary */
    struct {
        uint64_t k_heads, v_heads, dim; /* of delta nets, as in struct tft_delta_shape */
    } delta;
    struct {
        uint64_t heads, dim, groups, state; /* of Mamba-2, as in struct tft_mamba_shape */
    } mamba;
    struct {
        uint64_t q_rank, rank, rot, value; /* of latent attention: struct tft_latent_shape; rank 0:
                                              none. value: of other attention, too, if it is not
                                              E */
    } latent;
    struct {
        uint64_t decay, rate, value, gate; /* of RWKV-7: ranks, as in struct tft_rwkv_shape */
    } rwkv;
    uint64_t n_streams; /* of AltUp; 0: none */
    struct {
        uint64_t types;    /* of tokens; 0: none */
        uint64_t skipped;  /* the folder's first positions, which no token has */
        uint64_t labels;   /* scores of a reranker; 0: it is none */
        uint64_t dense[2]; /* rows of the matrices after pooling; 0: there is none */
    } encoder;
    struct import_multipliers by;
    uint32_t *kv_heads; /* [n_layer], 0: no attention; NULL: n_head_kv in all of them */
    uint32_t *ffs;      /* [n_layer], 0: no feed-forward; NULL: n_ff in all of them */
    /* For a model whose layers differ; n_head_kv, head_dim and n_ff are then the current layer's
       (arch.h, `layer`). */
    struct {
        uint64_t full_dim, window_dim; /* head_dim of layers without a window, and with one */
        uint64_t n_shared;             /* the last layers use keys and values of earlier ones */
        uint64_t n_embed;              /* numbers of a token's embedding for one layer; or 0 */
        bool shares, keys_are_values;  /* of the current layer */
    } layers;
    unsigned char *made; /* a file for reranker.c; NULL: there is none */
    struct import_input *input; /* [n_inputs] of a W8A8 file; NULL: the file is none */
    size_t n_inputs;
    char key[96]; /* of import_key */
    struct import_factors factors[3]; /* the last has no numbers */

    struct tft_gguf_writer *gguf;
    enum tft_status status; /* the first failure, and its message */
    struct tft_error *err;
};

/* Records a failure unless there was one before. The message is about a file or the folder. */
void import_fail(struct import *im, enum tft_status code, const char *fmt, ...) TFT_PRINTF(3, 4);

#endif
