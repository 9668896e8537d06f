/* The ISA level avx512vnni: 512-bit dot products of bytes, for gemm_i8 and attention on codes. */
#include "simd/isas.h"

#include <string.h>

#include "reg_avx512.h"
#include "simd/template/lanes.h"

#if !defined __AVX512VNNI__
#error "build this file with -mavx512vnni"
#endif

/* A quad of a panel is one register; the 4 bytes of a token are repeated in every lane. */
typedef __m512i d_acc, d_weights;
typedef const uint8_t *d_bytes;

static inline d_acc d_zero(void) { return _mm512_setzero_si512(); }
static inline d_acc d_add(d_acc a, d_acc b) { return _mm512_add_epi32(a, b); }
static inline d_weights d_load(const int8_t *p) { return _mm512_loadu_si512(p); }
static inline d_bytes d_token(const uint8_t *x, size_t next) { return (void)next, x; }
static inline void d_store(int32_t *sum, size_t next, d_acc a)
{
    (void)next, _mm512_storeu_si512(sum, a);
}

static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    int32_t quad;
    memcpy(&quad, x + 4 * s, 4);
    acc = _mm512_dpbusd_epi32(acc, _mm512_set1_epi32(quad), w);
    __asm__("" : "+v"(acc)); /* keeps gcc from moving sums between registers */
    return acc;
}

#define HAVE_DOT_FLOATS
static inline v16 d_floats(d_acc a, const int32_t *shift)
{
    return (v16){{_mm512_cvtepi32_ps(_mm512_sub_epi32(a, _mm512_loadu_si512(shift)))}};
}

#define ISA(name) name##_avx512vnni
#define DOT_ROWS 1
#define DOT_QUADS 1
#define DOT_FLIP 0
/* 24 sums, two registers of weights, one of a token: 27 of 32 registers */
#define DOT_TOKENS 12
#define DOT_PANELS 2
#include "simd/template/gemm_i8.h"

/* For coded_x86.h. */
static inline ireg i_dot8(ireg acc, ireg c, ireg x) { return _mm512_dpbusd_epi32(acc, c, x); }
static inline ireg i_dot16(ireg acc, ireg c, ireg x) { return _mm512_dpwssd_epi32(acc, c, x); }
static inline ireg i_total8(ireg acc) { return acc; }

#define CODED_RUN CODED_SPANS
/* enough sums to hide the latency of a dot product */
#define CODED_TILE 8
#define CODED_DIRECT 8
#define CODED_WAYS 4
#include "coded_x86.h"

/* gemm_packed */
/* 12 sums and 12 floats, 4 registers of weights, one of a token: 29 of 32 registers */
#define PACKED_TOKENS 6
#define PACKED_PANELS 2
#include "packed_vnni.h"

/* gemm_low */
#define LOW_RUN(bits) LOW_STEP
#define LOW_TILE 0
#include "low_x86.h"

TFT_PEAK(peak_int8_avx512vnni, __m512i, _mm512_set1_epi8(1), _mm512_dpbusd_epi32(acc[i], a, a),
         2 * 64)

void tft_isa_avx512vnni(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    fill_codes(k);
    fill_packed(k);
    k->gemm_i8 = gemm_i8_avx512vnni;
    k->gemm_low = gemm_low_avx512vnni;
    k->peak_int8 = peak_int8_avx512vnni;
}

#if TFT_AMX
#include "amx.h"
#endif
