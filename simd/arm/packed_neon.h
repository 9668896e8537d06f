/*
 * The weights of gemm_packed.h in registers of NEON, each 4 columns of 4 rows. Wide numbers are
 * made signed.
 *
 * Parameters, besides coded_neon.h: p_acc, p_start, p_dot, p_floats, PACKED_TOKENS and
 * PACKED_PANELS of gemm_packed.h.
 */
#define PACKED_SIGNED 1

/* Ends a p_dot: its sums r[0 .. 3] are finished before the next p_dot. Otherwise gcc finishes one
   sum of a whole group after the other, and runs out of registers for the weights. */
#define TOGETHER(r) __asm__ volatile("" : "+w"((r)[0]), "+w"((r)[1]), "+w"((r)[2]), "+w"((r)[3]))

typedef struct {
    int8x16_t r[2][4];
} p_quads;

static inline p_quads p_take(const breg *a, const breg *b, bool wide, uint8_t zero)
{
    p_quads q;
    UNROLL for (int i = 0; i < 4; i++) {
        q.r[0][i] = vreinterpretq_s8_u8(wide ? vsubq_u8(a[i], b_set(zero)) : a[i]);
        q.r[1][i] = vreinterpretq_s8_u8(wide ? vsubq_u8(b[i], b_set(zero)) : b[i]);
    }
    return q;
}
