/*
 * 16 lanes in whatever registers a unit has: a v16 is one of AVX-512, two of AVX2, four of NEON.
 * The contract of kernels.h is written in 16 lanes, so wide.h and wide_codes.h are too. A rung's .c
 * file includes its registers (reg_*.h) first. What they must offer:
 *
 *   reg, LANES                          4, 8 or 16 floats
 *   r_set, r_add .. r_fma               in every lane what the contract says one operation does;
 *                                       r_fma(a, b, c) is a * b + c
 *   r_max, r_min                        of a NaN and b it is b
 *   r_pick(a, b, c, d)                  a < b ? c : d
 *   r_bits(a, m)                        those bits of a that the integer m has
 *   r_flip(a, h)                        lanes i and i ^ h exchanged, h = 1, 2 .. LANES / 2, a
 *                                       constant
 *   r_load, r_load_f16, _bf16, _f8      LANES numbers, unaligned; r_store and r_store_f16 likewise
 *   r_store_bytes(p, a, zero)           (int)rint(a) + zero, which is in 0 .. 255
 *   r_doubled(p, shift)                 (float)(2 p[i] - shift), LANES integers of 32 bits
 *   r_centre                            for dot.h, the integer product
 *   r_sum, r_top                        the rest of sum16's tree, and the maximum over the lanes
 *   r_exp, with SLEEF or HAVE_EXP       tft_expf in every lane; without, the compiler makes it here
 *                                       from the C function
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "expf.h"
#include "half.h"
#include "peak.h"

#define WIDE static inline __attribute__((always_inline))
enum { PARTS = 16 / LANES };

typedef struct {
    reg r[PARTS];
} v16;

#if !TFT_SLEEF && !defined HAVE_EXP
WIDE reg r_exp(reg a)
{
    float t[LANES];
    r_store(t, a);
    for (int i = 0; i < LANES; i++)
        t[i] = tft_expf(t[i]);
    return r_load(t);
}
#endif

#define EACH_PART(expr)                                                                            \
    v16 y;                                                                                         \
    UNROLL for (int p = 0; p < PARTS; p++) y.r[p] = (expr);                                        \
    return y

WIDE v16 v_set(float x) { EACH_PART(r_set(x)); }
WIDE v16 v_add(v16 a, v16 b) { EACH_PART(r_add(a.r[p], b.r[p])); }
WIDE v16 v_sub(v16 a, v16 b) { EACH_PART(r_sub(a.r[p], b.r[p])); }
WIDE v16 v_mul(v16 a, v16 b) { EACH_PART(r_mul(a.r[p], b.r[p])); }
WIDE v16 v_div(v16 a, v16 b) { EACH_PART(r_div(a.r[p], b.r[p])); }
WIDE v16 v_max(v16 a, v16 b) { EACH_PART(r_max(a.r[p], b.r[p])); }
WIDE v16 v_min(v16 a, v16 b) { EACH_PART(r_min(a.r[p], b.r[p])); }
WIDE v16 v_fma(v16 a, v16 b, v16 c) { EACH_PART(r_fma(a.r[p], b.r[p], c.r[p])); }
WIDE v16 v_pick(v16 a, v16 b, v16 c, v16 d) { EACH_PART(r_pick(a.r[p], b.r[p], c.r[p], d.r[p])); }
WIDE v16 v_bits(v16 a, uint32_t mask) { EACH_PART(r_bits(a.r[p], mask)); }
WIDE v16 v_flip(v16 a, int h) { EACH_PART(h < LANES ? r_flip(a.r[p], h) : a.r[p ^ h / LANES]); }
WIDE v16 v_exp(v16 a) { EACH_PART(r_exp(a.r[p])); }
WIDE v16 v_load(const float *x) { EACH_PART(r_load(x + p * LANES)); }
WIDE v16 v_load_f8(const uint8_t *x) { EACH_PART(r_load_f8(x + p * LANES)); }
WIDE v16 v_doubled(const int32_t *x, int32_t shift) { EACH_PART(r_doubled(x + p * LANES, shift)); }
WIDE void v_store(float *y, v16 a)
{
    UNROLL for (int p = 0; p < PARTS; p++) r_store(y + p * LANES, a.r[p]);
}

WIDE float v_sum(v16 a)
{
    UNROLL for (int half = PARTS / 2; half; half /= 2)
        UNROLL for (int p = 0; p < half; p++) a.r[p] = r_add(a.r[p], a.r[p + half]);
    return r_sum(a.r[0]);
}

WIDE float v_top(v16 a)
{
    UNROLL for (int p = 1; p < PARTS; p++) a.r[0] = r_max(a.r[0], a.r[p]);
    return r_top(a.r[0]);
}

/* LANES numbers of the slot's type. */
WIDE reg r_load_num(const void *x, size_t k, enum tft_num num)
{
    return num == TFT_NUM_F32   ? r_load((const float *)x + k)
           : num == TFT_NUM_F16 ? r_load_f16((const uint16_t *)x + k)
                                : r_load_bf16((const uint16_t *)x + k);
}

WIDE v16 v_load_num(const void *x, size_t k, enum tft_num num)
{
    EACH_PART(r_load_num(x, k + (size_t)p * LANES, num));
}

/* The last n < 16 numbers of a row go through memory of ours, so that nothing past them is touched;
   the other lanes are 0. */
WIDE v16 v_load_rest(const void *x, size_t k, size_t n, enum tft_num num)
{
    char t[16 * sizeof(float)] = {0};
    memcpy(t, (const char *)x + k * tft_num_bytes(num), n * tft_num_bytes(num));
    return v_load_num(t, 0, num);
}

WIDE void v_store_rest(float *y, v16 a, size_t n)
{
    float t[16];
    v_store(t, a);
    memcpy(y, t, n * sizeof *t);
}

/* The next 16 numbers of a row, or the n that are left. */
WIDE v16 get(const float *x, size_t n)
{
    return n >= 16 ? v_load(x) : v_load_rest(x, 0, n, TFT_NUM_F32);
}

WIDE void put(float *y, v16 a, size_t n)
{
    if (n >= 16)
        v_store(y, a);
    else
        v_store_rest(y, a, n);
}

WIDE v16 keep_rest(v16 sum, v16 old, size_t n)
{
    float t[16];
    v_store(t, old);
    v_store_rest(t, sum, n);
    return v_load(t);
}

/* The sum, but the old value in lanes past the end of the row. */
WIDE v16 keep(v16 sum, v16 old, size_t n)
{
    return n >= 16 ? sum : keep_rest(sum, old, n);
}

/* rint of what is in -2^22 .. 2^22: where a step is 1 there are no fractions. */
WIDE v16 v_rint(v16 a)
{
    return v_sub(v_add(a, v_set(0x1.8p23f)), v_set(0x1.8p23f));
}

static inline size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}
