/* The registers of lanes.h, for AVX-512 F, BW, DQ, VL: a v16 is one register. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#if !defined __AVX512F__ || !defined __AVX512BW__ || !defined __AVX512DQ__ || !defined __AVX512VL__
#error "build this file with -mavx512f -mavx512bw -mavx512dq -mavx512vl"
#endif

typedef __m512 reg;
enum { LANES = 16 };

static inline reg r_set(float x) { return _mm512_set1_ps(x); }
static inline reg r_add(reg a, reg b) { return _mm512_add_ps(a, b); }
static inline reg r_sub(reg a, reg b) { return _mm512_sub_ps(a, b); }
static inline reg r_mul(reg a, reg b) { return _mm512_mul_ps(a, b); }
static inline reg r_div(reg a, reg b) { return _mm512_div_ps(a, b); }
static inline reg r_max(reg a, reg b) { return _mm512_max_ps(a, b); }
static inline reg r_min(reg a, reg b) { return _mm512_min_ps(a, b); }
static inline reg r_fma(reg a, reg b, reg c) { return _mm512_fmadd_ps(a, b, c); }
static inline reg r_pick(reg a, reg b, reg c, reg d)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), d, c);
}
static inline reg r_mask(reg a, uint32_t m)
{
    return _mm512_and_ps(a, _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)m)));
}
static inline reg r_swap(reg a, int h)
{
    return h == 1   ? _mm512_permute_ps(a, 0xb1)
           : h == 2 ? _mm512_permute_ps(a, 0x4e)
           : h == 4 ? _mm512_shuffle_f32x4(a, a, 0xb1)
                    : _mm512_shuffle_f32x4(a, a, 0x4e);
}

static inline reg r_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void r_store(float *p, reg a) { _mm512_storeu_ps(p, a); }

#define HAVE_PARTS
static inline __mmask16 part_mask(int n)
{
    return (__mmask16)(n <= 0 ? 0 : n >= LANES ? 0xffff : (1u << n) - 1);
}
static inline reg r_load_part(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(part_mask(n), p);
}
static inline void r_store_part(float *p, reg a, int n)
{
    _mm512_mask_storeu_ps(p, part_mask(n), a);
}
static inline reg r_select_part(reg a, reg b, int n)
{
    return _mm512_mask_mov_ps(b, part_mask(n), a);
}

static inline reg r_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline void r_store_f16(uint16_t *p, reg a)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, 0));
}
static inline reg r_load_bf16(const uint16_t *p)
{
    __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

/* Goes through the f16 with the same digits, the E4M3 times 2^-8: to convert a subnormal f16 is
   free, while a product with a subnormal f32 takes a hundred cycles. */
static inline reg r_load_f8(const uint8_t *p)
{
    __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p)),
            rest = _mm256_and_si256(b, _mm256_set1_epi16(0x7f));
    __m256i nan = _mm256_srli_epi16(_mm256_cmpeq_epi16(rest, _mm256_set1_epi16(0x7f)), 1),
            sign = _mm256_slli_epi16(_mm256_srli_epi16(b, 7), 15);
    __m256i h = _mm256_or_si256(_mm256_or_si256(sign, nan), _mm256_slli_epi16(rest, 7));
    return _mm512_mul_ps(_mm512_cvtph_ps(h), _mm512_set1_ps(256));
}

static inline float r_hsum(reg a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

static inline float r_hmax(reg a) { return _mm512_reduce_max_ps(a); }

/* Four trees in parallel: 13 instructions, not 32. */
#define HAVE_HSUM4
static inline void r_hsum4(float p[4], reg a, reg b, reg c, reg d)
{
    /* lanes i + 8: [8 lanes of a | 8 of b] */
    reg ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    reg cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    /* lanes i + 4: a quarter of the register each */
    reg q = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    /* lanes i + 2 and i + 1, inside the quarters */
    q = _mm512_add_ps(q, _mm512_permute_ps(q, 0x4e));
    q = _mm512_add_ps(q, _mm512_permute_ps(q, 0xb1));
    const __m512i heads = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm_storeu_ps(p, _mm512_castps512_ps128(_mm512_permutexvar_ps(heads, q)));
}

static inline void r_store_bytes(uint8_t *p, reg a, int32_t zero)
{
    __m512i b = _mm512_add_epi32(_mm512_cvtps_epi32(a), _mm512_set1_epi32(zero));
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(b));
}

static inline reg r_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

static inline reg r_difference(const int32_t *p, const int32_t *q)
{
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_loadu_si512(p), _mm512_loadu_si512(q)));
}

/* Registers of int32, for dot_madd.h and coded_x86.h. */
typedef __m512i ireg;
static inline ireg i_set(int32_t x) { return _mm512_set1_epi32(x); }
static inline ireg i_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void i_store(int32_t *p, ireg a) { _mm512_storeu_si512(p, a); }
static inline ireg i_add(ireg a, ireg b) { return _mm512_add_epi32(a, b); }
static inline ireg i_and(ireg a, ireg b) { return _mm512_and_si512(a, b); }
static inline reg i_floats(ireg a) { return _mm512_cvtepi32_ps(a); }
static inline ireg i_madd(ireg a, ireg b) { return _mm512_madd_epi16(a, b); }
static inline ireg i_even(ireg a) { return _mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8); }
static inline ireg i_odd(ireg a) { return _mm512_srai_epi16(a, 8); }
static inline ireg i_high(ireg a) { return _mm512_srli_epi16(a, 8); }

static inline reg r_doubled(const int32_t *p, int32_t shift)
{
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(i_add(i_load(p), i_load(p)), i_set(shift)));
}

/* For low_x86.h. i_widen_u8 makes LANES integers of 32 bits from as many bytes. */
static inline ireg i_sub(ireg a, ireg b) { return _mm512_sub_epi32(a, b); }
static inline ireg i_mullo(ireg a, ireg b) { return _mm512_mullo_epi32(a, b); }
static inline ireg i_mullo16(ireg a, ireg b) { return _mm512_mullo_epi16(a, b); }
static inline ireg i_right4(ireg a) { return _mm512_srli_epi32(a, 4); }
static inline ireg i_right(ireg a, ireg n) { return _mm512_srav_epi32(a, n); }
static inline ireg i_widen_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

/* Registers of int16 and of bytes, for coded_x86.h and codes_attention.h. */
static inline ireg i_add16(ireg a, ireg b) { return _mm512_add_epi16(a, b); }
static inline ireg i_maddubs(ireg a, ireg b) { return _mm512_maddubs_epi16(a, b); }

typedef __m512i breg;
enum { BYTES = 64 };
static inline breg b_set(uint8_t x) { return _mm512_set1_epi8((char)x); }
static inline breg b_and(breg a, breg b) { return _mm512_and_si512(a, b); }
static inline breg b_add(breg a, breg b) { return _mm512_add_epi8(a, b); }
static inline breg b_sub(breg a, breg b) { return _mm512_sub_epi8(a, b); }
static inline breg b_subs(breg a, breg b) { return _mm512_subs_epu8(a, b); }
static inline breg b_min(breg a, breg b) { return _mm512_min_epu8(a, b); }
static inline void b_store(uint8_t *p, breg a) { _mm512_storeu_si512(p, a); }
static inline breg b_lookup(const uint8_t *table, breg a)
{
    __m128i t = _mm_loadu_si128((const __m128i *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), a);
}
static inline breg b_shift(breg a, const uint64_t *n) { return _mm512_srlv_epi64(a, i_load(n)); }
#define HAVE_ROTATE
static inline breg b_rotate(breg a, const uint64_t *n) { return _mm512_rorv_epi64(a, i_load(n)); }
static inline breg b_repeat(const uint8_t *p, int r, int period)
{
    (void)r;
    switch (period) {
    case 8: return _mm512_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)p));
    case 16: return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
    case 32: return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
    default: return i_load(p);
    }
}

/* Store 16 integers: as int8 in order; as int16 each four in the order 0, 2, 1, 3. */
static inline void r_store_x8(uint8_t *p, const reg *a)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a[0])));
}

static inline void r_store_x16(uint8_t *p, const reg *a)
{
    __m256i b = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(a[0]));
    _mm256_storeu_si256((__m256i *)p,
                        _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(b, 0xd8), 0xd8));
}

static inline size_t x_quad(size_t s) { return s; }

static inline void r_add_doubles(double *p, reg a)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(a)),
            high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    _mm512_storeu_pd(p, _mm512_add_pd(_mm512_loadu_pd(p), low));
    _mm512_storeu_pd(p + 8, _mm512_add_pd(_mm512_loadu_pd(p + 8), high));
}

static inline reg r_rint(reg a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline reg r_scale(reg a, reg q) { return _mm512_scalef_ps(a, q); }

static inline reg r_or_nan(reg a, reg x)
{
    return _mm512_mask_mov_ps(a, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}
