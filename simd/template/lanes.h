/*
 * v16, a vector of 16 floats. The numerics contract (kernels.h) counts in 16 lanes, and so do all
 * templates; a v16 is one register of AVX-512, two of AVX2, four of NEON.
 *
 * Parameters: the registers of the instruction set. The .c file of an ISA level includes their
 * reg_*.h before any template:
 *
 *   reg, LANES                  a register of 4, 8 or 16 floats
 *   r_set, r_add .. r_fma       one operation of the contract in every lane;
 *                               r_fma(a, b, c) is a * b + c
 *   r_max, r_min                (a, b): b where a is NaN
 *   r_pick(a, b, c, d)          a < b ? c : d
 *   r_mask(a, m)                the bits of a & the integer m
 *   r_swap(a, h)                exchanges lanes i and i ^ h; h is a constant 1, 2 .. LANES / 2
 *   r_load, r_store             LANES floats, unaligned
 *   r_load_f16, _bf16, _f8      LANES numbers of a shorter type; r_store_f16
 *   r_store_bytes(p, a, zero)   LANES bytes (int)rint(a) + zero, which must be in 0 .. 255
 *   r_doubled(p, shift)         (float)(2 p[i] - shift), of LANES int32
 *   r_difference(p, q)          (float)(p[i] - q[i]), of LANES int32
 *   r_hsum, r_hmax              across the lanes: the rest of sum16's tree, and the maximum
 *   r_rint                      rounds to an integer, ties to even
 *   r_scale(a, q)               a 2^q, rounded once, for integers -150 <= q <= 150
 *   r_or_nan(a, x)              x where x is NaN, else a
 *   r_hsum4, if HAVE_HSUM4      r_hsum of four registers at once
 *
 * With HAVE_PARTS, also for the first n lanes, where n <= 0 is none and n >= LANES is all:
 *
 *   r_load_part(p, n)           the other lanes are 0; reads nothing after p[n - 1]
 *   r_store_part(p, a, n)       writes nothing after p[n - 1]
 *   r_select_part(a, b, n)      the first n lanes of a, the others of b
 */
#ifndef TFT_TEMPLATE_LANES_H
#define TFT_TEMPLATE_LANES_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "simd/expf.h"
#include "simd/half.h"
#include "simd/hints.h"
#include "simd/kernels.h"
#include "simd/peak.h"

_Static_assert(LANES == 4 || LANES == 8 || LANES == 16, "a v16 is a whole number of registers");

enum { PARTS = 16 / LANES };

typedef struct {
    reg r[PARTS];
} v16;

/* tft_expf (expf.h) in every lane. At the limits of y, as beyond them, the result is 0 or
   infinity. */
FORCE_INLINE reg r_exp(reg x)
{
    reg y = r_min(r_max(x, r_set(-104.0f)), r_set(104.0f)), q = r_rint(r_mul(y, r_set(TFT_R_LN2)));
    reg s = r_fma(q, r_set(-TFT_LN2_HI), y);
    s = r_fma(q, r_set(-TFT_LN2_LO), s);
    reg u = r_set(TFT_EXP_6);
    u = r_fma(u, s, r_set(TFT_EXP_5));
    u = r_fma(u, s, r_set(TFT_EXP_4));
    u = r_fma(u, s, r_set(TFT_EXP_3));
    u = r_fma(u, s, r_set(TFT_EXP_2));
    u = r_fma(u, s, r_set(0.5f));
    u = r_add(r_set(1.0f), r_fma(r_mul(s, s), u, s));
    return r_or_nan(r_scale(u, q), x);
}

/* The body of a function that returns `expr` in register p of a v16. */
#define EACH_PART(expr)                                                                            \
    v16 y;                                                                                         \
    UNROLL for (int p = 0; p < PARTS; p++) y.r[p] = (expr);                                        \
    return y

FORCE_INLINE v16 v_set(float x) { EACH_PART(r_set(x)); }
FORCE_INLINE v16 v_add(v16 a, v16 b) { EACH_PART(r_add(a.r[p], b.r[p])); }
FORCE_INLINE v16 v_sub(v16 a, v16 b) { EACH_PART(r_sub(a.r[p], b.r[p])); }
FORCE_INLINE v16 v_mul(v16 a, v16 b) { EACH_PART(r_mul(a.r[p], b.r[p])); }
FORCE_INLINE v16 v_div(v16 a, v16 b) { EACH_PART(r_div(a.r[p], b.r[p])); }
FORCE_INLINE v16 v_max(v16 a, v16 b) { EACH_PART(r_max(a.r[p], b.r[p])); }
FORCE_INLINE v16 v_min(v16 a, v16 b) { EACH_PART(r_min(a.r[p], b.r[p])); }
FORCE_INLINE v16 v_fma(v16 a, v16 b, v16 c) { EACH_PART(r_fma(a.r[p], b.r[p], c.r[p])); }
FORCE_INLINE v16 v_pick(v16 a, v16 b, v16 c, v16 d)
{
    EACH_PART(r_pick(a.r[p], b.r[p], c.r[p], d.r[p]));
}
FORCE_INLINE v16 v_mask(v16 a, uint32_t m) { EACH_PART(r_mask(a.r[p], m)); }
FORCE_INLINE v16 v_swap(v16 a, int h)
{
    EACH_PART(h < LANES ? r_swap(a.r[p], h) : a.r[p ^ h / LANES]);
}
FORCE_INLINE v16 v_exp(v16 a) { EACH_PART(r_exp(a.r[p])); }
FORCE_INLINE v16 v_load(const float *x) { EACH_PART(r_load(x + p * LANES)); }
FORCE_INLINE v16 v_load_f8(const uint8_t *x) { EACH_PART(r_load_f8(x + p * LANES)); }
FORCE_INLINE v16 v_doubled(const int32_t *x, int32_t shift)
{
    EACH_PART(r_doubled(x + p * LANES, shift));
}
FORCE_INLINE void v_store(float *y, v16 a)
{
    UNROLL for (int p = 0; p < PARTS; p++)
        r_store(y + p * LANES, a.r[p]);
}

/* sum16 of the lanes. */
FORCE_INLINE float v_hsum(v16 a)
{
    UNROLL for (int half = PARTS / 2; half; half /= 2)
        UNROLL for (int p = 0; p < half; p++)
            a.r[p] = r_add(a.r[p], a.r[p + half]);
    return r_hsum(a.r[0]);
}

/* The largest lane. */
FORCE_INLINE float v_hmax(v16 a)
{
    UNROLL for (int p = 1; p < PARTS; p++)
        a.r[0] = r_max(a.r[0], a.r[p]);
    return r_hmax(a.r[0]);
}

/* x[k] .. x[k + LANES - 1], numbers of type num. */
FORCE_INLINE reg r_load_num(const void *x, size_t k, enum tft_num num)
{
    return num == TFT_NUM_F32   ? r_load((const float *)x + k)
           : num == TFT_NUM_F16 ? r_load_f16((const uint16_t *)x + k)
                                : r_load_bf16((const uint16_t *)x + k);
}

FORCE_INLINE v16 v_load_num(const void *x, size_t k, enum tft_num num)
{
    EACH_PART(r_load_num(x, k + (size_t)p * LANES, num));
}

/* x[k] .. x[k + n - 1] for n < 16; the other lanes are 0. Goes through a buffer, to read nothing
   past the end of the row. */
FORCE_INLINE v16 v_load_buffer(const void *x, size_t k, size_t n, enum tft_num num)
{
    char t[16 * sizeof(float)] = {0};
    memcpy(t, (const char *)x + k * tft_num_bytes(num), n * tft_num_bytes(num));
    return v_load_num(t, 0, num);
}

/* Lanes 0 .. n - 1 of x, y or a; later lanes are 0, not written, or of b; n < 16. */
#ifdef HAVE_PARTS
#define PART_N ((int)n - p * LANES)
FORCE_INLINE v16 v_load_part(const float *x, size_t n)
{
    EACH_PART(r_load_part(x + p * LANES, PART_N));
}

FORCE_INLINE void v_store_part(float *y, v16 a, size_t n)
{
    UNROLL for (int p = 0; p < PARTS; p++)
        r_store_part(y + p * LANES, a.r[p], PART_N);
}

FORCE_INLINE v16 v_select_part(v16 a, v16 b, size_t n)
{
    EACH_PART(r_select_part(a.r[p], b.r[p], PART_N));
}
#else
FORCE_INLINE v16 v_load_part(const float *x, size_t n)
{
    return v_load_buffer(x, 0, n, TFT_NUM_F32);
}

FORCE_INLINE void v_store_part(float *y, v16 a, size_t n)
{
    float t[16];
    v_store(t, a);
    memcpy(y, t, n * sizeof *t);
}

FORCE_INLINE v16 v_select_part(v16 a, v16 b, size_t n)
{
    float t[16];
    v_store(t, b);
    v_store_part(t, a, n);
    return v_load(t);
}
#endif

/* The same for a row with n >= 1 remaining numbers: 16 lanes, or the last n of the row. */
FORCE_INLINE v16 v_load_n(const float *x, size_t n)
{
    return n >= 16 ? v_load(x) : v_load_part(x, n);
}

FORCE_INLINE void v_store_n(float *y, v16 a, size_t n)
{
    if (n >= 16)
        v_store(y, a);
    else
        v_store_part(y, a, n);
}

FORCE_INLINE v16 v_select_n(v16 a, v16 b, size_t n)
{
    return n >= 16 ? a : v_select_part(a, b, n);
}

/* rint of numbers in -2^22 .. 2^22: adding 1.5 * 2^23 leaves no bits for a fraction. */
FORCE_INLINE v16 v_rint(v16 a)
{
    return v_sub(v_add(a, v_set(0x1.8p23f)), v_set(0x1.8p23f));
}

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
