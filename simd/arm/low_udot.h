/* gemm_low with udot: codes times the bytes of a token, both unsigned. */
typedef struct {
    uint32x4_t r[4];
} l_part, l_acc;

static inline l_acc l_zero(void)
{
    return (l_acc){{vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)}};
}

static inline l_part l_run(l_acc acc) { return acc; }

static inline l_part l_dot(l_part part, const breg *a, const uint8_t *x)
{
    uint32_t quad;
    memcpy(&quad, x, 4);
    uint8x16_t b = vreinterpretq_u8_u32(vdupq_n_u32(quad));
    UNROLL for (int i = 0; i < 4; i++)
        part.r[i] = vdotq_u32(part.r[i], a[i], b);
    return part;
}

static inline l_acc l_sum(l_acc acc, l_part part)
{
    (void)acc;
    return part;
}

#define l_rows(acc) ((l_total){{(acc).r[0], (acc).r[1], (acc).r[2], (acc).r[3]}})
#define LOW_RUN(bits) LOW_STEP
#include "low_neon.h"
