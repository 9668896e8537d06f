/* The ISA level avxvnni: 256-bit dot products of bytes, for gemm_i8 and attention on codes. */
#include "simd/isas.h"

#include <string.h>

#include "reg_avx2.h"
#include "simd/template/lanes.h"

#if !defined __AVXVNNI__
#error "build this file with -mavxvnni"
#endif

#include "dot_ymm.h"

typedef const int8_t *d_weights; /* stay in memory, as operands of the dot products */

static inline d_weights d_load(const int8_t *p) { return p; }

static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    const __m256i *half = (const __m256i *)w;
    int32_t quad;
    memcpy(&quad, x + 4 * s, 4);
    __m256i b = _mm256_set1_epi32(quad);
    acc.low = _mm256_dpbusd_avx_epi32(acc.low, b, _mm256_loadu_si256(half));
    acc.high = _mm256_dpbusd_avx_epi32(acc.high, b, _mm256_loadu_si256(half + 1));
    __asm__("" : "+x"(acc.low), "+x"(acc.high)); /* keeps gcc from moving sums between registers */
    return acc;
}

#define ISA(name) name##_avxvnni
#define DOT_ROWS 1
#define DOT_QUADS 1
#define DOT_FLIP 0
/* 12 registers of sums, two of weights, one of a token: 15 of 16 */
#define DOT_TOKENS 6
#define DOT_PANELS 1
#include "simd/template/gemm_i8.h"

/* For coded_x86.h. */
static inline ireg i_dot8(ireg acc, ireg c, ireg x) { return _mm256_dpbusd_avx_epi32(acc, c, x); }
static inline ireg i_dot16(ireg acc, ireg c, ireg x) { return _mm256_dpwssd_avx_epi32(acc, c, x); }
static inline ireg i_total8(ireg acc) { return acc; }

#define CODED_RUN CODED_SPANS
/* 8 registers of sums, up to 4 of codes, factors: 15 of 16 */
#define CODED_TILE 4
#define CODED_DIRECT 4
#define CODED_WAYS 4
#include "coded_x86.h"

/* gemm_packed */
/* 6 sums and 6 floats, 2 registers of weights, one of a token: 15 of 16 registers */
#define PACKED_TOKENS 3
#define PACKED_PANELS 1
#include "packed_vnni.h"

/* gemm_low */
#define LOW_RUN(bits) LOW_STEP
#define LOW_TILE 0
#include "low_x86.h"

TFT_PEAK(peak_int8_avxvnni, __m256i, _mm256_set1_epi8(1), _mm256_dpbusd_avx_epi32(acc[i], a, a),
         2 * 32)

void tft_isa_avxvnni(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    fill_codes(k);
    fill_packed(k);
    k->gemm_i8 = gemm_i8_avxvnni;
    k->gemm_low = gemm_low_avxvnni;
    k->peak_int8 = peak_int8_avxvnni;
}
