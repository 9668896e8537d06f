#include "rungs.h"

#include <arm_neon.h>

#include "peak.h"

#if !defined __ARM_FEATURE_DOTPROD
#error "build this file with -march=armv8.2-a+dotprod"
#endif

TFT_PEAK(peak_int8_dotprod, int32x4_t, vdupq_n_s32(0x01010101),
         vdotq_s32(acc[i], vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(a)), 2 * 16)

void tft_rung_dotprod(struct tft_kernels *k)
{
    k->peak_int8 = peak_int8_dotprod;
}
