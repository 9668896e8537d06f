/* The parameters of gemm_low.h on NEON. The including file defines l_part, l_acc, and l_rows(acc):
   the sums of 16 rows, four in each uint32x4_t. */

/* Keeps gcc from unpacking several quads at once: there are too few registers. */
#define LOW_FENCE() __asm__ volatile("" ::: "memory")

typedef struct {
    uint32x4_t r[4];
} l_total;

static inline l_total l_begin(void)
{
    return (l_total){{vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0), vdupq_n_u32(0)}};
}

static inline l_total l_group(l_total t, l_acc acc, const uint8_t *bytes, int32_t x)
{
    uint8x16_t b = vld1q_u8(bytes), s = vandq_u8(b, vdupq_n_u8(15)), z = vshrq_n_u8(b, 4);
    uint16x8_t s16[2] = {vmovl_u8(vget_low_u8(s)), vmovl_high_u8(s)},
               z16[2] = {vmovl_u8(vget_low_u8(z)), vmovl_high_u8(z)};
    l_total a = l_rows(acc);
    UNROLL for (int i = 0; i < 4; i++) {
        uint16x4_t z4 = i % 2 ? vget_high_u16(z16[i / 2]) : vget_low_u16(z16[i / 2]),
                   s4 = i % 2 ? vget_high_u16(s16[i / 2]) : vget_low_u16(s16[i / 2]);
        a.r[i] = vmlsl_n_u16(a.r[i], z4, (uint16_t)x);
        t.r[i] = vmlaq_u32(t.r[i], a.r[i], vmovl_u16(s4));
    }
    return t;
}

static inline void l_store(int32_t *sum, l_total t)
{
    UNROLL for (int i = 0; i < 4; i++)
        vst1q_s32(sum + 4 * i, vreinterpretq_s32_u32(t.r[i]));
}

/* Register r of a quad has rows 4 r .. 4 r + 3, 4 bytes each. */
static inline void l_factors(breg *s, breg *sz, const uint8_t *bytes)
{
    static const uint8_t row[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    UNROLL for (int r = 0; r < 4; r++) {
        breg b = vqtbl1q_u8(vld1q_u8(bytes), vaddq_u8(vld1q_u8(row), vdupq_n_u8((uint8_t)(4 * r))));
        s[r] = vandq_u8(b, vdupq_n_u8(15));
        sz[r] = vmulq_u8(s[r], vshrq_n_u8(b, 4));
    }
}

static inline breg l_weights(breg a, breg s, breg sz) { return vsubq_u8(vmulq_u8(a, s), sz); }

#define LOW_TILE 0
#include "simd/template/gemm_low.h"
