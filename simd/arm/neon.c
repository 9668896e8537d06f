#include "rungs.h"

#include "reg_neon.h"

#define ISA(name) name##_neon
#define TILE_M 3 /* 6 outputs of four registers, and room for the operands of one quarter: 32 registers */
#define TILE_N 2
#define TILE_Q 3
#define TILE_V 2
#include "wide.h"

/* Two quads of a panel, 4 rows a register. */
typedef struct {
    int8x16_t quad[2][4];
} d_weights;

/* Two sums a row, two rows a register. */
typedef struct {
    int32x4_t r[8];
} d_acc;
typedef int8x16_t d_bytes;

static inline d_acc d_zero(void)
{
    d_acc a;
    UNROLL for (int i = 0; i < 8; i++)
        a.r[i] = vdupq_n_s32(0);
    return a;
}

static inline d_acc d_add(d_acc a, d_acc b)
{
    UNROLL for (int i = 0; i < 8; i++)
        a.r[i] = vaddq_s32(a.r[i], b.r[i]);
    return a;
}

static inline void d_store(int32_t *sum, size_t next, d_acc a)
{
    (void)next;
    UNROLL for (int i = 0; i < 4; i++)
        vst1q_s32(sum + 4 * i, vpaddq_s32(a.r[2 * i], a.r[2 * i + 1]));
}

static inline d_weights d_load(const int8_t *p)
{
    d_weights w;
    UNROLL for (int i = 0; i < 8; i++)
        w.quad[i / 4][i % 4] = vld1q_s8(p + 16 * i);
    return w;
}

static inline d_bytes d_token(const uint8_t *x, size_t next)
{
    (void)next;
    return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(x), vdupq_n_u8(0x80)));
}

/* Two products are at most 2 * 128 * 127, which 16 bits hold. */
static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    int32x4_t q = vreinterpretq_s32_s8(x);
    int8x16_t a = vreinterpretq_s8_s32(s ? vdupq_laneq_s32(q, 2) : vdupq_laneq_s32(q, 0));
    int8x16_t b = vreinterpretq_s8_s32(s ? vdupq_laneq_s32(q, 3) : vdupq_laneq_s32(q, 1));
    UNROLL for (int i = 0; i < 4; i++) {
        int16x8_t low = vmull_s8(vget_low_s8(w.quad[0][i]), vget_low_s8(a)), high = vmull_high_s8(w.quad[0][i], a);
        low = vmlal_s8(low, vget_low_s8(w.quad[1][i]), vget_low_s8(b));
        high = vmlal_high_s8(high, w.quad[1][i], b);
        acc.r[2 * i] = vpadalq_s16(acc.r[2 * i], low);
        acc.r[2 * i + 1] = vpadalq_s16(acc.r[2 * i + 1], high);
    }
    return acc;
}

#define DOT_ROWS 1
#define DOT_QUADS 2
#define DOT_FLIP 128
#define DOT_TOKENS 2 /* 16 registers of sums, 8 of weights, 4 of tokens, products: 32 */
#define DOT_PANELS 1
#include "dot.h"

/* smull and sadalp: 8 products. */
TFT_PEAK(peak_int8_neon, int32x4_t, vdupq_n_s32(0x01010101),
         vpadalq_s16(acc[i], vmull_s8(vget_low_s8(vreinterpretq_s8_s32(a)), vget_high_s8(vreinterpretq_s8_s32(a)))), 2 * 8)

void tft_rung_neon(struct tft_kernels *k)
{
    wide_rung(k);
    k->gemm_i8 = gemm_i8_neon;
    k->peak_int8 = peak_int8_neon;
}
