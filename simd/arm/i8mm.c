#include "rungs.h"

#include <arm_neon.h>

#include "peak.h"

#if !defined __ARM_FEATURE_MATMUL_INT8
#error "build this file with -march=armv8.2-a+dotprod+i8mm"
#endif

TFT_PEAK(peak_int8_i8mm, int32x4_t, vdupq_n_s32(0x01010101),
         vmmlaq_s32(acc[i], vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(a)), 2 * 32)

void tft_rung_i8mm(struct tft_kernels *k)
{
    k->peak_int8 = peak_int8_i8mm;
}
