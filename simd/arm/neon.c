#include "rungs.h"

#include "reg_neon.h"

#define ISA(name) name##_neon
#define TILE_M 3 /* 6 outputs of four registers, and room for the operands of one quarter: 32 registers */
#define TILE_N 2
#define TILE_Q 3
#define TILE_V 2
#include "wide.h"

/* smull and sadalp: 8 products. */
TFT_PEAK(peak_int8_neon, int32x4_t, vdupq_n_s32(0x01010101),
         vpadalq_s16(acc[i], vmull_s8(vget_low_s8(vreinterpretq_s8_s32(a)), vget_high_s8(vreinterpretq_s8_s32(a)))), 2 * 8)

void tft_rung_neon(struct tft_kernels *k)
{
    wide_rung(k);
    k->peak_int8 = peak_int8_neon;
}
