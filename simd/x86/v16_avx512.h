/* The vocabulary of wide.h, where one register is 16 lanes: AVX-512 F, BW, DQ, VL. */
#include <immintrin.h>

#if !defined __AVX512F__ || !defined __AVX512BW__ || !defined __AVX512DQ__ || !defined __AVX512VL__
#error "build this file with -mavx512f -mavx512bw -mavx512dq -mavx512vl"
#endif

typedef __m512 v16;

static inline __mmask16 first(size_t n) { return (__mmask16)((1u << n) - 1); }

static inline v16 v_zero(void) { return _mm512_setzero_ps(); }
static inline v16 v_set(float x) { return _mm512_set1_ps(x); }
static inline v16 v_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
static inline v16 v_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
static inline v16 v_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
static inline v16 v_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
static inline v16 v_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }
static inline v16 v_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
static inline v16 v_select(v16 a, v16 b, size_t n) { return _mm512_mask_mov_ps(b, first(n), a); }
static inline v16 v_swap(v16 a) { return _mm512_permute_ps(a, 0xb1); }

static inline v16 v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline v16 v_load_n(const float *p, size_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
static inline void v_store(float *p, v16 a) { _mm512_storeu_ps(p, a); }
static inline void v_store_n(float *p, v16 a, size_t n) { _mm512_mask_storeu_ps(p, first(n), a); }

static inline v16 v_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline v16 v_load_f16_n(const uint16_t *p, size_t n) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p)); }
static inline void v_store_f16(uint16_t *p, v16 a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, 0)); }
static inline void v_store_f16_n(uint16_t *p, v16 a, size_t n) { _mm256_mask_storeu_epi16(p, first(n), _mm512_cvtps_ph(a, 0)); }

static inline v16 from_bf16(__m256i h) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)); }
static inline v16 v_load_bf16(const uint16_t *p) { return from_bf16(_mm256_loadu_si256((const __m256i *)p)); }
static inline v16 v_load_bf16_n(const uint16_t *p, size_t n) { return from_bf16(_mm256_maskz_loadu_epi16(first(n), p)); }

/* The tree of sum16, and its like for the maximum. */
static inline float v_sum(v16 a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

static inline float v_top(v16 a)
{
    return _mm512_reduce_max_ps(a);
}

/* p[i] = v_sum(a[i]) for i < 4: the four trees side by side. */
static inline __m128 sums_of_4(v16 a, v16 b, v16 c, v16 d)
{
    /* i + 8: [a's 8 | b's 8] */
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    /* i + 4: a quarter each */
    __m512 q = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    /* i + 2, i + 1, inside the quarters */
    q = _mm512_add_ps(q, _mm512_permute_ps(q, 0x4e));
    q = _mm512_add_ps(q, _mm512_permute_ps(q, 0xb1));
    const __m512i heads = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(heads, q));
}

static inline void v_sum4(float p[4], v16 a, v16 b, v16 c, v16 d)
{
    _mm_storeu_ps(p, sums_of_4(a, b, c, d));
}

#if TFT_SLEEF
#include <sleef.h>
static inline v16 v_exp(v16 a) { return Sleef_finz_expf16_u10avx512f(a); }
#endif
