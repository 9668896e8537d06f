/*
 * A model in memory: dimensions, weights, and how an architecture file (models/) loads and runs it.
 * Immutable once open.
 *
 * Legend for shapes: D = n_embd, F = n_ff, V = n_vocab, H = n_head, G = n_head_kv, E = head_dim.
 * Matrices are [rows, cols], rows = outputs, as every GGUF has them (its ne[0] is cols).
 */
#ifndef TFT_MODEL_H
#define TFT_MODEL_H

#include "base/alloc.h"
#include "simd/kernels.h"
#include "kv/kv_policy.h"
#include "file/file.h"
#include "text/tokenizer.h"
#include "weights/format.h"
#include "tuffet.h"

struct tft_device;
struct tft_pass;
struct tft_load;

struct tft_arch {
    const char *name;                  /* general.architecture */
    void (*load)(struct tft_load *ld); /* reads dimensions and weights; see load.h */
    void (*layer)(struct tft_pass *p, uint32_t l); /* block l of the residual stream; see pass.h */
};

/* models/registry.c: all of them, then NULL. */
extern const struct tft_arch *const tft_archs[];

/* How the numbers that a linear layer multiplies are held. */
enum tft_range {
    TFT_RANGE_FLOAT,  /* f32, for weights that are floats */
    TFT_RANGE_STATIC, /* bytes, whose scale and zero-point the file has: CushionCache, section 3 */
    TFT_RANGE_TOKEN,  /* bytes; scale and zero-point from each token's own range, */
    TFT_RANGE_TENSOR, /* or from the range of all tokens of a pass, so that results depend on how
                         tokens were fed: for comparisons */
};

/* The input of one or more linear layers: q, k and v share theirs, so do gate and up. */
struct tft_input {
    uint32_t index; /* layer * TFT_LAYER_INPUTS + which; after those of all layers, the head's */
    enum tft_range range;
    struct tft_affine affine; /* STATIC */
    uint32_t hadamard;        /* block of the transform that comes first (kernels.h); 0: none. The
                                 weights expect it. */
};
enum { TFT_IN_ATTN, TFT_IN_O, TFT_IN_FFN, TFT_IN_DOWN, TFT_LAYER_INPUTS };

struct tft_linear { /* y = W x + bias */
    struct tft_mat w;
    const float *bias; /* [rows] or NULL */
    const struct tft_input *in;
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
    struct tft_input in[TFT_LAYER_INPUTS];
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
    struct tft_input head_in;
    struct tft_block *block;  /* [n_layer] */

    /* Keys and values that come before every sequence, at positions 0 .. n_prefix - 1: CushionCache
       (section 4), IntactKV */
    uint32_t n_prefix;
    const uint16_t *prefix_k, *prefix_v; /* [n_layer, n_prefix, G, E], f16 however the file has
                                            them, keys rotated */
    const float *prefix_x;               /* [D] what the last of them leaves in the residual stream;
                                            NULL if that is not known */
    bool prefix_bos;                     /* BOS is one of them, and not to be put before a text
                                            again */
    const char *kv;                      /* the cache of sessions that name none, kv_policy.h; NULL
                                            if the file does not say */
    struct tft_kv_policy kv_policy;      /* the same, parsed; of f16 if the file does not say */
    const float *key_importance; /* [n_layer, G, E] what an error in a key's channel costs; NULL if
                                    the file does not say: coded.h */
    const int32_t *key_order; /* [n_layer, G, E] which channel of a head's keys comes where; NULL if
                                 the file does not say: coded.h */
    const float *kv_clip[2];  /* [n_layer, G, groups of kv_policy] of keys and values: SKVQ eq. 2's
                                 alpha; NULL likewise */
    bool floats;                         /* some linear layer's input is made as floats first */
    bool bytes;                          /* some linear layer takes bytes */

    struct tft_tokenizer *tokenizer; /* NULL if the file has none */
    const char *name, *chat_template; /* NUL-terminated; the template may be NULL */
    uint64_t n_params, weight_bytes, matmul_macs;

    const struct tft_device *device; /* NULL, or what computes from layer n_host on; device.h */
    void *on, *device_library;
    uint32_t n_host;                 /* layers that the CPU computes: all of them without a
                                        device */

    struct tft_source source; /* keeps the file mapped */
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    void *memory;                          /* everything above that is not in the file */
    size_t memory_size;
};

/* What opening m->source would come to, with m->tokenizer if it is not NULL: the same checks, and
   in *m the dimensions and counts, but no weights. memory_size is what would be taken; nothing is.
   All else in *m is zero before. */
enum tft_status tft_model_plan(struct tft_model *m, enum tft_weights weights,
                               struct tft_error *err);

/* tft_model_open, but matrices that would have to be expanded have a tensor and no data: for tools
   that take them one at a time. */
enum tft_status tft_model_open_unexpanded(struct tft_model **out, const char *path,
                                          const struct tft_model_opts *opts, struct tft_error *err);

/* y: [cols] = row `row` of a matrix as floats. */
static inline void tft_mat_row(const struct tft_model *m, const struct tft_mat *w, uint32_t row,
                               float *y)
{
    w->format->row(&m->kern, w, row, y);
}

#endif
