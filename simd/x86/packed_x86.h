/*
 * The sums of gemm_packed.h in registers of 256 or 512 bits: a quad of a panel is PARTS registers.
 *
 * Parameters, besides reg_*.h:
 *
 *   i_pair(acc, w0, x0, w1, x1, wide)   acc + products of unsigned bytes w and signed bytes x; with
 *                                       PACKED_SIGNED and wide, w is signed
 *   PACKED_SIGNED, PACKED_TOKENS, PACKED_PANELS of gemm_packed.h
 */
typedef struct {
    ireg r[PARTS];
} p_acc;
typedef struct {
    ireg r[2][PARTS];
} p_quads;

static inline p_acc p_start(int32_t n, bool wide)
{
    (void)wide;
    p_acc a;
    UNROLL for (int p = 0; p < PARTS; p++)
        a.r[p] = i_set(n);
    return a;
}

static inline p_quads p_take(const breg *a, const breg *b, bool wide, uint8_t zero)
{
    p_quads q;
    UNROLL for (int p = 0; p < PARTS; p++) {
        q.r[0][p] = PACKED_SIGNED && wide ? b_sub(a[p], b_set(zero)) : a[p];
        q.r[1][p] = PACKED_SIGNED && wide ? b_sub(b[p], b_set(zero)) : b[p];
    }
    return q;
}

static inline p_acc p_dot(p_acc acc, p_quads w, const uint8_t *x, bool wide)
{
    int32_t first, second;
    memcpy(&first, x, 4);
    memcpy(&second, x + 4, 4);
    UNROLL for (int p = 0; p < PARTS; p++) {
        acc.r[p] = i_pair(acc.r[p], w.r[0][p], i_set(first), w.r[1][p], i_set(second), wide);
        __asm__("" : "+v"(acc.r[p])); /* keeps gcc from moving sums between registers */
    }
    return acc;
}

static inline v16 p_floats(p_acc acc, bool wide)
{
    (void)wide;
    EACH_PART(i_floats(acc.r[p]));
}

#include "simd/template/gemm_packed.h"
