/*
 * gemm_low.h in registers of 256 or 512 bits. Parameters, besides reg_*.h and gemm_i8.h:
 *
 *   i_dot8, i_total8   as for coded_x86.h; the unsigned bytes are a token's
 *   LOW_RUN(bits)
 *   LOW_TILE           of low_runs.h, or 0: without it
 */
#define LOW_FENCE()

typedef struct {
    ireg r[PARTS];
} l_part, l_acc, l_total;

static inline l_acc l_zero(void)
{
    l_acc a;
    UNROLL for (int p = 0; p < PARTS; p++)
        a.r[p] = i_set(0);
    return a;
}

static inline l_part l_run(l_acc acc)
{
    (void)acc;
    return l_zero();
}

static inline l_total l_begin(void) { return l_zero(); }

static inline l_part l_dot(l_part part, const breg *a, const uint8_t *x)
{
    int32_t quad;
    memcpy(&quad, x, 4);
    UNROLL for (int p = 0; p < PARTS; p++) {
        part.r[p] = i_dot8(part.r[p], i_set(quad), a[p]);
        __asm__("" : "+v"(part.r[p])); /* keeps gcc from moving sums between registers */
    }
    return part;
}

static inline l_acc l_sum(l_acc acc, l_part part)
{
    UNROLL for (int p = 0; p < PARTS; p++)
        acc.r[p] = i_add(acc.r[p], i_total8(part.r[p]));
    return acc;
}

/* z and x fit into the low halves of int32 numbers, so vpmaddwd multiplies them. */
static inline l_total l_group(l_total t, l_acc acc, const uint8_t *bytes, int32_t x)
{
    UNROLL for (int p = 0; p < PARTS; p++) {
        ireg b = i_widen_u8(bytes + p * LANES);
        ireg a = i_sub(acc.r[p], i_madd(i_right4(b), i_set(x)));
        t.r[p] = i_add(t.r[p], i_mullo(i_and(b, i_set(15)), a));
    }
    return t;
}

static inline void l_store(int32_t *sum, l_total t)
{
    UNROLL for (int p = 0; p < PARTS; p++)
        i_store(sum + p * LANES, t.r[p]);
}

#if LOW_TILE
/* low_runs.h multiplies by s later: z in each byte. */
static inline void l_factors(breg *s, breg *z, const uint8_t *bytes)
{
    UNROLL for (int p = 0; p < PARTS; p++) {
        z[p] = i_mullo(i_right4(i_widen_u8(bytes + p * LANES)), i_set(0x01010101));
        s[p] = i_set(0); /* not used */
    }
}

static inline breg l_weights(breg a, breg s, breg z)
{
    (void)s;
    return b_sub(a, z);
}

#include "low_runs.h"
#else
/* s twice in each int32, for products of 16 bits; s * z in each byte. */
static inline void l_factors(breg *s, breg *sz, const uint8_t *bytes)
{
    UNROLL for (int p = 0; p < PARTS; p++) {
        ireg b = i_widen_u8(bytes + p * LANES), scale = i_and(b, i_set(15));
        s[p] = i_mullo(scale, i_set(0x00010001));
        sz[p] = i_mullo(i_madd(scale, i_right4(b)), i_set(0x01010101));
    }
}

/* A product of a code and s is at most 225: no carry from the lower byte of 16 bits. */
static inline breg l_weights(breg a, breg s, breg sz) { return b_sub(i_mullo16(a, s), sz); }
#endif

#include "simd/template/gemm_low.h"
