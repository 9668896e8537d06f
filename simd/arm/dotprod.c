#include "rungs.h"

#include "reg_neon.h"

#include "peak.h"

#if !defined __ARM_FEATURE_DOTPROD
#error "build this file with -march=armv8.2-a+dotprod"
#endif

/* A quad of a panel, and the sums of its rows, 4 a register. */
typedef struct {
    int8x16_t r[4];
} d_weights;
typedef struct {
    int32x4_t r[4];
} d_acc;
typedef int8x16_t d_bytes;

static inline d_acc d_zero(void)
{
    return (d_acc){{vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)}};
}

static inline d_acc d_add(d_acc a, d_acc b)
{
    UNROLL for (int i = 0; i < 4; i++)
        a.r[i] = vaddq_s32(a.r[i], b.r[i]);
    return a;
}

static inline void d_store(int32_t *sum, size_t next, d_acc a)
{
    (void)next;
    UNROLL for (int i = 0; i < 4; i++)
        vst1q_s32(sum + 4 * i, a.r[i]);
}

static inline d_weights d_load(const int8_t *p)
{
    return (d_weights){{vld1q_s8(p), vld1q_s8(p + 16), vld1q_s8(p + 32), vld1q_s8(p + 48)}};
}

static inline d_bytes d_token(const uint8_t *x, size_t next)
{
    (void)next;
    return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(x), vdupq_n_u8(0x80)));
}

/* sdot by lane s, which must be a constant in the source */
static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    UNROLL for (int i = 0; i < 4; i++)
        acc.r[i] = s == 0   ? vdotq_laneq_s32(acc.r[i], w.r[i], x, 0)
                   : s == 1 ? vdotq_laneq_s32(acc.r[i], w.r[i], x, 1)
                   : s == 2 ? vdotq_laneq_s32(acc.r[i], w.r[i], x, 2)
                            : vdotq_laneq_s32(acc.r[i], w.r[i], x, 3);
    return acc;
}

#define ISA(name) name##_dotprod
#define DOT_ROWS 1
#define DOT_QUADS 1
#define DOT_FLIP 128
#define DOT_TOKENS 5 /* 20 registers of sums, 4 of weights, 5 of tokens: 29 of 32 */
#define DOT_PANELS 1
#include "dot.h"

TFT_PEAK(peak_int8_dotprod, int32x4_t, vdupq_n_s32(0x01010101),
         vdotq_s32(acc[i], vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(a)), 2 * 16)

void tft_rung_dotprod(struct tft_kernels *k)
{
    k->gemm_i8 = gemm_i8_dotprod;
    k->peak_int8 = peak_int8_dotprod;
}
