#include "rungs.h"

#include <immintrin.h>

#include "peak.h"

#if !defined __AVX512VNNI__
#error "build this file with -mavx512vnni"
#endif

TFT_PEAK(peak_int8_avx512vnni, __m512i, _mm512_set1_epi8(1), _mm512_dpbusd_epi32(acc[i], a, a), 2 * 64)

void tft_rung_avx512vnni(struct tft_kernels *k)
{
    k->peak_int8 = peak_int8_avx512vnni;
}
