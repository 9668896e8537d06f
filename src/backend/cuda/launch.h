/*
 * The interface between the host side of the CUDA backend and its kernels: each function queues one
 * or more kernels on a stream and returns. cudaGetLastError reports a failure to queue.
 *
 * The kernels return the bits of the reference kernels (simd/kernels.h), so every sum has the order
 * of kernels.h. Work is split over rows, heads, channels and spans of positions; a sum over 16
 * lanes is also split over the lanes. Built with -fmad=false: only fmaf compiles to an fma.
 *
 * Pointers are to memory of the device, but pointers to structs are to memory of the host, except
 * struct tft_cuda_start and struct tft_affine. Rows of a matrix are `ld` elements apart. M: tokens,
 * at least 1. Letters for other sizes are as in model.h: V = vocabulary, D = embedding width,
 * H = heads, G = KV heads, E = channels of a head. "Thread block" is CUDA's term; "block" alone is
 * a block of the quantized cache.
 */
#ifndef TFT_CUDA_LAUNCH_H
#define TFT_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>

#include "simd/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The start of a chunk of a pass. Kernels read this struct from the device's memory, so a recorded
   graph can serve a later token. */
struct tft_cuda_start {
    uint32_t position;  /* of the chunk's first token in the sequence */
    uint32_t slot[2];   /* of the token's key and value; the prefix has the first slots */
    uint32_t blocks[2]; /* full blocks of keys, and of values, that the chunk's tokens attend to */
};

/* Rows that a kernel writes or reads: floats, or bytes if `bytes` is not NULL. */
struct tft_cuda_rows {
    float *floats;
    uint8_t *bytes;
    size_t ld;
    const struct tft_affine *affine; /* bytes of row m are quantized by affine[m * affine_step] */
    size_t affine_step;              /* 0: all rows alike, or 1 */
};

/* ---- rows.cu */

struct tft_cuda_embedding {
    const int8_t *data;     /* [V, D] in panels (simd/panel.h) */
    const float *scale;     /* [V] */
    const float *pos_embed; /* [n_ctx, D] learned positions, or NULL */
    uint32_t width;         /* D */
};

/* x[m] = row tokens[m] of the embedding as floats (tft_mat_row), plus row start->position + m of
   pos_embed. x: [M, D] */
void tft_cuda_embed(cudaStream_t stream, float *x, size_t ld, const int32_t *tokens,
                    const struct tft_cuda_start *start, uint32_t M,
                    const struct tft_cuda_embedding *e);

/* Each row of y = tft_rmsnorm_fn of the same row of x, or tft_layernorm_fn if b is not NULL.
   y, x: [M, n]; w, b: [n] */
void tft_cuda_norm(cudaStream_t stream, const struct tft_cuda_rows *y, const float *x, size_t ldx,
                   const float *w, const float *b, uint32_t M, uint32_t n, float eps);

/* The query heads and the key heads: one kernel changes both in place. */
struct tft_cuda_heads {
    float *x[2]; /* Q, K: [M, heads, dim] */
    size_t ld[2];
    uint32_t heads[2]; /* H, G */
    uint32_t dim;      /* E */
};

/* tft_rmsnorm_fn of each head of Q and K. w: [2][E], for Q and for K */
void tft_cuda_rmsnorm_heads(cudaStream_t stream, const struct tft_cuda_heads *x,
                            const float *const w[2], uint32_t M, float eps);

/* tft_rope_fn of each head of Q and K. c, s: [M, n_rot] cosines and signed sines; halves: the
   partner of a number is n_rot / 2 apart, else next to it */
void tft_cuda_rope(cudaStream_t stream, const struct tft_cuda_heads *x, const float *c,
                   const float *s, uint32_t M, uint32_t n_rot, bool halves);

/* Each row of y = tft_silu_mul_fn of g and u, or tft_gelu_fn of g if u is NULL; then
   tft_hadamard_fn unless block is 0. y: [M, n], may be g; g, u: [M, n], rows ld apart; block: size
   of the transform, a power of two up to 256 */
void tft_cuda_activate(cudaStream_t stream, const struct tft_cuda_rows *y, const float *g,
                       const float *u, size_t ld, uint32_t M, uint32_t n, uint32_t block);

/* Dynamic quantization, tft_range_fn then tft_quantize_fn: affine[m] comes from the range of row m.
   y: [M, n] bytes; x: [M, n]; affine: [M], written; ranges: [M, 2] is workspace */
void tft_cuda_quantize(cudaStream_t stream, uint8_t *y, size_t ldy, const float *x, size_t ldx,
                       uint32_t M, uint32_t n, struct tft_affine *affine, float *ranges);

/* ---- linear.cu */

/* W: [N, cols] in panels, as in struct tft_panels. */
struct tft_cuda_matrix {
    const int8_t *data;
    const float *scale;    /* [N padded] */
    const int32_t *rowsum; /* [N padded] */
    const float *bias;     /* [N] or NULL */
    uint32_t rows, cols;   /* N; K padded */
};

/* y: [M, N] */
struct tft_cuda_product {
    float *y;
    size_t ldy;
    struct tft_cuda_matrix w;
};

enum { TFT_CUDA_PRODUCTS = 3 };

/* tft_gemm_i8_fn of the same x with n <= TFT_CUDA_PRODUCTS matrices of equal `cols`, in one launch:
   y = W x + bias, or y += W x + bias if `add`. x: [M, cols] bytes, x->ld a multiple of 16;
   multiprocessors: the device's number, which decides the tile size */
void tft_cuda_linear(cudaStream_t stream, const struct tft_cuda_product *products, uint32_t n,
                     bool add, const struct tft_cuda_rows *x, uint32_t M, uint32_t multiprocessors);

/* ---- cache.cu, attend.cu, split.cu */

/* The slots of a layer (kv/kv.h): floats, or bytes if `scale` is not NULL. */
struct tft_cuda_slots {
    void *k;              /* [G, K capacity / 16, E, 16]; bytes: [.., E / 4 rounded up, 16, 4] */
    void *v;              /* [G, V capacity, E]; bytes: [G, V capacity / 4, E, 4] */
    enum tft_num num;     /* of floats: F16 or F32 */
    uint32_t capacity[2]; /* slots of keys, of values, multiples of 16 */
    uint32_t heads;       /* G */
    uint32_t dim;         /* E */
    float *scale[2];      /* [G, capacity] of bytes, of keys and of values: struct tft_kv_int8 */
    const float *key_offset; /* [G, E] subtracted from keys before they become bytes, or NULL */
};

/* The keys or the values of a layer's blocks: records of codes, then scales (kv/kv.h). */
struct tft_cuda_side {
    unsigned char *records; /* [G, n_blocks] */
    size_t record_bytes;
    size_t code_bytes; /* of the codes in a record; the scales follow */
    unsigned bits;     /* enum tft_bits; TFT_BITS_COUNT: f16 without scales */
    bool per_token;    /* scales per token and group of channels; else per channel */
    const float *clip; /* [G, groups] calibrated clip ratios, or NULL */
};

/* The blocks of a layer. */
struct tft_cuda_blocks {
    struct tft_cuda_side k, v;
    const uint16_t (*quads)[TFT_BITS_COUNT]; /* [G] quads of keys by width: struct tft_coded */
    const uint16_t *channel_order; /* [G, E] the channel of a head's keys at each place; NULL: in
                                      order */
    uint32_t n_blocks;             /* the capacity in blocks */
    uint32_t block_tokens;         /* tokens of a block */
    uint32_t group_channels;       /* channels that share a scale if scales are per token */
    uint32_t heads, dim;           /* G, E */
    bool f8;                       /* scales are E4M3; else f16 */
};

/* Stores rows k, v: [M, G, E] in the slots from start->slot on (tft_kv_store_key, _value). */
void tft_cuda_put(cudaStream_t stream, const struct tft_cuda_slots *to, const float *k,
                  const float *v, size_t ld, uint32_t M, const struct tft_cuda_start *start);

/* One token's attention is split over spans of positions, with a partial result for each span:
   spans of slots first, then of blocks. */
struct tft_cuda_partials {
    float *o;             /* [H, slot_spans + block_spans, E] */
    float *max, *sum;     /* [H, slot_spans + block_spans] */
    uint32_t *done;       /* [H] finished spans; 0 between launches */
    uint32_t slot_spans;  /* at most as many spans of slots as a token attends to */
    uint32_t block_spans; /* the same for blocks */
};

/* Attention of M tokens of a chunk (backend/cpu/attend.c), unless keys and values are apart:
   y = softmax(q k / sqrt(E)) v over the slots up to each token's own and over the first
   start->blocks blocks. Row m is the token of slot start->slot + skip + m. y, q: [M, H E]; blocks:
   NULL if the cache has no codes. If M is 1, `partials` must have room for the spans that the token
   attends to. */
void tft_cuda_attend(cudaStream_t stream, const struct tft_cuda_rows *y, const float *q, size_t ldq,
                     const struct tft_cuda_slots *slots, const struct tft_cuda_blocks *blocks,
                     uint32_t H, uint32_t M, uint32_t skip, const struct tft_cuda_start *start,
                     const struct tft_cuda_partials *partials);

/* For keys and values that are apart (kv/kv.h): the token of each place, and room for the scores of
   all tokens. */
struct tft_cuda_split {
    const uint32_t *slot_owner[2];    /* of keys, of values: [slots in use] */
    const uint32_t *block_owner[2];   /* [n_blocks, block_tokens] */
    float *scores;                    /* [M H, max_tokens] then probabilities */
    size_t max_tokens;                /* the capacity in tokens */
    float *sum;                       /* [M H] of the probabilities */
    uint32_t slot_spans, block_spans; /* at most as many spans of keys as a token attends to */
};

/* tft_cuda_attend with keys and values apart (backend/cpu/split.c). */
void tft_cuda_attend_split(cudaStream_t stream, const struct tft_cuda_rows *y, const float *q,
                           size_t ldq, const struct tft_cuda_slots *slots,
                           const struct tft_cuda_blocks *blocks, uint32_t H, uint32_t M,
                           uint32_t skip, const struct tft_cuda_start *start,
                           const struct tft_cuda_split *apart);

/* The candidate clip ratios of a group of numbers (struct tft_fit). */
enum { TFT_CUDA_CLIPS = 8 };
struct tft_cuda_clips {
    float ratio[TFT_FIT_LISTS][TFT_CUDA_CLIPS]; /* [n] each; the first is 1 */
    uint32_t n;
    bool to_zero; /* cut both ends of the range towards 0, not towards the middle */
};

/* One quantization of keys or values, the same for all heads of a layer (tft_kv_quantize). */
struct tft_cuda_quantization {
    bool keys;
    const uint32_t *order;  /* [n_blocks * block_tokens + stay] slots: first the tokens to quantize,
                              in the order of the new blocks, then the staying tokens */
    uint32_t n_blocks;      /* new blocks */
    uint32_t first_block;   /* index of the first new block */
    uint32_t stay;          /* tokens that stay in slots, */
    uint32_t first_slot;    /* moved together from this slot on */
};

/* Quantizes the due tokens into new blocks and closes the gaps in the slots, of f16 or bytes.
   workspace: [G, stay] rows of tft_kv_row_bytes, aligned to 4 */
void tft_cuda_quantize_kv(cudaStream_t stream, const struct tft_cuda_blocks *to,
                          const struct tft_cuda_slots *from, const struct tft_cuda_quantization *e,
                          const struct tft_cuda_clips *clips, void *workspace);

/* Drops the first n of used[0] blocks of keys and of used[1] blocks of values, of all heads; the
   others move to the front (tft_kv_drop_blocks). */
void tft_cuda_drop_blocks(cudaStream_t stream, const struct tft_cuda_blocks *b, uint32_t n,
                          const uint32_t used[2]);

/* Drops n slots of all heads from slot `from` on; the later slots, up to `used`, move forward
   (tft_kv_drop_slots). */
void tft_cuda_drop_slots(cudaStream_t stream, const struct tft_cuda_slots *s, uint32_t from,
                         uint32_t n, uint32_t used);

#ifdef __cplusplus
}
#endif

#endif
