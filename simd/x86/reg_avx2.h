/* The registers of lanes.h, for AVX2, FMA, F16C: a v16 is two registers. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#if !defined __AVX2__ || !defined __FMA__ || !defined __F16C__
#error "build this file with -mavx2 -mfma -mf16c"
#endif

typedef __m256 reg;
enum { LANES = 8 };

static inline reg r_set(float x) { return _mm256_set1_ps(x); }
static inline reg r_add(reg a, reg b) { return _mm256_add_ps(a, b); }
static inline reg r_sub(reg a, reg b) { return _mm256_sub_ps(a, b); }
static inline reg r_mul(reg a, reg b) { return _mm256_mul_ps(a, b); }
static inline reg r_div(reg a, reg b) { return _mm256_div_ps(a, b); }
static inline reg r_max(reg a, reg b) { return _mm256_max_ps(a, b); }
static inline reg r_min(reg a, reg b) { return _mm256_min_ps(a, b); }
static inline reg r_fma(reg a, reg b, reg c) { return _mm256_fmadd_ps(a, b, c); }
static inline reg r_pick(reg a, reg b, reg c, reg d)
{
    return _mm256_blendv_ps(d, c, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
static inline reg r_mask(reg a, uint32_t m)
{
    return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32((int32_t)m)));
}
static inline reg r_swap(reg a, int h)
{
    return h == 1   ? _mm256_permute_ps(a, 0xb1)
           : h == 2 ? _mm256_permute_ps(a, 0x4e)
                    : _mm256_permute2f128_ps(a, a, 1);
}

static inline reg r_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void r_store(float *p, reg a) { _mm256_storeu_ps(p, a); }

#define HAVE_PARTS
static inline __m256i part_mask(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline reg r_load_part(const float *p, int n)
{
    return _mm256_maskload_ps(p, part_mask(n));
}
static inline void r_store_part(float *p, reg a, int n)
{
    _mm256_maskstore_ps(p, part_mask(n), a);
}
static inline reg r_select_part(reg a, reg b, int n)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(part_mask(n)));
}

static inline reg r_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline void r_store_f16(uint16_t *p, reg a)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a, 0));
}
static inline reg r_load_bf16(const uint16_t *p)
{
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

/* Goes through the f16 with the same digits, the E4M3 times 2^-8: to convert a subnormal f16 is
   free, while a product with a subnormal f32 takes a hundred cycles. */
static inline reg r_load_f8(const uint8_t *p)
{
    __m128i b = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)p)),
            rest = _mm_and_si128(b, _mm_set1_epi16(0x7f));
    __m128i nan = _mm_srli_epi16(_mm_cmpeq_epi16(rest, _mm_set1_epi16(0x7f)), 1),
            sign = _mm_slli_epi16(_mm_srli_epi16(b, 7), 15);
    __m128i h = _mm_or_si128(_mm_or_si128(sign, nan), _mm_slli_epi16(rest, 7));
    return _mm256_mul_ps(_mm256_cvtph_ps(h), _mm256_set1_ps(256));
}

static inline float r_hsum(reg a)
{
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

static inline float r_hmax(reg a)
{
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

static inline void r_store_bytes(uint8_t *p, reg a, int32_t zero)
{
    __m256i b = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(zero));
    __m128i c = _mm_packus_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(c, c));
}

static inline reg r_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

static inline reg r_difference(const int32_t *p, const int32_t *q)
{
    const __m256i *a = (const __m256i *)p, *b = (const __m256i *)q;
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_loadu_si256(a), _mm256_loadu_si256(b)));
}

/* Registers of int32, for madd_block.h and coded_x86.h. */
typedef __m256i ireg;
static inline ireg i_set(int32_t x) { return _mm256_set1_epi32(x); }
static inline ireg i_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void i_store(int32_t *p, ireg a) { _mm256_storeu_si256((__m256i *)p, a); }
static inline ireg i_add(ireg a, ireg b) { return _mm256_add_epi32(a, b); }
static inline reg i_floats(ireg a) { return _mm256_cvtepi32_ps(a); }
static inline ireg i_madd(ireg a, ireg b) { return _mm256_madd_epi16(a, b); }
static inline ireg i_even(ireg a) { return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8); }
static inline ireg i_odd(ireg a) { return _mm256_srai_epi16(a, 8); }

static inline reg r_doubled(const int32_t *p, int32_t shift)
{
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(i_add(i_load(p), i_load(p)), i_set(shift)));
}

/* For low_x86.h. i_widen_u8 makes LANES integers of 32 bits from as many bytes. */
static inline ireg i_sub(ireg a, ireg b) { return _mm256_sub_epi32(a, b); }
static inline ireg i_mullo(ireg a, ireg b) { return _mm256_mullo_epi32(a, b); }
static inline ireg i_mullo16(ireg a, ireg b) { return _mm256_mullo_epi16(a, b); }
static inline ireg i_right4(ireg a) { return _mm256_srli_epi32(a, 4); }
static inline ireg i_right(ireg a, ireg n) { return _mm256_srav_epi32(a, n); }
static inline ireg i_and(ireg a, ireg b) { return _mm256_and_si256(a, b); }
static inline ireg i_widen_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* Registers of int16 and of bytes, for coded_x86.h and codes_attention.h. */
static inline ireg i_add16(ireg a, ireg b) { return _mm256_add_epi16(a, b); }
static inline ireg i_maddubs(ireg a, ireg b) { return _mm256_maddubs_epi16(a, b); }

typedef __m256i breg;
enum { BYTES = 32 };
static inline breg b_set(uint8_t x) { return _mm256_set1_epi8((char)x); }
static inline breg b_and(breg a, breg b) { return _mm256_and_si256(a, b); }
static inline breg b_add(breg a, breg b) { return _mm256_add_epi8(a, b); }
static inline breg b_sub(breg a, breg b) { return _mm256_sub_epi8(a, b); }
static inline breg b_subs(breg a, breg b) { return _mm256_subs_epu8(a, b); }
static inline breg b_min(breg a, breg b) { return _mm256_min_epu8(a, b); }
static inline void b_store(uint8_t *p, breg a) { _mm256_storeu_si256((__m256i *)p, a); }
static inline breg b_lookup(const uint8_t *table, breg a)
{
    __m128i t = _mm_loadu_si128((const __m128i *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), a);
}
static inline breg b_shift(breg a, const uint64_t *n) { return _mm256_srlv_epi64(a, i_load(n)); }
static inline breg b_repeat(const uint8_t *p, int r, int period)
{
    switch (period) {
    case 8: return _mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)p));
    case 16: return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
    default: return i_load(p + r * BYTES % period);
    }
}

/* Store 16 integers: as int8 in order; as int16 each four in the order 0, 2, 1, 3, with the second
   four and the third four exchanged, as x_quad expects. */
static inline void r_store_x8(uint8_t *p, const reg *a)
{
    __m256i b = _mm256_packs_epi32(_mm256_cvtps_epi32(a[0]), _mm256_cvtps_epi32(a[1]));
    b = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(b, b),
                                    _mm256_setr_epi32(0, 4, 1, 5, 0, 0, 0, 0));
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(b));
}

static inline void r_store_x16(uint8_t *p, const reg *a)
{
    __m256i b = _mm256_packs_epi32(_mm256_cvtps_epi32(a[0]), _mm256_cvtps_epi32(a[1]));
    _mm256_storeu_si256((__m256i *)p,
                        _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(b, 0xd8), 0xd8));
}

static inline size_t x_quad(size_t s) { return s == 1 ? 2 : s == 2 ? 1 : s; }

static inline void r_add_doubles(double *p, reg a)
{
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(a)),
            high = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    _mm256_storeu_pd(p, _mm256_add_pd(_mm256_loadu_pd(p), low));
    _mm256_storeu_pd(p + 4, _mm256_add_pd(_mm256_loadu_pd(p + 4), high));
}

static inline reg r_rint(reg a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* 2^e for integers -126 <= e <= 127 */
static inline reg r_pow2(__m256i e)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
}

/* 2^q may exceed the floats; its two factors do not. Only the second product rounds. */
static inline reg r_scale(reg a, reg q)
{
    __m256i e = _mm256_cvtps_epi32(q), half = _mm256_srai_epi32(e, 1);
    return r_mul(r_mul(a, r_pow2(half)), r_pow2(_mm256_sub_epi32(e, half)));
}

static inline reg r_or_nan(reg a, reg x)
{
    return _mm256_blendv_ps(a, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
