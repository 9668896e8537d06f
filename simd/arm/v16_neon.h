/* The vocabulary of wide.h in four registers of 4: NEON as every 64-bit ARM has it. */
#include <arm_neon.h>
#include <string.h>

typedef struct {
    float32x4_t q[4]; /* lanes 0-3, 4-7, 8-11, 12-15 */
} v16;

#define EACH_Q(expr)                                                                                                 \
    v16 r;                                                                                                           \
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) r.q[i] = (expr);                                             \
    return r

static inline v16 v_set(float x) { EACH_Q(vdupq_n_f32(x)); }
static inline v16 v_zero(void) { return v_set(0); }
static inline v16 v_add(v16 a, v16 b) { EACH_Q(vaddq_f32(a.q[i], b.q[i])); }
static inline v16 v_sub(v16 a, v16 b) { EACH_Q(vsubq_f32(a.q[i], b.q[i])); }
static inline v16 v_mul(v16 a, v16 b) { EACH_Q(vmulq_f32(a.q[i], b.q[i])); }
static inline v16 v_div(v16 a, v16 b) { EACH_Q(vdivq_f32(a.q[i], b.q[i])); }
static inline v16 v_max(v16 a, v16 b) { EACH_Q(vmaxq_f32(a.q[i], b.q[i])); }
static inline v16 v_fma(v16 a, v16 b, v16 c) { EACH_Q(vfmaq_f32(c.q[i], a.q[i], b.q[i])); }
static inline v16 v_swap(v16 a) { EACH_Q(vrev64q_f32(a.q[i])); }

static inline v16 v_select(v16 a, v16 b, size_t n)
{
    static const uint32_t lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const uint32x4_t end = vdupq_n_u32((uint32_t)n);
    EACH_Q(vbslq_f32(vcltq_u32(vld1q_u32(lane + 4 * i), end), a.q[i], b.q[i]));
}

static inline v16 v_load(const float *p) { EACH_Q(vld1q_f32(p + 4 * i)); }
static inline void v_store(float *p, v16 a)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, a.q[i]);
}

static inline v16 v_load_f16(const uint16_t *p) { EACH_Q(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)))); }
static inline void v_store_f16(uint16_t *p, v16 a)
{
    for (int i = 0; i < 4; i++)
        vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.q[i])));
}
static inline v16 v_load_bf16(const uint16_t *p) { EACH_Q(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16))); }

/* NEON has no masked memory access: the last few numbers of a row go through memory of ours. */
static inline v16 v_load_n(const float *p, size_t n)
{
    float t[16] = {0};
    memcpy(t, p, n * sizeof *t);
    return v_load(t);
}
static inline void v_store_n(float *p, v16 a, size_t n)
{
    float t[16];
    v_store(t, a);
    memcpy(p, t, n * sizeof *t);
}
static inline v16 v_load_f16_n(const uint16_t *p, size_t n)
{
    uint16_t t[16] = {0};
    memcpy(t, p, n * sizeof *t);
    return v_load_f16(t);
}
static inline void v_store_f16_n(uint16_t *p, v16 a, size_t n)
{
    uint16_t t[16];
    v_store_f16(t, a);
    memcpy(p, t, n * sizeof *t);
}
static inline v16 v_load_bf16_n(const uint16_t *p, size_t n)
{
    uint16_t t[16] = {0};
    memcpy(t, p, n * sizeof *t);
    return v_load_bf16(t);
}

/* The tree of sum16, and its like for the maximum. */
static inline float v_sum(v16 a)
{
    float32x4_t b = vaddq_f32(vaddq_f32(a.q[0], a.q[2]), vaddq_f32(a.q[1], a.q[3]));
    float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
    return vget_lane_f32(vpadd_f32(c, c), 0);
}

static inline float v_top(v16 a)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.q[0], a.q[2]), vmaxq_f32(a.q[1], a.q[3])));
}

static inline void v_sum4(float p[4], v16 a, v16 b, v16 c, v16 d)
{
    p[0] = v_sum(a);
    p[1] = v_sum(b);
    p[2] = v_sum(c);
    p[3] = v_sum(d);
}

#if TFT_SLEEF
#include <sleef.h>
static inline v16 v_exp(v16 a) { EACH_Q(Sleef_finz_expf4_u10advsimd(a.q[i])); }
#endif
