/*
 * The kernels: the inner loops of inference, and the table of function pointers through which the
 * rest of the library calls them.
 *
 * An ISA level is the kernels of one instruction set: scalar C (the reference, simd/c), or vectors
 * (simd/x86, simd/arm, simd/riscv). The ISA levels of a CPU form a ladder; tft_kernels_fill() fills
 * a table from the lowest level up to a chosen one. docs/glossary.md defines the other terms.
 *
 * Numerics contract (docs/architecture.md, "Numerics contract"): every ISA level returns the same
 * bits. This file fixes the order of every floating-point operation, and no compiler may change it
 * (-ffp-contract=off; contract.h refuses fast-math). The formulas below use these operations:
 *
 *   fma(a, b, c)   a * b + c, rounded once.
 *   sum16(l)       A tree over 16 lanes: l[i] += l[i + 8] for i < 8, then the same with 4, 2 and 1.
 *                  The result is l[0].
 *   total16(a)     16 lanes start at 0; element k is added to lane k % 16, k ascending; then sum16.
 *   dot16(a, b)    16 lanes start at 0; element k goes to lane l = k % 16: l = fma(a[k], b[k], l),
 *                  k ascending; then sum16. If the length is no multiple of 16, the last round does
 *                  not touch the lanes past the end.
 *   chain(a, b)    One accumulator starts at 0: c = fma(a[d], b[d], c), d ascending. It is as fast
 *                  as dot16 where 16 results lie side by side in memory: 16 keys of a panel, or 16
 *                  channels of a value row.
 *   exp(x)         tft_expf of expf.h.
 *   max            The larger. The choice among zeros or NaNs is undefined; no result that is a
 *                  number depends on it.
 *
 * The functions in simd/c are this contract as code. tests/simd/kernels compares every other ISA
 * level with them bit for bit, and bounds their own error against double precision.
 *
 * A kernel reads and writes exactly the elements that its shapes name, without padding unless its
 * comment says so. Pointers need the alignment of their element and no more. Sizes may be 0 unless
 * the comment says otherwise. Kernels keep no state: any number of threads may call them.
 */
#ifndef TFT_KERNELS_H
#define TFT_KERNELS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codes.h"
#include "contract.h"
#include "low_panel.h"
#include "packed.h"
#include "panel.h"

/* Types of floats. The table has a kernel for each where the type matters. */
enum tft_num { TFT_NUM_F32, TFT_NUM_F16, TFT_NUM_BF16, TFT_NUM_COUNT };

static inline size_t tft_num_bytes(enum tft_num t)
{
    return t == TFT_NUM_F32 ? 4 : 2;
}

/* ------------------------------------------------------------------------------- matrix product */

/* In products, M is the number of tokens, N that of outputs (rows of the weight matrix W), and K
   that of inputs (columns of W). */

/*
 * y = x W^T of floats. A row is summed in pieces of TFT_PIECE elements (the last piece may be
 * shorter), so that a block of x stays in the cache:
 *
 *   v = add ? y[m][n] : 0
 *   v = v + bias[n]                              unless bias is NULL
 *   v = v + dot16(piece of x[m], piece of w[n])  for each piece in turn
 *   y[m][n] = v
 */
enum { TFT_PIECE = 1024 };

struct tft_gemm {
    float *y; /* [M, N], rows ldy apart */
    size_t ldy;
    const float *x; /* [M, K], rows ldx apart */
    size_t ldx;
    const void *w;     /* [N, K] of the type that the kernel is for */
    const float *bias; /* [N], or NULL */
    bool add;
    size_t M, N, K;
};

typedef void tft_gemm_fn(const struct tft_gemm *g);

/*
 * Integers. A float v is stored as the byte
 *
 *   q(v) = rint(clamp(v * inverse, -zero, 255 - zero)) + zero
 *
 * and the byte b stands for (b - zero) * scale: CushionCache, eq. 3 and 4, with an integer
 * zero-point so that 0 is exact. rint rounds ties to even; NaN becomes byte 0. The clamp is done in
 * floats and before rint, so that nothing overflows.
 */
struct tft_affine {
    float scale, inverse; /* positive, normal; inverse = 1 / scale */
    int32_t zero;         /* 0 .. 255 */
};

/* A weight matrix W: [N, cols] in panels (panel.h). N need not be a multiple of 16; all padding is
   zero. */
struct tft_panels {
    const int8_t *data;
    const float *scale;    /* [N padded to 16]: the int8 w stands for w * scale[n] */
    const int32_t *rowsum; /* [N padded to 16]: the sum of row n */
    size_t cols;           /* a multiple of 16, at most TFT_PANEL_MAX_K */
};

/*
 * y = x W^T of bytes and panels; token m is quantized by xq[m * xq_step]. CushionCache, eq. 5:
 *
 *   acc = sum over k of x[m][k] * w[n][k]             exact
 *   d = acc - zero * rowsum[n]                        modulo 2^32
 *   v = (float)d * (xq.scale * w.scale[n])
 *   v = v + bias[n]                                   unless bias is NULL
 *   y[m][n] = add ? y[m][n] + v : v
 */
struct tft_gemm_i8 {
    float *y; /* [M, N], rows ldy apart */
    size_t ldy;
    const uint8_t *x; /* [M, w->cols], rows ldx apart */
    size_t ldx;
    const struct tft_affine *xq; /* [M] if xq_step is 1; one for all tokens if it is 0 */
    size_t xq_step;
    const struct tft_panels *w;
    const float *bias; /* [N], or NULL */
    bool add;
    size_t M, N;
    size_t cols; /* all columns of x from this one on are 0, so a kernel may skip them; a multiple
                    of 16. 0: no such column is known */
};

typedef void tft_gemm_i8_fn(const struct tft_gemm_i8 *g);

/*
 * The same product of weights held as codes (low_panel.h), with the same bits. The codes are in
 * w->codes; g->w->data is not read, and g->cols is 0.
 */
struct tft_low_panels {
    const uint8_t *codes; /* [ceil(N / 16)] panels */
    struct tft_low how;
    size_t cols; /* without padding: columns from here up to g->w->cols do not count */
};

typedef void tft_gemm_low_fn(const struct tft_gemm_i8 *g, const struct tft_low_panels *w);

/*
 * y = x W^T of groups of bytes and packed weights (packed.h). scale[n][g] = factor * unit * s and
 * min[n][g] = minimum * t of row n and group g, both exact:
 *
 *   v = add ? y[m][n] : 0
 *   v = v + bias[n]                                       unless bias is NULL
 * and for each group g of columns, in order; step is that of the 32 columns that it is part of:
 *   acc = sum over k in g of q[m][k] * (number[n][k] - zero)         exact
 *   v = fma(min[n][g], fall[m][g], v)                                if has_min
 *   v = fma((float)acc * scale[n][g], step, v)
 * at the end:
 *   y[m][n] = v
 *
 * |acc| is at most 32 * 127 * 128. If a result is NaN, its bits are not defined.
 */
struct tft_gemm_packed {
    float *y; /* [M, N], rows ldy apart */
    size_t ldy;
    const uint8_t *x; /* [M] rows of groups of K numbers, aligned to 4, ldx bytes apart */
    size_t ldx;
    const struct tft_packing *how;
    const uint8_t *w;  /* [ceil(N / 16)] panels */
    const float *bias; /* [N], or NULL */
    bool add;
    size_t M, N, K;
};

typedef void tft_gemm_packed_fn(const struct tft_gemm_packed *g);

/* Unpacks K columns of one panel: gemm_packed does the same inside; unpack reads a row. */
struct tft_unpack {
    uint8_t *number;   /* [K / 4 quads, 16 rows, 4 columns], `zero` not subtracted */
    float *scale;      /* [K / group, 16] */
    float *min;        /* [K / group, 16]; written only if has_min */
    const struct tft_packing *how;
    const uint8_t *w; /* [K / block] records */
    size_t K;
};

typedef void tft_unpack_fn(const struct tft_unpack *u);

/* ------------------------------------------------------------------------------- rows of floats */

/*
 * y, x, w: [n]; y may be x. Zhang & Sennrich 2019, eq. 4:
 *
 *   r = 1 / sqrt(dot16(x, x) / n + eps)
 *   y[i] = (x[i] * r) * w[i]
 */
typedef void tft_rmsnorm_fn(float *y, const float *x, const float *w, size_t n, float eps);

/*
 * y, x, w, b: [n]; y may be x. Ba et al. 2016, eq. 4:
 *
 *   d[i] = x[i] - total16(x) / n
 *   r = 1 / sqrt(dot16(d, d) / n + eps)
 *   y[i] = fma(d[i] * r, w[i], b[i])
 */
typedef void tft_layernorm_fn(float *y, const float *x, const float *w, const float *b, size_t n,
                              float eps);

/*
 * Rotary embedding, in place, of the first n_rot elements of each head. x: [n_head, head_dim];
 * c, s: [n_rot], a cosine and a signed sine for each element. Su et al. 2021, eq. 34:
 *
 *   x[i] = fma(x[i], c[i], x[j] * s[i])
 *
 * The partner of element i is
 *
 *   rope_pairs    j = i ^ 1                       llama's rows in GGUF files
 *   rope_halves   j = (i + n_rot / 2) % n_rot     GPT-NeoX, qwen
 */
typedef void tft_rope_fn(float *x, const float *c, const float *s, size_t n_head, size_t head_dim,
                         size_t n_rot);

/*
 * y, a, b: [n]; y may be a or b. SwiGLU: Shazeer 2020, eq. 5:
 *
 *   y[i] = (a[i] / (1 + exp(-a[i]))) * b[i]
 */
typedef void tft_silu_mul_fn(float *y, const float *a, const float *b, size_t n);

/*
 * y, x: [n]; y may be x. The tanh form of GELU (Hendrycks & Gimpel 2016), rewritten with
 * (1 + tanh(u / 2)) / 2 = 1 / (1 + exp(-u)):
 *
 *   u = x[i] * fma(x[i] * x[i], G3, G1)
 *   y[i] = x[i] / (1 + exp(-u))
 *
 * where G1 = 2 sqrt(2 / pi) and G3 = 0.044715 G1.
 */
typedef void tft_gelu_fn(float *y, const float *x, size_t n);
#define TFT_GELU_G1 1.5957691216057308f
#define TFT_GELU_G3 0.07135481627159786f

/* y, a, b: [n]; y may be a or b. GEGLU: Shazeer 2020, eq. 5. y[i] = gelu(a)[i] * b[i] */
typedef void tft_gelu_mul_fn(float *y, const float *a, const float *b, size_t n);

/*
 * y, a, b: [n]; y may be a or b. The squared ReLU (So et al. 2021, arXiv 2109.08668, section 4) as
 * a gate:
 *
 *   r = a[i] < 0 ? 0 : a[i]
 *   y[i] = r * r * b[i]
 */
typedef void tft_relu2_mul_fn(float *y, const float *a, const float *b, size_t n);

/*
 * A soft cap (Gemma Team 2024, arXiv 2408.00118, section 2), in place: x[i] = cap tanh(x[i] / cap),
 * where inverse = 1 / cap:
 *
 *   u = x[i] * inverse    a = |u|    z = a * a
 *   t = fma(a * z, p, a)               if a < TFT_TANH_SMALL, where p is the polynomial in z of
 *                                      TFT_TANH_0 .. TFT_TANH_4, by fma from TFT_TANH_4 down
 *   t = 1 - 2 / (1 + exp(a + a))       otherwise
 *   x[i] = (u < 0 ? -0 - t : t) * cap
 *
 * The polynomial is from Cephes (Moshier 1989, tanhf), because exp loses bits near 0. x: [n]
 */
typedef void tft_softcap_fn(float *x, size_t n, float cap, float inverse);
#define TFT_TANH_SMALL 0.625f
#define TFT_TANH_4 -5.70498872745e-3f
#define TFT_TANH_3 2.06390887954e-2f
#define TFT_TANH_2 -5.37397155531e-2f
#define TFT_TANH_1 1.33314422036e-1f
#define TFT_TANH_0 -3.33332819422e-1f

/* y, x: [n]. y[i] = y[i] + x[i] */
typedef void tft_add_fn(float *y, const float *x, size_t n);

/*
 * The Walsh-Hadamard transform in natural order, in place, without its factor 1 / sqrt(block).
 * x: [n]; each run of `block` numbers is transformed by itself. block is a power of two up to 256
 * that divides n. For h = 1, 2, 4 .. block / 2, and for each i with i & h == 0:
 *
 *   (x[i], x[i + h]) = (x[i] + x[i + h], x[i] - x[i + h])
 *
 * Fino & Algazi 1976; QuaRot: Ashkboos et al. 2024, section 4.
 */
typedef void tft_hadamard_fn(float *x, size_t n, size_t block);

/* x: [n]. *min = the least and *max = the largest of 0 and the numbers of x. NaNs are ignored. */
typedef void tft_range_fn(const float *x, size_t n, float *min, float *max);

/* -------------------------------------------------------------- rows of floats, result in bytes */

/* y: [n] bytes, x: [n]. y[i] = q(x[i]) */
typedef void tft_quantize_fn(uint8_t *y, const float *x, size_t n, const struct tft_affine *q);

/* Numbers first .. first + n - 1 of a row of groups (packed.h) of K numbers, y, which is aligned to
   4. x: [n]; all sizes are multiples of 32. q and step of 32 numbers are fold(x, 127), which
   "attention on codes" below defines. */
typedef void tft_quantize_groups_fn(uint8_t *y, size_t K, size_t first, const float *x, size_t n);

/* y: [n] bytes: q of exactly the float that the kernel of the same name without _u8 returns. */
typedef void tft_rmsnorm_u8_fn(uint8_t *y, const float *x, const float *w, size_t n, float eps,
                               const struct tft_affine *q);
typedef void tft_layernorm_u8_fn(uint8_t *y, const float *x, const float *w, const float *b,
                                 size_t n, float eps, const struct tft_affine *q);
typedef void tft_silu_mul_u8_fn(uint8_t *y, const float *a, const float *b, size_t n,
                                const struct tft_affine *q);
typedef void tft_gelu_u8_fn(uint8_t *y, const float *x, size_t n, const struct tft_affine *q);
typedef void tft_gelu_mul_u8_fn(uint8_t *y, const float *a, const float *b, size_t n,
                                const struct tft_affine *q);

/* -------------------------------------------------------------------------- layers with a state */

/* y, a, b: [n]; y may be a or b. y[i] = a[i] * b[i] */
typedef void tft_mul_fn(float *y, const float *a, const float *b, size_t n);

/* y, a, b: [n]; y may be a or b. A gate: y[i] = a[i] / (1 + exp(-b[i])) */
typedef void tft_sigmoid_mul_fn(float *y, const float *a, const float *b, size_t n);

/*
 * One token of a causal convolution over time, each channel by itself: H3 (Fu et al. 2023, arXiv
 * 2212.14052, section 3), LFM2, Gated DeltaNet.
 *
 *   c = chain over k of x[k][i] and w[k][i], from bias[i] on
 *   y[i] = silu ? c / (1 + exp(-c)) : c
 */
enum { TFT_CONV_TAPS = 8 }; /* at most */
struct tft_conv {
    float *y;               /* [n], none of the rows of x */
    const float *const *x;  /* [taps] rows [n] of the last tokens, this one's last */
    const float *w;         /* [taps, n], rows ldw apart */
    size_t ldw, n, taps;
    bool silu;
    const float *bias;      /* [n]; NULL: zeros */
};
typedef void tft_conv_fn(const struct tft_conv *g);

/*
 * The gated delta rule of one head (Yang et al. 2024, arXiv 2412.06464, eq. 10) over T tokens, one
 * after the other: the state decays, then its entry for the key moves towards the value. The state
 * is S times a factor (decay.h). For each token t, where s = tft_decay_step(factor, decay), and
 * each column j:
 *
 *   e = chain over i of k[i] and S[i][j]
 *   y = chain over i of q[i] and S[i][j]
 *   d = beta * fma(-s.factor, e, v[j])
 *   o[j] = fma(dot16(k, q), d, s.factor * y)
 *   S[i][j] = fma(k[i], d * s.inverse, S[i][j] * s.keep)      for i < E
 *   factor = s.after
 */
enum { TFT_DELTA_TOKENS = 64 }; /* at most */
struct tft_delta {
    float *s; /* [E / 16, E, 16] S: 16 columns side by side */
    float *factor;
    const float *k, *q;    /* [T, E], rows ld apart, as in v and o */
    const float *v;
    float *o;              /* may be v */
    size_t ld;
    const float *decay, *beta; /* [T] */
    size_t T, E;           /* E: a multiple of 16 */
};
typedef void tft_delta_fn(const struct tft_delta *g);

/*
 * The state-space model of one head of Mamba-2 (Dao & Gu 2024, arXiv 2405.21060, section 7) over T
 * tokens, one after the other: the state decays, and gets the input in the direction of b. The
 * state is S times a factor (decay.h). For each token t, where s = tft_decay_step(factor, decay),
 * and each column j:
 *
 *   S[i][j] = fma(b[i], step * x[j] * s.inverse, S[i][j] * s.keep)      for i < N
 *   factor = s.after
 *   x[j] = fma(skip, x[j], factor * chain over i of c[i] and S[i][j])
 */
struct tft_scan {
    float *s; /* [P / 16, N, 16] S: 16 columns side by side */
    float *factor;
    const float *b, *c;    /* [T, N], rows ld apart, as in x */
    float *x;              /* [T, P] the input, then the output */
    size_t ld;
    const float *step, *decay; /* [T] */
    float skip;
    size_t T, N, P;        /* P: a multiple of 16 */
};
typedef void tft_scan_fn(const struct tft_scan *g);

/*
 * One head of RWKV-7 (Peng et al. 2025, arXiv 2503.14456, section 4) for one token. The state maps
 * keys to values: it decays channel by channel, forgets at key c, and learns v at key k. For each
 * column j:
 *
 *   d = 0 - chain over i of c[i] and S[i][j]
 *   S[i][j] = fma(k[i], v[j], fma(a[i], d, S[i][j] * w[i]))      for i < E
 *   o[j] = chain over i of r[i] and S[i][j]
 */
struct tft_wkv {
    float *s; /* [E / 16, E, 16] the state: 16 columns side by side */
    const float *r, *w, *k, *v, *c, *a; /* [E] */
    float *o;                           /* [E] may be v */
    size_t E;                           /* a multiple of 16 */
};
typedef void tft_wkv_fn(const struct tft_wkv *g);

/* ---------------------------------------------------------------------------------- conversions */

/* To f32. y: [n]; x: [n] of the type that the kernel is for. Exact. */
typedef void tft_widen_fn(float *y, const void *x, size_t n);

/* From f32. y: [n] of the type that the kernel is for; x: [n]. Rounds to nearest, ties to even. */
typedef void tft_narrow_fn(void *y, const float *x, size_t n);

/* y: [n]; x: [n] of E4M3 (half.h). y[i] = x[i] * unit */
typedef void tft_widen_f8_fn(float *y, const uint8_t *x, size_t n, float unit);

/* ------------------------------------------------------------------------------------ attention */

/*
 * Attention takes one KV head of the cache, a few queries, and a span of positions at a time.
 * Keys lie in panels of 16 positions, [head_dim, 16], so that 16 scores come out side by side.
 * Values lie in rows, [position, head_dim].
 */
enum { TFT_KEY_PANEL = 16 };

/*
 * Scores of nq queries against n keys:
 *
 *   s[i][j] = chain(q[i], k[j]) * scale    for j < n
 *
 * s is written for n rounded up to a multiple of 16. The scores past n come from the rest of
 * the last panel.
 */
struct tft_score {
    float *s; /* [nq, n rounded up to 16], rows lds apart */
    size_t lds;
    const float *q; /* [nq, head_dim], rows ldq apart */
    size_t ldq;
    const void *k; /* [ceil(n / 16), head_dim, 16] of the type that the kernel is for */
    size_t nq, n, head_dim;
    float scale;
};

typedef void tft_score_fn(const struct tft_score *a);

/*
 * p: [n] in place, n > 0:
 *
 *   *max = max of p, or 0 for -0
 *   p[i] = exp(p[i] - *max)
 *   *sum = total16(p)
 */
typedef void tft_softmax_fn(float *p, size_t n, float *max, float *sum);

/*
 * Softmax of rows, and its weights times the scales of int8 values, as bytes. For a row of n scores
 * p, which are overwritten:
 *
 *   max and sum as softmax has them
 *   w[i] = exp(p[i] - max) * scale[i]
 *   r = the largest w[i]
 *   inverse = 255 / r; 0 if r < TFT_FOLD_LEAST or r is infinite
 *   y[i] = rint(min(max(w[i] * inverse, 0), 255)), where max of a NaN is 0
 *   step = total16(w) / (the sum of y), or 0 if all y are 0
 *
 * The byte y[i] stands for y[i] * step. So the bytes keep the whole weight, also the weight of
 * small numbers that become 0.
 */
struct tft_softmax_u8 {
    uint8_t *y; /* [rows, n rounded up to a multiple of 16], rows ldy apart; 0 past n */
    size_t ldy;
    float *p; /* [rows, n], rows ldp apart */
    size_t ldp;
    const float *scale; /* [the largest n], of all rows */
    const uint32_t *n;  /* [rows], at least 1 */
    size_t rows;
    float *max, *sum, *step; /* [rows] */
};

typedef void tft_softmax_u8_fn(const struct tft_softmax_u8 *a);

/*
 * For a sampler: the sum of the weights of n logits x, the largest of which is `max`, a number.
 *
 *   d[i] = (x[i] - max) * inverse
 *   w[i] = exp(d[i]), 0 if d[i] is NaN or below -200
 *
 * Of each 64 weights, padded with zeros, the weights 16 apart are added as floats, which makes 16
 * sums; each sum is added to a double of its own, and the 16 doubles by a tree:
 *
 *   part[j] = (w[j] + w[j + 16]) + (w[j + 32] + w[j + 48])     j < 16
 *   lane[j] += part[j]                                         of the first 64, the next 64, ...
 *   lane[j] += lane[j + half]                                  j < half; half = 8, 4, 2, 1
 *
 * lane[0] is returned.
 */
typedef double tft_sum_exp_fn(const float *x, size_t n, float max, float inverse);

/* top[i] = the largest of x[256 i] .. x[256 i + 255], of x[n]; NaNs are ignored; a block of NaNs
   has -infinity. */
enum { TFT_TOPS = 256 };
typedef void tft_tops_fn(float *top, const float *x, size_t n);

/*
 * Adds n value rows, weighted by probabilities:
 *
 *   o[i][d] = fma(p[i][j], v[j][d], o[i][d])    j ascending
 */
struct tft_mix {
    float *o; /* [nq, head_dim], rows ldo apart */
    size_t ldo;
    const float *p; /* [nq, n], rows ldp apart */
    size_t ldp;
    const void *v; /* [n, head_dim] of the type that the kernel is for */
    size_t nq, n, head_dim;
};

typedef void tft_mix_fn(const struct tft_mix *a);

/* y, x: [n]. y[i] = fma(x[i], b, y[i] * a): merges one span of positions into the result of the
   spans before it. */
typedef void tft_blend_fn(float *y, float a, const float *x, float b, size_t n);

/* y: [n]. y[i] = y[i] * a */
typedef void tft_scale_fn(float *y, float a, size_t n);

/* --------------------------------------------------------------------------- attention on codes */

/* The most tokens of a span of codes, and the most channels of a coded key. */
enum { TFT_CODED_SPAN = 256, TFT_CODED_DIM = 512 };

/*
 * A block of `tokens` keys or values of one KV head, quantized to codes (codes.h). A code c of L
 * levels stands for
 *
 *   scale * (c - (L - 1) / 2) + mid
 *
 * scale and mid belong either to a channel of the block (KIVI's keys: Liu et al. 2024), or to a
 * token and a group of channels (KIVI's values, SKVQ).
 *
 * Kernels multiply integers only, so that sums are exact. The factor beside the codes (the query,
 * or the probabilities) is therefore folded: multiplied by the scale where the sum goes over
 * scales, and rounded to an integer x of magnitude at most `limit`:
 *
 *   fold(f, limit):
 *     r = the largest |f[k]|, ignoring NaNs
 *     step = r / limit, inverse = limit / r; both 0 if r < TFT_FOLD_LEAST or r is infinite
 *     x[k] = rint(min(max(f[k] * inverse, -limit), limit)), where max of a NaN is -limit
 *
 * Then f[k] is about x[k] * step. Only the product with the distance from mid is approximated this
 * way; the sums of q * mid and p * mid are sums of floats. The bound TFT_FOLD_LEAST keeps step and
 * inverse from overflowing or losing bits. A sum has at most TFT_CODED_DIM terms and is at most
 * 512 * 16256 * 255, which int32 holds. If a result is NaN, its bits are not defined.
 */
struct tft_coded {
    const uint8_t *codes;
    uint32_t tokens; /* a multiple of 16; of values, at most TFT_CODED_SPAN */
    uint32_t dim;    /* channels: a multiple of 4; of keys, at most TFT_CODED_DIM */
    uint32_t group;  /* 0: scales belong to channels, scale and mid are [dim].
                        Otherwise a multiple of 16: scales belong to a token and `group` channels,
                        scale and mid are [ceil(dim / group), tokens]. */
    const float *scale, *mid;
    /* The number of quads in a panel by code width; narrower codes come first.
       Keys: tokens / 16 panels; columns are channels.
       Values: ceil(dim / 16) panels; columns are tokens, all of one width. The last panel may
       have rows that belong to no channel. */
    uint16_t quads[TFT_BITS_COUNT];
};

/* `limit` of fold: i8 factors if all codes of the block have at most 4 bits, otherwise i16 factors
   (128 * 127). */
enum { TFT_FOLD_I8 = 127, TFT_FOLD_I16 = 16256 };
#define TFT_FOLD_LEAST 0x1p-100f

static_assert(TFT_CODED_SPAN <= TFT_CODED_DIM, "a panel has as many columns as a key");
static_assert(255LL * TFT_FOLD_I16 * TFT_CODED_DIM <= INT32_MAX, "an int32 holds every sum");

static inline float tft_fold_limit(const struct tft_coded *b)
{
    return b->quads[TFT_BITS_8] ? TFT_FOLD_I16 : TFT_FOLD_I8;
}

/*
 * Scores of nq queries against the keys of one block. limit = tft_fold_limit(k); L[d] is the number
 * of levels of channel d.
 *
 * Scales by channel:
 *   x = fold(q[d] * scale[d], limit)
 *   t[j] = sum over d of x[d] * (2 c[j][d] - (L[d] - 1))                     exact
 *   s[j] = fma((float)t[j], step / 2, dot16(q, mid)) * factor
 *
 * Scales by token; acc starts at 0, and for each group g of channels in order:
 *   x = fold(q[d], limit)                                                    d in g
 *   t[j] = sum over d in g of x[d] * (2 c[j][d] - (L[d] - 1))                exact
 *   acc = fma((float)t[j] * (step / 2), scale[g][j], acc)
 *   acc = fma(total16(q[d], d in g), mid[g][j], acc)
 * at the end:
 *   s[j] = acc * factor
 */
struct tft_score_codes {
    float *s; /* [nq, k->tokens], rows lds apart */
    size_t lds;
    const float *q; /* [nq, k->dim], rows ldq apart */
    size_t ldq;
    const struct tft_coded *k;
    size_t nq;
    float factor;
};

typedef void tft_score_codes_fn(const struct tft_score_codes *a);

/*
 * Adds the values of n_blocks blocks, weighted by probabilities. All blocks have the same shape and
 * widths, and together at most TFT_CODED_SPAN tokens, over which j goes. limit = tft_fold_limit(v).
 *
 * Scales by token; for each group g of channels, and d in g:
 *   x = fold(p[j] * scale[g][j], limit)
 *   t[d] = sum over j of x[j] * (2 c[j][d] - (L - 1))                        exact
 *   o[d] = o[d] + fma((float)t[d], step / 2, dot16(p, mid[g]))
 *
 * Scales by channel; for each block in order, j in the block:
 *   x = fold(p[j], limit)
 *   t[d] = sum over j of x[j] * (2 c[j][d] - (L - 1))                        exact
 *   o[d] = fma((float)t[d] * (step / 2), scale[d], o[d])
 *   o[d] = fma(total16(p[j]), mid[d], o[d])
 */
struct tft_mix_codes {
    float *o; /* [nq, v->dim], rows ldo apart */
    size_t ldo;
    const float *p; /* [nq, n_blocks * v->tokens], rows ldp apart */
    size_t ldp;
    const struct tft_coded *v; /* [n_blocks] */
    size_t n_blocks, nq;
};

typedef void tft_mix_codes_fn(const struct tft_mix_codes *a);

/* The tokens of a block of tft_mix_widths. */
enum { TFT_WIDTHS_TOKENS = 32 };

/*
 * Sets o to the mix of values whose panels differ in width, with a gain by token, and a step and a
 * mean by channel: kv/fisher.h. Panels without codes are the first ones, then come panels of 1, 2,
 * 3 and 4 bits. L[d] is the number of levels of channel d; j goes over the tokens of all blocks, at
 * most TFT_CODED_SPAN.
 *
 *   x = fold(p[j] * gain[j], TFT_FOLD_I8)
 *   t[d] = sum over j of x[j] * (2 c[j][d] - (L[d] - 1))                     exact
 *   o[d] = fma((float)t[d] * (step / 2), steps[d], mean[d] * total16(p))
 *
 * Without codes, o[d] is mean[d] * total16(p).
 */
struct tft_mix_widths {
    float *o; /* [nq, dim], rows ldo apart */
    size_t ldo;
    const float *p; /* [nq, n_blocks * TFT_WIDTHS_TOKENS], rows ldp apart */
    size_t ldp;
    const uint8_t *codes; /* of the first block: panels, columns are its tokens */
    size_t next;          /* bytes from the codes of a block to the codes of the next */
    const float *gain;    /* [n_blocks * TFT_WIDTHS_TOKENS] */
    const float *steps, *mean;       /* [dim] */
    uint16_t panels[TFT_BITS_COUNT]; /* of each width; none of 3 levels or 8 bits */
    size_t dim;                      /* a multiple of 16 */
    size_t n_blocks, nq;
};

typedef void tft_mix_widths_fn(const struct tft_mix_widths *a);

/* The channels without codes. */
static inline size_t tft_widths_empty(const struct tft_mix_widths *a)
{
    size_t n = a->dim;
    for (int b = 0; b < TFT_BITS_COUNT; b++)
        n -= (size_t)a->panels[b] * TFT_PANEL;
    return n;
}

/*
 * Rebuilds the keys of a block of TFT_WIDTHS_TOKENS tokens, and turns them: kv/fisher.h. A place is
 * a channel in the order of the codes, narrow codes first; places 2 i and 2 i + 1 are the channels
 * a and b of a pair that RoPE turns. Codes begin at place `first`, a multiple of 4, after which
 * quads have 1, 2, 3, 4 and 8 bits. With L levels of a place, code c of token j, and r = pair[i]:
 *
 *   y[p] = step[p] * (c - (L - 1) / 2)
 *   k[a] = fma(gain[j], y[2 i] * cos[r][j] - y[2 i + 1] * sin[r][j], mean[a][j])
 *   k[b] = fma(gain[j], y[2 i + 1] * cos[r][j] + y[2 i] * sin[r][j], mean[b][j])
 *
 * where mean is the turned mean of each token. Without cos, k = fma(gain[j], y, mean). Channels
 * before `first` are neither read nor written.
 */
struct tft_turn_keys {
    float *k;             /* [tokens / 16, dim, 16], as tft_score takes keys */
    const float *mean;    /* the same */
    const uint8_t *codes; /* panels of quads; code number 16 * column + row of a quad is that of
                             token `row` and the quad's place `column` */
    uint16_t quads[TFT_BITS_COUNT]; /* of a panel, of each width; none of 3 levels */
    const uint16_t *channel;        /* [dim] */
    const uint16_t *pair;           /* [dim / 2] */
    const float *step;              /* [dim] */
    const float *gain;              /* [tokens] */
    const float *cos, *sin;         /* [dim / 2, tokens], or NULL */
    size_t first, dim;              /* multiples of 4 */
};

typedef void tft_turn_keys_fn(const struct tft_turn_keys *a);

/* --------------------------------------------------------------------------------- quantization */

/* How groups of numbers are quantized to codes. Clipping a group to a part of its range loses the
   ends and makes the steps between them finer (SKVQ, section 3.1). Of several parts, fit takes the
   part with the least squared error. With fewer levels the best part is smaller, so groups of 2
   levels, of 3, and of more have a list each. */
enum { TFT_FIT_LISTS = 3 };
struct tft_fit {
    const float *clip[TFT_FIT_LISTS]; /* [n_clip] each, n_clip > 0: parts, 0 < clip <= 1 */
    size_t n_clip;
    bool to_zero;               /* clip both ends towards 0 (SKVQ, eq. 2), not towards the middle */
    bool f8;                    /* store scale and mid as E4M3 times a unit; otherwise as f16 */
    float scale_unit, mid_unit; /* powers of two */
};

/*
 * 16 groups side by side, n numbers each: column i of x is group i.
 *
 *   low, high = the least and the largest x, ignoring NaNs
 *
 * and for each clip a of the group's list, in order:
 *
 *   low' = low * a, high' = high * a                     if to_zero; otherwise low, high
 *   s = (high' - low') / (2 half)                        then times a, unless to_zero
 *   m = (high' + low') / 2
 *   scale, mid = s, m rounded to how they are stored: clamped to -65504 .. 65504, or to
 *                -448 .. 448 units; NaN becomes the least; never -0
 *   inverse = 1 / scale, or 0 if scale < FLT_MIN
 *   c = rint(min(max(fma(x - mid, inverse, half), 0), 2 half)), where max of a NaN is 0
 *   e = x - fma(c - half, scale, mid)
 *   error = fma(e, e, error)                             from 0, in the order of n
 *
 * The first clip with the least error gives the result.
 */
struct tft_fit_groups {
    uint8_t *code; /* [n, 16], rows ldc apart */
    size_t ldc;
    float *scale, *mid; /* [16] */
    const float *x;     /* [n, 16], rows ldx apart */
    size_t ldx, n;
    const float *half; /* [16]: (L - 1) / 2 of each group */
};

typedef void tft_fit_fn(const struct tft_fit_groups *g, const struct tft_fit *how);

/* -------------------------------------------------------------------------- limits of a machine */

/* For `tuffet bench`: runs nothing but the multiply-add that the kernels are built on, over
   registers. Returns the number of operations done; a multiply-add is two. */
typedef double tft_peak_fn(size_t rounds);

/* Reads n floats, n a multiple of 64. Returns a number that depends on each, so that no read is
   optimized away. */
typedef float tft_read_fn(const float *x, size_t n);

/* ------------------------------------------------------------------------------------ the table */

struct tft_kernels {
    const char *name; /* the ISA level: "c", "avx2", "avx512", "neon" .. */

    tft_gemm_fn *gemm[TFT_NUM_COUNT];
    tft_gemm_i8_fn *gemm_i8;
    tft_gemm_low_fn *gemm_low;
    tft_gemm_packed_fn *gemm_packed;
    tft_unpack_fn *unpack;

    tft_rmsnorm_fn *rmsnorm;
    tft_layernorm_fn *layernorm;
    tft_rope_fn *rope_pairs, *rope_halves;
    tft_silu_mul_fn *silu_mul;
    tft_gelu_fn *gelu;
    tft_gelu_mul_fn *gelu_mul;
    tft_relu2_mul_fn *relu2_mul;
    tft_softcap_fn *softcap;
    tft_add_fn *add;
    tft_hadamard_fn *hadamard;
    tft_range_fn *range;

    tft_quantize_fn *quantize;
    tft_quantize_groups_fn *quantize_groups;
    tft_rmsnorm_u8_fn *rmsnorm_u8;
    tft_layernorm_u8_fn *layernorm_u8;
    tft_silu_mul_u8_fn *silu_mul_u8;
    tft_gelu_u8_fn *gelu_u8;
    tft_gelu_mul_u8_fn *gelu_mul_u8;

    tft_mul_fn *mul;
    tft_sigmoid_mul_fn *sigmoid_mul;
    tft_conv_fn *conv;
    tft_delta_fn *delta;
    tft_scan_fn *scan;
    tft_wkv_fn *wkv;

    tft_widen_fn *widen[TFT_NUM_COUNT];
    tft_narrow_fn *narrow[TFT_NUM_COUNT];
    tft_widen_f8_fn *widen_f8;

    tft_score_fn *score[TFT_NUM_COUNT]; /* f32 and f16 only */
    tft_softmax_fn *softmax;
    tft_softmax_u8_fn *softmax_u8;
    tft_mix_fn *mix[TFT_NUM_COUNT]; /* f32 and f16 only */
    tft_blend_fn *blend;
    tft_scale_fn *scale;

    tft_sum_exp_fn *sum_exp;
    tft_tops_fn *tops;

    tft_score_codes_fn *score_codes;
    tft_mix_codes_fn *mix_codes;
    tft_mix_widths_fn *mix_widths;
    tft_turn_keys_fn *turn_keys;
    tft_fit_fn *fit;

    tft_peak_fn *peak_fma, *peak_int8; /* of floats; of int8 products with exact sums */
    tft_read_fn *read;

    size_t contracted; /* ISA levels with contract.h's tft_contracts(): 0, or no model opens */
};

/*
 * The ladder of this machine. ISA level 0 is the reference, which every machine has; a higher ISA
 * level replaces the kernels that it does better and keeps the others. ISA levels that the machine
 * lacks are not counted, so the ladder has no gaps.
 */
int tft_kernels_isas(void);                            /* number of ISA levels, at least 1 */
void tft_kernels_fill(struct tft_kernels *k, int isa); /* 0 <= isa < tft_kernels_isas() */
const char *tft_kernels_name(int isa);
const char *tft_kernels_built_in(size_t i); /* all ISA levels of the ladder; NULL past the last */

/* The highest ISA level that tft_kernels_limit() allows. */
int tft_kernels_best(void);

/* Limits tft_kernels_best() to the ISA level of this name; NULL removes the limit. Returns false,
   and changes nothing, if this machine has no such ISA level. Not thread-safe. */
bool tft_kernels_limit(const char *name);

#endif
