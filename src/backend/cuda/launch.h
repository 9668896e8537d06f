/*
 * The kernels of the CUDA backend: what the host side calls to queue them. They compute what
 * kernels.h says, to the bit, so all sums are in its orders: work is spread over rows, heads,
 * channels and spans of positions, and where a sum is of 16 lanes, over those. Built with
 * -fmad=false; an fma is written as one.
 *
 * Pointers are to memory of the device, but for those to structs. A row of a matrix is `ld` numbers
 * from the next one. M is how many tokens there are, at least one. Letters for sizes as in model.h.
 * Nothing here waits or reports: cudaGetLastError tells whether all could be queued.
 */
#ifndef TFT_CUDA_LAUNCH_H
#define TFT_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "simd/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the first token of a chunk of the pass is. In memory of the device, so that a graph can be
   launched again for another token. */
struct tft_cuda_at {
    uint32_t position, slot; /* slot: in the cache, behind the prefix's */
    uint32_t blocks;         /* of codes that its tokens see */
};

/* Rows of floats, or, where `bytes` is not NULL, of bytes, token m by q[m * step]. */
struct tft_cuda_rows {
    float *floats;
    uint8_t *bytes;
    size_t ld;
    const struct tft_affine *q;
    size_t step;
};

/* ---- rows.cu */

struct tft_cuda_embedding {
    const int8_t *data; /* [V, D] in panels */
    const float *scale;
    const float *position; /* [n_ctx, D] or NULL */
    uint32_t width;        /* D */
};

/* x: [M, D] = rows of the embedding, tft_mat_row, plus those of the positions */
void tft_cuda_embed(cudaStream_t stream, float *x, size_t ld, const int32_t *tokens,
                    const struct tft_cuda_at *at, uint32_t M, const struct tft_cuda_embedding *e);

/* y = tft_rmsnorm_fn, or tft_layernorm_fn where b is not NULL, of rows x: [M, n] */
void tft_cuda_norm(cudaStream_t stream, const struct tft_cuda_rows *y, const float *x, size_t ldx,
                   const float *w, const float *b, uint32_t M, uint32_t n, float eps);

/* Two kinds of heads, which a kernel works on in place: those of Q and K. */
struct tft_cuda_heads {
    float *x[2];  /* [M, heads, dim] */
    size_t ld[2];
    uint32_t heads[2], dim;
};

/* The same for each head of x by itself; w: [dim] of each kind */
void tft_cuda_rmsnorm_heads(cudaStream_t stream, const struct tft_cuda_heads *x,
                            const float *const w[2], uint32_t M, float eps);

/* tft_rope_fn; c, s: [M, n_rot] */
void tft_cuda_rope(cudaStream_t stream, const struct tft_cuda_heads *x, const float *c,
                   const float *s, uint32_t M, uint32_t n_rot, bool halves);

/* y: [M, n] = tft_silu_mul_fn of g and u, or tft_gelu_fn of g where u is NULL, then tft_hadamard_fn
   unless block is 0. y may be g. */
void tft_cuda_activate(cudaStream_t stream, const struct tft_cuda_rows *y, const float *g,
                       const float *u, size_t ld, uint32_t M, uint32_t n, uint32_t block);

/* y: [M, ldy] bytes of x: [M, n]. q: [M] = how: by the range of each token, or of all of them.
   range: [M, 2] is workspace. */
void tft_cuda_quantize(cudaStream_t stream, uint8_t *y, size_t ldy, const float *x, size_t ldx,
                       uint32_t M, uint32_t n, struct tft_affine *q, float *range, bool all);

/* ---- linear.cu */

/* W: [N, cols] in panels, as in struct tft_panels */
struct tft_cuda_matrix {
    const int8_t *data;
    const float *scale;
    const int32_t *rowsum;
    const float *bias; /* [N] or NULL */
    uint32_t rows, cols;
};

/* y: [M, N] */
struct tft_cuda_product {
    float *y;
    size_t ldy;
    struct tft_cuda_matrix w;
};

enum { TFT_CUDA_PRODUCTS = 3 };

/* y = or += W x + bias of n <= TFT_CUDA_PRODUCTS matrices of the same columns, tft_gemm_i8_fn; x:
   [M, cols], 16 bytes from each other or a multiple. multiprocessors: the device's, which the work
   is spread over */
void tft_cuda_linear(cudaStream_t stream, const struct tft_cuda_product *p, uint32_t n, bool add,
                     const struct tft_cuda_rows *x, uint32_t M, uint32_t multiprocessors);

/* ---- cache.cu, attend.cu */

/* The slots of a layer, as in kv.h. */
struct tft_cuda_slots {
    void *k, *v; /* [G, capacity / 16, E, 16], [G, capacity, E] */
    enum tft_num num; /* F16 or F32 */
    uint32_t capacity, heads, dim; /* G, E */
};

/* The blocks of codes of a layer, as in coded.h. */
struct tft_cuda_side {
    unsigned char *records; /* [G, n_blocks] */
    size_t bytes, codes;    /* of a record, and of the codes in it */
    unsigned bits;          /* enum tft_bits, or TFT_BITS_COUNT: f16 */
    bool by_token;
    const float *clip;      /* [G, groups] or NULL */
};

struct tft_cuda_blocks {
    struct tft_cuda_side k, v;
    const uint16_t (*quads)[TFT_BITS_COUNT]; /* [G] of keys, struct tft_coded */
    const uint8_t *channel; /* [G, E], or NULL */
    uint32_t n_blocks, block, group, heads, dim;
    bool f8;
};

/* Stores k, v: [M, G, E] in the slots from at->slot on, tft_kv_put */
void tft_cuda_put(cudaStream_t stream, const struct tft_cuda_slots *to, const float *k,
                  const float *v, size_t ld, uint32_t M, const struct tft_cuda_at *at);

/* One token's attention, split over spans: those of slots, then those of blocks. */
struct tft_cuda_parts {
    float *o, *max, *sum; /* [H, slots + blocks, E], [H, slots + blocks] */
    uint32_t *done;       /* [H] of spans, 0 between launches */
    uint32_t slots, blocks; /* spans that there are at most */
};

/* y: [M, H E] = softmax(q k / sqrt(E)) v over the slots up to each token's own and all of
   at->blocks, attend.c; q: [M, H E]. Token m is that of slot at->slot + first + m. blocks may be
   NULL. parts bounds what one token looks at. */
void tft_cuda_attend(cudaStream_t stream, const struct tft_cuda_rows *y, const float *q, size_t ldq,
                     const struct tft_cuda_slots *slots, const struct tft_cuda_blocks *blocks,
                     uint32_t H, uint32_t M, uint32_t first, const struct tft_cuda_at *at,
                     const struct tft_cuda_parts *parts);

/* Parts of a group's range to choose from: struct tft_fit */
enum { TFT_CUDA_CLIPS = 8 };
struct tft_cuda_clips {
    float part[TFT_CUDA_CLIPS]; /* the first is 1 */
    uint32_t n;
    bool to_zero;
};

/* What the policy gives up of the slots of all heads: tft_coded_evict */
struct tft_cuda_eviction {
    const uint32_t *order;  /* [blocks * block + stay] slots: those that go to blocks, then those
                               that stay */
    uint32_t blocks, first; /* so many, from this one on */
    uint32_t stay, base;    /* so many slots, which then begin there */
    uint32_t rounded, round; /* then the values of so many slots are rounded to their codes, from
                                there on */
};

/* The slots are of f16. rows: [G, stay, 2, E] is workspace. */
void tft_cuda_evict(cudaStream_t stream, const struct tft_cuda_blocks *to,
                    const struct tft_cuda_slots *from, const struct tft_cuda_eviction *e,
                    const struct tft_cuda_clips *clips, uint16_t *rows);

/* Takes out the first n of `blocks` blocks of all heads: tft_coded_drop */
void tft_cuda_drop_blocks(cudaStream_t stream, const struct tft_cuda_blocks *b, uint32_t n,
                          uint32_t blocks);

/* Takes out n slots of all heads from `from` on; those behind them, up to `used`, close up:
   tft_kv_drop */
void tft_cuda_drop(cudaStream_t stream, const struct tft_cuda_slots *s, uint32_t from, uint32_t n,
                   uint32_t used);

#ifdef __cplusplus
}
#endif

#endif
