/* The ISA level avx2: AVX2, FMA and F16C. Replaces all kernels with a template. */
#include "simd/isas.h"

#include "reg_avx2.h"
#include "simd/template/lanes.h"

#define ISA(name) name##_avx2
/* 6 sums of two registers, 3 operands: 15 of 16 registers */
#define TILE_M 3
#define TILE_N 2
#define TILE_Q 3
#define TILE_V 2
#include "simd/template/floats.h"

/*
 * gemm_i8 without dot products of bytes, for few tokens. vpmaddubsw adds two products of an
 * unsigned and a signed byte in 16 bits, where 2 * 255 * 127 would saturate. So x - 128 is split
 * into its magnitude, at most 128, and its sign, moved to the weight: 2 * 128 * 127 fits.
 */
#include "dot_ymm.h"

typedef d_acc d_weights;

static inline d_weights d_load(const int8_t *p)
{
    const __m256i *half = (const __m256i *)(const void *)p;
    return (d_weights){_mm256_loadu_si256(half), _mm256_loadu_si256(half + 1)};
}

static inline __m256i d_products(__m256i acc, __m256i w, __m256i x, __m256i magnitude)
{
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(w, x));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    int32_t quad;
    memcpy(&quad, x + 4 * s, 4);
    __m256i b = _mm256_xor_si256(_mm256_set1_epi32(quad), _mm256_set1_epi8(-128)),
            magnitude = _mm256_abs_epi8(b);
    acc.low = d_products(acc.low, w.low, b, magnitude);
    acc.high = d_products(acc.high, w.high, b, magnitude);
    __asm__("" : "+x"(acc.low), "+x"(acc.high)); /* keeps gcc from moving sums between registers */
    return acc;
}

#define DOT_ROWS 1
#define DOT_QUADS 1
#define DOT_FLIP 128
/* 8 registers of sums, 2 of weights, 2 of a token, constants 1 and 128, products: all 16 */
#define DOT_TOKENS 4
#define DOT_PANELS 1
#include "simd/template/gemm_i8.h"

/* 8 registers of sums, 2 or 4 of codes, factors, products: all 16 */
#define CODED_TILE 4
#define CODED_DIRECT 4
#define CODED_WAYS 1
#include "coded_madd.h"

/* gemm_packed */
static inline ireg i_magnitude(ireg w) { return _mm256_abs_epi8(w); }
static inline ireg i_signed(ireg x, ireg w) { return _mm256_sign_epi8(x, w); }

/* A tile of 3 tokens has 6 registers of sums and 6 of floats; some of 4 of weights and 2 of a token
   wait in memory. In a tile of 6 the floats wait there. That is faster if a group has 32 columns,
   and slower if it has 16. */
#define PACKED_TOKENS 6
#define PACKED_REST 3
#define PACKED_PANELS 1
#include "packed_madd.h"

/* gemm_low for few tokens: an int16 holds the sum of 4 pairs of products with 15, 2 * 255 * 15, or
   8 with 7. */
#define LOW_RUN(bits) ((bits) == TFT_BITS_4 ? 4 : 8)
/* 6 sums and 6 totals, 2 registers of weights, one of a token, products: all 16 */
#ifndef LOW_TILE /* tests/simd/test_amx.c has 0 */
#define LOW_TILE 3
#endif
#include "low_x86.h"

/* gemm_i8 for many tokens */
#include "madd_block.h"

/* The instructions of madd_block.h. */
TFT_PEAK(peak_int8_avx2, __m256i, _mm256_set1_epi16(1),
         _mm256_add_epi32(acc[i], _mm256_madd_epi16(a, acc[i])), 2 * 16)

void tft_isa_avx2(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    fill_floats(k);
    fill_codes(k);
    fill_packed(k);
    k->gemm_i8 = gemm_i8_blocks_avx2;
    k->gemm_low = gemm_low_avx2;
    k->peak_int8 = peak_int8_avx2;
}
