/*
 * The weights of gemm_packed.h in registers of NEON, each 4 columns of 4 rows. Wide numbers become
 * signed.
 *
 * Parameters, besides coded_neon.h: p_acc, p_start, p_dot, p_floats, PACKED_TOKENS and
 * PACKED_PANELS of gemm_packed.h; n_acc, n_start, n_dot and n_floats of packed_one.h.
 */
#define PACKED_SIGNED 1
#define PACKED_RUNS 0
#define DIRECT_BITS 1
#define DIRECT_PANELS 1

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
