/*
 * The kernels: what they compute, to the bit.
 *
 * The numerics contract (DESIGN section 4). Every rung - scalar C, AVX2, AVX-512, NEON - returns
 * the same bits, because the order of every floating-point operation is fixed here, and no compiler
 * may change it (-ffp-contract=off, no fast-math):
 *
 *   fma(a, b, c)   a * b + c, rounded once.
 *   sum16(v)       the tree over 16 lanes: l[i] += l[i + 8] for i < 8, then 4, 2, 1; the result is
 *                  l[0].
 *   dot16(a, b)    16 lanes from zero; element k goes to lane k % 16 by l = fma(a[k], b[k], l), k
 *                  ascending; then sum16. A lane that gets no element in the last round is left
 *                  alone.
 *   chain(a, b)    one accumulator from zero: c = fma(a[d], b[d], c), d ascending. It is dot16's
 *                  equal in cost where 16 results lie side by side in memory: 16 keys of a panel,
 *                  16 channels of a value row.
 *   exp(x)         tft_expf of expf.h, whose bits are also those of Sleef_finz_expf*_u10.
 *   max            the larger; which zero or NaN does not matter to any result that is a number.
 *
 * The functions in c/ are this contract in code and what every other rung is compared with, bit for
 * bit, by tests/kernels. How far the contract itself is from exact arithmetic is bounded there too,
 * against double precision.
 *
 * A kernel reads and writes exactly the elements that its shapes name, with no padding unless it
 * says so, and needs no alignment beyond that of the element. Sizes may be 0 where nothing else is
 * said.
 */
#ifndef TFT_KERNELS_H
#define TFT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codes.h"
#include "panel.h"

/* Types of floats. Kernels that depend on the type have a slot for each. */
enum tft_num { TFT_NUM_F32, TFT_NUM_F16, TFT_NUM_BF16, TFT_NUM_COUNT };

static inline size_t tft_num_bytes(enum tft_num t)
{
    return t == TFT_NUM_F32 ? 4 : 2;
}

/* y: [M, N], x: [M, K], w: [N, K] of the slot's type; rows ldy, ldx and K apart.
   y[m][n] = start, then + dot16 of each piece of x[m] and w[n] in turn, where a piece is TFT_PIECE
   elements, the last one what is left, and start is 0, or y[m][n] if `add`, then + bias[n] unless
   bias is NULL. (Pieces let a block of x stay in the cache.) */
enum { TFT_PIECE = 1024 };
typedef void tft_gemm_fn(float *y, size_t ldy, const float *x, size_t ldx, const void *w,
                         const float *bias, int add, size_t M, size_t N, size_t K);

/*
 * Integers. A number v is held as the byte q(v) = clamp(rint(v * inverse), -zero, 255 - zero) +
 * zero, and the byte b stands for (b - zero) * scale (asymmetric, CushionCache eq. 3 and 4 with a
 * zero-point that is an integer, so that 0 is exact). rint rounds ties to even; NaN becomes byte 0.
 * The clamp comes before rint and in floats, so that nothing overflows.
 */
struct tft_affine {
    float scale, inverse; /* positive, normal; inverse = 1 / scale */
    int32_t zero;         /* 0 .. 255 */
};

/* W: [N, cols] in panels (panel.h), N whatever, all padding zero. */
struct tft_panels {
    const int8_t *data;
    const float *scale;    /* [N padded]: w stands for w * scale[n] */
    const int32_t *rowsum; /* [N padded]: sum of w over k */
    size_t cols;           /* a multiple of 16, at most TFT_PANEL_MAX_K */
};

/* y: [M, N], x: [M, cols] bytes; rows ldy and ldx apart. Token m is held by xq[m * step], step 0 or
   1.
   acc = sum x[m][k] * w[n][k], exact;  d = acc - zero * rowsum[n], wrapping;  v = (float)d *
                                        (xq.scale * w.scale[n]), then + bias[n]
   unless bias is NULL;  y[m][n] = v, or y[m][n] + v if `add`.   CushionCache eq. 5 */
typedef void tft_gemm_i8_fn(float *y, size_t ldy, const uint8_t *x, size_t ldx,
                            const struct tft_affine *xq, size_t step, const struct tft_panels *w,
                            const float *bias, int add, size_t M, size_t N);

/* y: [n] bytes, x: [n]. y = q(x) */
typedef void tft_quantize_fn(uint8_t *y, const float *x, size_t n, const struct tft_affine *q);

/* The float kernels below with bytes as their result: q of exactly what those return. */
typedef void tft_rmsnorm_u8_fn(uint8_t *y, const float *x, const float *w, size_t n, float eps,
                               const struct tft_affine *q);
typedef void tft_layernorm_u8_fn(uint8_t *y, const float *x, const float *w, const float *b,
                                 size_t n, float eps, const struct tft_affine *q);
typedef void tft_silu_mul_u8_fn(uint8_t *y, const float *a, const float *b, size_t n,
                                const struct tft_affine *q);
typedef void tft_gelu_u8_fn(uint8_t *y, const float *x, size_t n, const struct tft_affine *q);

/* x: [n] in place, each run of `block` numbers by itself; block is a power of two up to 256 that
   divides n. The Walsh-Hadamard transform in natural order, without its factor 1 / sqrt(block): for
   h = 1, 2, 4 .. block / 2 and each pair i, i + h with i & h == 0,
   (x[i], x[i + h]) = (x[i] + x[i + h], x[i] - x[i + h]).   Fino & Algazi 1976; QuaRot: Ashkboos et
   al. 2024, section 4 */
typedef void tft_hadamard_fn(float *x, size_t n, size_t block);

/* x: [n]: the least and the largest of them and 0. NaN counts for nothing. */
typedef void tft_range_fn(const float *x, size_t n, float *min, float *max);

/* y, x, w: [n], y may be x. r = 1 / sqrt(dot16(x, x) / n + eps);  y = (x * r) * w.   Zhang &
   Sennrich 2019, eq. 4 */
typedef void tft_rmsnorm_fn(float *y, const float *x, const float *w, size_t n, float eps);

/* y, x, w, b: [n], y may be x. m = sum of x in dot16's order / n;  d = x - m;  r = 1 /
   sqrt(dot16(d, d) / n + eps);
   y = fma(d * r, w, b).   Ba et al. 2016, eq. 4 */
typedef void tft_layernorm_fn(float *y, const float *x, const float *w, const float *b, size_t n,
                              float eps);

/* x: [n_head, head_dim] in place; the first n_rot of each head are rotated. c, s: [n_rot], one
   cosine and one signed sine per element: x[i] = fma(x[i], c[i], x[j] * s[i]) with partner j = i ^
   1 (rope_pairs: llama's GGUF rows) or
   j = (i + n_rot / 2) % n_rot (rope_halves: GPT-NeoX, qwen).   Su et al. 2021, eq. 34 */
typedef void tft_rope_fn(float *x, const float *c, const float *s, size_t n_head, size_t head_dim,
                         size_t n_rot);

/* y, a, b: [n], y may be a or b. y = a / (1 + exp(-a)) * b, left to right.   SwiGLU: Shazeer 2020,
   eq. 5 */
typedef void tft_silu_mul_fn(float *y, const float *a, const float *b, size_t n);

/* y, x: [n], y may be x. u = x * fma(x * x, G3, G1);  y = x / (1 + exp(-u)), with G1 = 2 sqrt(2 /
   pi), G3 = 0.044715 G1: the tanh form of Hendrycks & Gimpel 2016, since (1 + tanh(u/2)) / 2 = 1 /
   (1 + exp(-u)) */
typedef void tft_gelu_fn(float *y, const float *x, size_t n);
#define TFT_GELU_G1 1.5957691216057308f
#define TFT_GELU_G3 0.07135481627159786f

/* y, x: [n]. y = y + x */
typedef void tft_add_fn(float *y, const float *x, size_t n);

/* y: [n], x: [n] of the slot's type: exact */
typedef void tft_widen_fn(float *y, const void *x, size_t n);

/* y: [n] of the slot's type, x: [n]: rounded to nearest, ties to even */
typedef void tft_narrow_fn(void *y, const float *x, size_t n);

/*
 * Attention works on one head of the cache and a tile of queries, a span of positions at a time.
 * Keys are in panels of 16 positions, [head_dim, 16], so that 16 scores come out side by side;
 * values in rows, [position, head_dim].
 */
enum { TFT_KEY_PANEL = 16 };

/* s: [nq, ns], ns >= n rounded up to 16; q: [nq, ldq], head_dim of it used; k: [ceil(n / 16),
   head_dim, 16] of the slot's type. s[i][j] = chain(q[i], k[j]) * scale for j < n; the rest of the
   last 16 gets what the panel holds there. */
typedef void tft_score_fn(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq,
                          size_t n, size_t head_dim, float scale);

/* p: [n] in place, n > 0. *max = max of p;  p = exp(p - *max);  *sum = their sum, in dot16's
   order. */
typedef void tft_softmax_fn(float *p, size_t n, float *max, float *sum);

/* o: [nq, ldo], head_dim of it used; p: [nq, ldp]; v: [n, head_dim] of the slot's type.
   o[i][d] = fma(p[i][j], v[j][d], o[i][d]), j ascending. */
typedef void tft_mix_fn(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq,
                        size_t n, size_t head_dim);

/* y, x: [n]. y = fma(x, b, y * a): one span of positions merged into those before it. */
typedef void tft_blend_fn(float *y, float a, const float *x, float b, size_t n);

/* y: [n]. y = y * a */
typedef void tft_scale_fn(float *y, float a, size_t n);

/*
 * Attention on the codes of a quantized cache (codes.h): a block of `tokens` keys or values of a
 * head. With L levels a code c stands for
 *
 *      x = scale * (c - (L - 1) / 2) + mid
 *
 * where scale and mid belong to a channel in this block (KIVI's keys: Liu et al. 2024), or to a
 * token in a group of channels (KIVI's values, SKVQ). Where they belong to what a product sums
 * over, the scales go into the other factor, the query or the probabilities, which is then rounded
 * to integers so that the sums are exact:
 *
 *   fold(f, limit)   r = the largest |f[k]|, where a NaN counts for nothing; step = r / limit,
 *                    inverse = limit / r, or both 0 if r is not finite and at least TFT_FOLD_LEAST,
 *                    so that neither overflows or loses bits; x[k] = rint(min(max(f[k] * inverse,
 *                    -limit), limit)), where max of a NaN is -limit. f is about x * step.
 *
 * Only the distance from `mid` is multiplied by what was rounded: the rest, the sum of q * mid or p
 * * mid, is of floats. A sum of TFT_CODED_SPAN products is at most 256 * 16256 * 255, which int32
 * holds. Of a NaN among the results only that it is one is said.
 */
struct tft_coded {
    const uint8_t *codes;
    uint32_t tokens; /* a multiple of 16; of values, at most TFT_CODED_SPAN */
    uint32_t dim;    /* channels, a multiple of 4; of keys, at most TFT_CODED_SPAN */
    uint32_t group;  /* 0: by channel; scale, mid: [dim] else by token, and by so many channels, a
                        multiple of 16; scale, mid: [ceil(dim / group), tokens] */
    const float *scale, *mid;
    uint16_t quads[TFT_BITS_COUNT]; /* a panel's quads: first those of 1 bit, and so on. Keys:
                                       [tokens / 16] panels, quads of channels. Values: [ceil(dim /
                                       16)] panels, whose last rows may be of no channel; quads of
                                       tokens, all of the same bits */
};

enum { TFT_CODED_SPAN = 256 };
enum { TFT_FOLD_NARROW = 127, TFT_FOLD_WIDE = 16256 }; /* 7 bits, and two times 7 for codes of 8 */
#define TFT_FOLD_LEAST 0x1p-100f

static inline float tft_fold_limit(const struct tft_coded *b)
{
    return b->quads[TFT_BITS_8] ? TFT_FOLD_WIDE : TFT_FOLD_NARROW;
}

/* s: [nq, ns], k->tokens of it written; q: [nq, ldq].  limit = tft_fold_limit(k)
   by channel:  x = fold(q[d] * scale[d], limit);  t_j = sum x[d] (2 c_jd - (L_d - 1));
                s_j = fma((float)t_j, step / 2, dot16(q, mid)) * factor
   by token:    acc = 0; for each group g in order, d in g: x = fold(q[d], limit), t_j likewise,
                acc = fma((float)t_j * (step / 2), scale[g][j], acc), acc = fma(sum of q[d] in
                dot16's order, mid[g][j], acc); s_j = acc * factor */
typedef void tft_score_codes_fn(float *s, size_t ns, const float *q, size_t ldq,
                                const struct tft_coded *k, size_t nq, float factor);

/* o: [nq, ldo], dim of it used; p: [nq, ldp]; v: [nb] blocks alike, nb * tokens <= TFT_CODED_SPAN
   in all, j goes over the tokens of all of them. limit likewise.
   by token:    for each group g, d in g: x = fold(p[j] * scale[g][j], limit);  t_d = sum x[j] (2
                c_jd - (L - 1)); o[d] = o[d] + fma((float)t_d, step / 2, dot16(p, mid[g]))
   by channel:  for each block in order, j in it: x = fold(p[j], limit), t_d likewise;
                o[d] = fma((float)t_d * (step / 2), scale[d], o[d]), o[d] = fma(sum of p[j] in
                dot16's order, mid[d], o[d]) */
typedef void tft_mix_codes_fn(float *o, size_t ldo, const float *p, size_t ldp,
                              const struct tft_coded *v, size_t nb, size_t nq);

/* How groups of numbers become codes. A range may be clipped to a part of itself, which loses the
   ends and is finer between them: SKVQ, section 3.1; of several such parts the one is taken that
   loses least. */
struct tft_fit {
    const float *clip; /* [n_clip > 0] parts, 0 < clip <= 1 */
    size_t n_clip;
    bool to_zero;      /* both ends are moved towards 0 (SKVQ, eq. 2), not towards the middle */
    bool f8;           /* scale and mid are kept as E4M3 times a power of two each; else as f16 */
    float scale_unit, mid_unit; /* powers of two */
};

/* 16 groups side by side: x: [n] rows of 16, ldx apart; code: [n] rows of 16, ldc apart; half: [16]
   (L - 1) / 2 of each group; scale, mid: [16].
   low, high = the least and largest x, where a NaN counts for nothing. For each clip a in order:
      low' = low * a, high' = high * a if to_zero;  s = (high' - low') / (2 half), times a unless
      to_zero;  m = (high' + low') / 2 s, m rounded to what they are kept as, from -65504 to 65504
                or from -448 units to 448, NaN to the least, and never -0;
      inverse = 1 / s, or 0 if s < FLT_MIN;  c = rint(min(max(fma(x - m, inverse, half), 0), 2
                                             half)), where max of a NaN is 0;
      e = x - fma(c - half, s, m);  error = fma(e, e, error), from 0 in the order of n
   The first clip is taken, then each whose error is less than that of the one taken. */
typedef void tft_fit_fn(uint8_t *code, size_t ldc, float *scale, float *mid, const float *x,
                        size_t ldx, size_t n, const float *half, const struct tft_fit *how);

/* y: [n], x: [n] E4M3. y = x * unit */
typedef void tft_widen_f8_fn(float *y, const uint8_t *x, size_t n, float unit);

/*
 * What the machine can do at most, for tuffet bench: loops of nothing but the instruction that the
 * kernels live on, over registers. Each returns how many operations it did (a multiply-add is two).
 */
typedef double tft_peak_fn(size_t rounds);

/* Reads n floats, n a multiple of 64, and returns the largest. */
typedef float tft_read_fn(const float *x, size_t n);

struct tft_kernels {
    const char *name; /* the rung: "c", "avx2", "avx512", "neon" */
    tft_gemm_fn *gemm[TFT_NUM_COUNT];
    tft_rmsnorm_fn *rmsnorm;
    tft_layernorm_fn *layernorm;
    tft_rope_fn *rope_pairs, *rope_halves;
    tft_silu_mul_fn *silu_mul;
    tft_gelu_fn *gelu;
    tft_add_fn *add;
    tft_widen_fn *widen[TFT_NUM_COUNT];
    tft_narrow_fn *narrow[TFT_NUM_COUNT];
    tft_score_fn *score[TFT_NUM_COUNT]; /* f32 and f16 */
    tft_softmax_fn *softmax;
    tft_mix_fn *mix[TFT_NUM_COUNT]; /* f32 and f16 */
    tft_blend_fn *blend;
    tft_scale_fn *scale;

    tft_score_codes_fn *score_codes;
    tft_mix_codes_fn *mix_codes;
    tft_fit_fn *fit;
    tft_widen_f8_fn *widen_f8;

    tft_gemm_i8_fn *gemm_i8;
    tft_quantize_fn *quantize;
    tft_rmsnorm_u8_fn *rmsnorm_u8;
    tft_layernorm_u8_fn *layernorm_u8;
    tft_silu_mul_u8_fn *silu_mul_u8;
    tft_gelu_u8_fn *gelu_u8;
    tft_hadamard_fn *hadamard;
    tft_range_fn *range;

    tft_peak_fn *peak_fma, *peak_int8; /* float fma; exact sums of int8 products */
    tft_read_fn *read;
};

/* The ladder: rung 0 is the reference, which every machine has; each higher rung keeps the slots it
   does not replace. A rung that the machine lacks is left out, and those above it may be there all
   the same. */
int tft_kernels_rungs(void);                          /* rungs of this machine, at least 1 */
void tft_kernels_fill(struct tft_kernels *k, int rung); /* 0 <= rung < tft_kernels_rungs() */
const char *tft_kernels_name(int rung);

/* The highest rung within the limit, and the limit by name: NULL takes it away, false for a name
   this machine lacks. */
int tft_kernels_best(void);
bool tft_kernels_limit(const char *name);

#endif
