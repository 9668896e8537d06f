/*
 * gemm_i8 for AVX-512 without dot products of bytes. vpmaddubsw would saturate, and AVX-512 has no
 * vpsignb for the method of avx2.c. So bytes are widened to 16 bits: bytes 0 and 2 of a quad by
 * shifts left and right, bytes 1 and 3 by a shift right. vpmaddwd then adds two products in 32
 * bits.
 */
#include <string.h>

typedef struct {
    ireg r[PARTS];
} d_acc;
typedef struct {
    ireg even[PARTS], odd[PARTS];
} d_weights;
typedef const uint8_t *d_bytes;

static inline d_acc d_zero(void)
{
    d_acc a;
    UNROLL for (int p = 0; p < PARTS; p++)
        a.r[p] = i_set(0);
    return a;
}

static inline d_acc d_add(d_acc a, d_acc b)
{
    UNROLL for (int p = 0; p < PARTS; p++)
        a.r[p] = i_add(a.r[p], b.r[p]);
    return a;
}

static inline d_weights d_load(const int8_t *w)
{
    d_weights v;
    UNROLL for (int p = 0; p < PARTS; p++) {
        ireg a = i_load(w + p * 4 * LANES);
        v.even[p] = i_even(a);
        v.odd[p] = i_odd(a);
    }
    return v;
}

static inline d_bytes d_token(const uint8_t *x, size_t next)
{
    (void)next;
    return x;
}

static inline void d_store(int32_t *sum, size_t next, d_acc a)
{
    (void)next;
    UNROLL for (int p = 0; p < PARTS; p++)
        i_store(sum + p * LANES, a.r[p]);
}

static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    int32_t quad;
    memcpy(&quad, x + 4 * s, 4);
    ireg b = i_set(quad), even = i_and(b, i_set(0x00ff00ff)), odd = i_high(b);
    UNROLL for (int p = 0; p < PARTS; p++) {
        acc.r[p] = i_add(acc.r[p], i_add(i_madd(w.even[p], even), i_madd(w.odd[p], odd)));
        /* else gcc adds the products of four steps first, and runs out of registers */
        __asm__("" : "+v"(acc.r[p]));
    }
    return acc;
}

#define DOT_ROWS 1
#define DOT_QUADS 1
#define DOT_FLIP 0
#include "simd/template/gemm_i8.h"
