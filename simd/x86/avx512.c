/* The ISA level avx512: AVX-512 F, BW, DQ and VL. Replaces all kernels with a template. */
#include "simd/isas.h"

#include "reg_avx512.h"
#include "simd/template/lanes.h"

#define ISA(name) name##_avx512
/* 24 sums, 4 rows of w, one of x: 29 of 32 registers */
#define TILE_M 6
#define TILE_N 4
#define TILE_Q 4
#define TILE_V 4
#include "simd/template/floats.h"

/* 20 sums, 4 registers of weights, 2 of a token, a mask, products: 29 of 32 registers */
#define DOT_TOKENS 10
#define DOT_PANELS 2
#include "dot_madd.h"

#define CODED_TILE 8
#define CODED_DIRECT 8
#define CODED_WAYS 1
#include "coded_madd.h"

/* gemm_packed */
static inline ireg i_magnitude(ireg w) { return _mm512_abs_epi8(w); }
static inline ireg i_signed(ireg x, ireg w)
{
    return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
}

/* 8 sums and 8 floats, 4 registers of weights, products: 24 of 32 registers */
#define PACKED_TOKENS 4
#define PACKED_PANELS 2
#include "packed_madd.h"

/* gemm_low: an int16 holds the sum of 4 pairs of products with 15, 2 * 255 * 15, or 8 with 7. */
#define LOW_RUN(bits) ((bits) == TFT_BITS_4 ? 4 : 8)
/* 6 sums and 6 totals, a register of weights, one of a token, products: 15 of 32 registers */
#define LOW_TILE 6
#include "low_x86.h"

TFT_PEAK(peak_int8_avx512, __m512i, _mm512_set1_epi16(1),
         _mm512_add_epi32(acc[i], _mm512_madd_epi16(a, acc[i])), 2 * 32)

void tft_isa_avx512(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    fill_floats(k);
    fill_codes(k);
    fill_packed(k);
    k->gemm_i8 = gemm_i8_avx512;
    k->gemm_low = gemm_low_avx512;
    k->peak_int8 = peak_int8_avx512;
}
