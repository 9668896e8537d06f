/*
 * A model in memory: dimensions, weights, and how an architecture file (models/) loads and runs it. Immutable once open.
 *
 * Legend for shapes: D = n_embd, F = n_ff, V = n_vocab, H = n_head, G = n_head_kv, E = head_dim. Matrices are [rows, cols],
 * rows = outputs, as every GGUF has them (its ne[0] is cols).
 */
#ifndef TFT_MODEL_H
#define TFT_MODEL_H

#include "alloc.h"
#include "kernels.h"
#include "source.h"
#include "tokenizer.h"
#include "tuffet.h"

struct tft_pass;
struct tft_load;

struct tft_arch {
    const char *name;                  /* general.architecture */
    void (*load)(struct tft_load *ld); /* reads dimensions and weights; see load.h */
    void (*forward)(struct tft_pass *p); /* embedding to logits; see pass.h */
};

/* models/registry.c: all of them, then NULL. */
extern const struct tft_arch *const tft_archs[];

struct tft_mat {
    const void *data; /* [rows, cols] */
    enum tft_num num;
    uint32_t rows, cols;
};

struct tft_linear { /* y = W x + bias */
    struct tft_mat w;
    const float *bias; /* [rows] or NULL */
};

struct tft_norm {
    const float *w, *b; /* [n]; b is NULL for RMSNorm */
};

/* The parts a transformer block can have; an architecture uses those of its formula. */
struct tft_block {
    struct tft_norm attn_norm, ffn_norm; /* [D] */
    struct tft_norm q_norm, k_norm;      /* [E] */
    struct tft_linear q, k, v;           /* [H E, D], [G E, D], [G E, D] */
    struct tft_linear o;                 /* [D, H E] */
    struct tft_linear gate, up;          /* [F, D] */
    struct tft_linear down;              /* [D, F] */
};

struct tft_model {
    const struct tft_arch *arch;
    struct tft_kernels kern;
    uint32_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    float norm_eps;

    uint32_t n_rot;         /* numbers of a head that RoPE rotates; 0: none */
    bool rope_halves;       /* partners are n_rot / 2 apart, not neighbours */
    const double *rope_freq; /* [n_rot / 2] radians per position */

    struct tft_mat embed;     /* [V, D] */
    struct tft_mat pos_embed; /* [n_ctx, D], f32; learned positions */
    struct tft_norm out_norm; /* [D] */
    struct tft_linear output; /* [V, D]; the embedding where the head is tied */
    struct tft_block *block;  /* [n_layer] */

    struct tft_tokenizer *tokenizer; /* NULL if the file has none */
    const char *name, *chat_template; /* NUL-terminated; the template may be NULL */
    uint64_t n_params, weight_bytes, matmul_macs;

    struct tft_source source; /* keeps the file mapped */
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    void *memory;                          /* everything above that is not in the file */
    size_t memory_size;
};

/* What opening m->source would come to, with m->tokenizer if it is not NULL: the same checks, and in *m the dimensions and
   counts, but no weights. memory_size is what would be taken; nothing is. All else in *m is zero before. */
enum tft_status tft_model_plan(struct tft_model *m, enum tft_weights weights, struct tft_error *err);

#endif
