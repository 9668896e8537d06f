#include "rungs.h"

#include "reg_avx2.h"

#define ISA(name) name##_avx2
#define TILE_M 3 /* 6 outputs of two registers, and room for the operands of one half: 16 registers */
#define TILE_N 2
#define TILE_Q 3
#define TILE_V 2
#include "wide.h"

#define DOT_TOKENS 3 /* 6 registers of sums, 4 of weights, 2 of a token, a mask, products: 16 registers */
#define DOT_PANELS 1
#include "dot_madd.h"

/* vpmaddwd on bytes that were widened before: vpmaddubsw would saturate. */
TFT_PEAK(peak_int8_avx2, __m256i, _mm256_set1_epi16(1), _mm256_add_epi32(acc[i], _mm256_madd_epi16(a, acc[i])), 2 * 16)

void tft_rung_avx2(struct tft_kernels *k)
{
    wide_rung(k);
    k->gemm_i8 = gemm_i8_avx2;
    k->peak_int8 = peak_int8_avx2;
}
