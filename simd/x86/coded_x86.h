/*
 * Attention on codes (codes_attention.h) in registers of 256 or 512 bits. A quad is 64 bytes, 4 per
 * row.
 *
 * i8 factors: a quad is multiplied by 4 bytes of x, repeated in every lane. i16 factors: bytes 0
 * and 2 of each row are widened to 16 bits in one register, bytes 1 and 3 in another, and each
 * register is multiplied by a pair of factors. r_store_x16 stores the factors in that order, the
 * s-th four of 16 at x_quad(s).
 *
 * Parameters, besides reg_*.h and the parameters of codes_attention.h not defined here:
 *
 *   i_dot8(acc, c, x)    acc + products of unsigned bytes of at most 15 and signed bytes
 *   i_dot16(acc, c, x)   acc + products of pairs of int16, in int32
 *   i_total8(acc)        the sums of i_dot8 as int32
 */
typedef struct {
    ireg r[PARTS];
} c_acc;
typedef struct {
    ireg r[2 * PARTS]; /* i8 factors use the first half */
} c_codes;
typedef const uint8_t *c_x;

static inline c_acc c_zero(void)
{
    c_acc a;
    UNROLL for (int p = 0; p < PARTS; p++)
        a.r[p] = i_set(0);
    return a;
}

static inline void c_put(uint8_t *to, const breg *a)
{
    UNROLL for (int p = 0; p < PARTS; p++)
        i_store((int32_t *)(void *)(to + p * BYTES), a[p]);
}

static inline c_codes c_take(const breg *a)
{
    c_codes c;
    UNROLL for (int p = 0; p < PARTS; p++)
        c.r[p] = a[p];
    return c;
}

static inline void c_put_x(uint8_t *to, v16 a, bool i16)
{
    if (i16)
        r_store_x16(to, a.r);
    else
        r_store_x8(to, a.r);
}

static inline c_codes c_load(const uint8_t *from, bool i16)
{
    c_codes c;
    UNROLL for (int p = 0; p < PARTS; p++) {
        c.r[p] = i_load(from + p * BYTES);
        if (i16) {
            c.r[PARTS + p] = i_odd(c.r[p]);
            c.r[p] = i_even(c.r[p]);
        }
    }
    return c;
}

static inline c_x c_factors(const uint8_t *x, bool i16) { return (void)i16, x; }

static inline c_acc c_dot(c_acc acc, c_codes c, c_x x, size_t s, bool i16)
{
    int32_t first, second = 0; /* 4 bytes each; gcc would load 8 and split them */
    memcpy(&first, i16 ? x + 8 * x_quad(s) : x + 4 * s, 4);
    if (i16)
        memcpy(&second, x + 8 * x_quad(s) + 4, 4);
    UNROLL for (int p = 0; p < PARTS; p++) {
        acc.r[p] = i16 ? i_dot16(acc.r[p], c.r[p], i_set(first))
                        : i_dot8(acc.r[p], c.r[p], i_set(first));
        if (i16)
            acc.r[p] = i_dot16(acc.r[p], c.r[PARTS + p], i_set(second));
        __asm__("" : "+v"(acc.r[p])); /* keeps gcc from moving sums between registers */
    }
    return acc;
}

static inline c_acc c_add(c_acc a, c_acc b)
{
    UNROLL for (int p = 0; p < PARTS; p++)
        a.r[p] = i_add(a.r[p], b.r[p]);
    return a;
}

static inline void c_store(int32_t *sum, c_acc acc, bool i16, bool add)
{
    UNROLL for (int p = 0; p < PARTS; p++) {
        ireg a = i16 ? acc.r[p] : i_total8(acc.r[p]);
        i_store(sum + p * LANES, add ? i_add(i_load(sum + p * LANES), a) : a);
    }
}

#define CODED_I8 1
#include "simd/template/codes_attention.h"
