/*
 * The sums of gemm_packed.h in registers of 256 or 512 bits: a quad of a panel is PARTS registers.
 *
 * Parameters, besides reg_*.h:
 *
 *   i_pair(acc, w0, x0, w1, x1, wide)   acc + products of unsigned bytes w and signed bytes x; with
 *                                       PACKED_SIGNED and wide, w is signed
 *   PACKED_SIGNED, PACKED_RUNS, PACKED_TOKENS, PACKED_PANELS of gemm_packed.h
 *
 * packed_one.h: a code stays at a bit n of its byte, which is the same for all codes of a row, so
 * the sum of a row is 2^n times the sum of its products. n is below NARROW_BITS: higher bits are
 * shifted down by as much. Parameters:
 *
 *   NARROW_BITS                8 or 4
 *   i_narrow(acc, c, x)        acc + products of unsigned bytes c and signed bytes x, for 8 quads
 *   i_narrow_sums(acc)         the sums as int32
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

#if PACKED_RUNS
typedef p_acc p_run; /* of pairs of products, as int16 */

FORCE_INLINE p_run p_run_dot(p_run sum, const breg *w, const uint8_t *x, bool first)
{
    int32_t quad;
    memcpy(&quad, x, 4);
    UNROLL for (int p = 0; p < PARTS; p++) {
        ireg pairs = i_maddubs(w[p], i_set(quad));
        sum.r[p] = first ? pairs : i_add16(sum.r[p], pairs);
        __asm__("" : "+v"(sum.r[p])); /* keeps gcc from moving sums between registers */
    }
    return sum;
}

static inline p_acc p_run_add(p_acc acc, p_run sum)
{
    UNROLL for (int p = 0; p < PARTS; p++)
        acc.r[p] = i_add(acc.r[p], i_madd(sum.r[p], i_set(0x00010001)));
    return acc;
}
#endif

typedef p_acc n_acc;

static inline n_acc n_start(void) { return p_start(0, false); }

/* The bits of the codes in register r of a quad, after higher bits are shifted down. */
static inline breg n_mask(int r, int bits)
{
    static const uint64_t byte = 0x0101010101010101;
    uint64_t lane[BYTES / 8];
    UNROLL for (int i = 0; i < BYTES / 8; i++)
    {
        int at = (r * BYTES / 8 + i) / bits * bits; /* the lowest bit of codes 8 i .. 8 i + 7 */
        lane[i] = byte * (bits == 1 ? 1 : 3) << at % NARROW_BITS;
    }
    return i_load(lane);
}

static inline n_acc n_dot(n_acc acc, const uint8_t *from, const uint8_t *x, int bits)
{
    static const uint64_t down[8] = {0, 0, 0, 0, 4, 4, 4, 4};
    int32_t quad;
    memcpy(&quad, x, 4);
    UNROLL for (int p = 0; p < PARTS; p++) {
        breg c = b_repeat(from, p, 8 * bits);
        if (NARROW_BITS == 4 && (PARTS == 1 || p == 1))
            c = b_shift(c, down + p * BYTES / 8);
        acc.r[p] = i_narrow(acc.r[p], b_and(c, n_mask(p, bits)), i_set(quad));
        __asm__("" : "+v"(acc.r[p])); /* keeps gcc from moving sums between registers */
    }
    return acc;
}

static inline v16 n_floats(n_acc acc, int32_t minus, int bits)
{
    int32_t at[TFT_PANEL];
    for (int r = 0; r < TFT_PANEL; r++)
        at[r] = r / 2 / bits * bits % NARROW_BITS;
    UNROLL for (int p = 0; p < PARTS; p++) {
        ireg sum = i_narrow_sums(acc.r[p]);
        sum = i_right(bits == 1 ? i_add(sum, sum) : sum, i_load(at + p * LANES));
        acc.r[p] = i_add(sum, i_set(minus));
    }
    return p_floats(acc, false);
}

/* With 16 registers, factors wait in memory. */
#define DIRECT_BITS 2
#define DIRECT_PANELS 2
#include "simd/template/gemm_packed.h"
