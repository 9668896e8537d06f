/* The registers of lanes.h, for every 64-bit ARM's NEON: a v16 is four registers. */
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Finishes the sums r[0 .. 3] before the next TOGETHER. Else gcc finishes one sum of a whole loop
   after the other, and runs out of registers for the factors. */
#define TOGETHER(r) __asm__ volatile("" : "+w"((r)[0]), "+w"((r)[1]), "+w"((r)[2]), "+w"((r)[3]))

typedef float32x4_t reg;
enum { LANES = 4 };

static inline reg r_set(float x) { return vdupq_n_f32(x); }
static inline reg r_add(reg a, reg b) { return vaddq_f32(a, b); }
static inline reg r_sub(reg a, reg b) { return vsubq_f32(a, b); }
static inline reg r_mul(reg a, reg b) { return vmulq_f32(a, b); }
static inline reg r_div(reg a, reg b) { return vdivq_f32(a, b); }
static inline reg r_max(reg a, reg b) { return vmaxnmq_f32(a, b); }
static inline reg r_min(reg a, reg b) { return vminnmq_f32(a, b); }
static inline reg r_fma(reg a, reg b, reg c) { return vfmaq_f32(c, a, b); }
static inline reg r_pick(reg a, reg b, reg c, reg d) { return vbslq_f32(vcltq_f32(a, b), c, d); }
static inline reg r_mask(reg a, uint32_t m)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), vdupq_n_u32(m)));
}
static inline reg r_swap(reg a, int h) { return h == 1 ? vrev64q_f32(a) : vextq_f32(a, a, 2); }

static inline reg r_load(const float *p) { return vld1q_f32(p); }
static inline void r_store(float *p, reg a) { vst1q_f32(p, a); }
static inline reg r_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline void r_store_f16(uint16_t *p, reg a)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a)));
}
static inline reg r_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

static inline reg r_load_f8(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, 4);
    uint32x4_t b = vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))))),
               rest = vandq_u32(b, vdupq_n_u32(0x7f));
    uint32x4_t sign = vshlq_n_u32(vshrq_n_u32(b, 7), 31), nan = vceqq_u32(rest, vdupq_n_u32(0x7f));
    reg a = vmulq_n_f32(vreinterpretq_f32_u32(vshlq_n_u32(rest, 20)), 0x1p120f);
    sign = vorrq_u32(sign, vandq_u32(nan, vdupq_n_u32(0x7fc00000)));
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(a), sign));
}

static inline void r_store_bytes(uint8_t *p, reg a, int32_t zero)
{
    uint16x4_t h =
        vmovn_u32(vreinterpretq_u32_s32(vaddq_s32(vcvtnq_s32_f32(a), vdupq_n_s32(zero))));
    uint32_t b = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(h, h))), 0);
    memcpy(p, &b, 4);
}

static inline reg r_doubled(const int32_t *p, int32_t shift)
{
    return vcvtq_f32_s32(vsubq_s32(vshlq_n_s32(vld1q_s32(p), 1), vdupq_n_s32(shift)));
}

static inline reg r_difference(const int32_t *p, const int32_t *q)
{
    return vcvtq_f32_s32(vsubq_s32(vld1q_s32(p), vld1q_s32(q)));
}

static inline float r_hsum(reg a)
{
    float32x2_t c = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(vpadd_f32(c, c), 0);
}

static inline float r_hmax(reg a) { return vmaxvq_f32(a); }

static inline void r_add_doubles(double *p, reg a)
{
    vst1q_f64(p, vaddq_f64(vld1q_f64(p), vcvt_f64_f32(vget_low_f32(a))));
    vst1q_f64(p + 2, vaddq_f64(vld1q_f64(p + 2), vcvt_high_f64_f32(a)));
}

static inline reg r_rint(reg a) { return vrndnq_f32(a); }

/* 2^e for integers -126 <= e <= 127 */
static inline reg r_pow2(int32x4_t e)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(e, vdupq_n_s32(127)), 23));
}

/* 2^q may exceed the floats; its two factors do not. Only the second product rounds. */
static inline reg r_scale(reg a, reg q)
{
    int32x4_t e = vcvtq_s32_f32(q), half = vshrq_n_s32(e, 1);
    return r_mul(r_mul(a, r_pow2(half)), r_pow2(vsubq_s32(e, half)));
}

static inline reg r_or_nan(reg a, reg x) { return vbslq_f32(vceqq_f32(x, x), a, x); }
