/* The vocabulary of wide.h in two registers of 8: AVX2, FMA, F16C. */
#include <immintrin.h>

#if !defined __AVX2__ || !defined __FMA__ || !defined __F16C__
#error "build this file with -mavx2 -mfma -mf16c"
#endif

typedef struct {
    __m256 l, h; /* lanes 0-7, 8-15 */
} v16;

static inline __m256i first8(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > 8 ? 8 : (int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline __m256i next8(size_t n) { return first8(n > 8 ? n - 8 : 0); }

static inline v16 v_zero(void) { return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline v16 v_set(float x) { return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline v16 v_add(v16 a, v16 b) { return (v16){_mm256_add_ps(a.l, b.l), _mm256_add_ps(a.h, b.h)}; }
static inline v16 v_sub(v16 a, v16 b) { return (v16){_mm256_sub_ps(a.l, b.l), _mm256_sub_ps(a.h, b.h)}; }
static inline v16 v_mul(v16 a, v16 b) { return (v16){_mm256_mul_ps(a.l, b.l), _mm256_mul_ps(a.h, b.h)}; }
static inline v16 v_div(v16 a, v16 b) { return (v16){_mm256_div_ps(a.l, b.l), _mm256_div_ps(a.h, b.h)}; }
static inline v16 v_max(v16 a, v16 b) { return (v16){_mm256_max_ps(a.l, b.l), _mm256_max_ps(a.h, b.h)}; }
static inline v16 v_fma(v16 a, v16 b, v16 c)
{
    return (v16){_mm256_fmadd_ps(a.l, b.l, c.l), _mm256_fmadd_ps(a.h, b.h, c.h)};
}
static inline v16 v_select(v16 a, v16 b, size_t n)
{
    return (v16){_mm256_blendv_ps(b.l, a.l, _mm256_castsi256_ps(first8(n))),
                 _mm256_blendv_ps(b.h, a.h, _mm256_castsi256_ps(next8(n)))};
}
static inline v16 v_swap(v16 a) { return (v16){_mm256_permute_ps(a.l, 0xb1), _mm256_permute_ps(a.h, 0xb1)}; }

static inline v16 v_load(const float *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline v16 v_load_n(const float *p, size_t n)
{
    __m256i l = first8(n), h = next8(n);
    return (v16){_mm256_maskload_ps(p, l), _mm256_maskload_ps(n > 8 ? p + 8 : p, h)};
}
static inline void v_store(float *p, v16 a)
{
    _mm256_storeu_ps(p, a.l);
    _mm256_storeu_ps(p + 8, a.h);
}
static inline void v_store_n(float *p, v16 a, size_t n)
{
    _mm256_maskstore_ps(p, first8(n), a.l);
    _mm256_maskstore_ps(n > 8 ? p + 8 : p, next8(n), a.h);
}

static inline __m256 from_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
static inline v16 v_load_f16(const uint16_t *p) { return (v16){from_f16(p), from_f16(p + 8)}; }
static inline void v_store_f16(uint16_t *p, v16 a)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(a.l, 0));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(a.h, 0));
}

static inline __m256 from_bf16(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline v16 v_load_bf16(const uint16_t *p) { return (v16){from_bf16(p), from_bf16(p + 8)}; }

/* AVX2 has no masked 16-bit loads: the last few numbers of a row go through memory. */
static inline v16 v_load_f16_n(const uint16_t *p, size_t n)
{
    uint16_t t[16] = {0};
    memcpy(t, p, n * sizeof *t);
    return v_load_f16(t);
}
static inline v16 v_load_bf16_n(const uint16_t *p, size_t n)
{
    uint16_t t[16] = {0};
    memcpy(t, p, n * sizeof *t);
    return v_load_bf16(t);
}
static inline void v_store_f16_n(uint16_t *p, v16 a, size_t n)
{
    uint16_t t[16];
    v_store_f16(t, a);
    memcpy(p, t, n * sizeof *t);
}

/* The tree of sum16, and its like for the maximum. */
static inline float v_sum(v16 a)
{
    __m256 b = _mm256_add_ps(a.l, a.h);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

static inline float v_top(v16 a)
{
    __m256 b = _mm256_max_ps(a.l, a.h);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

static inline void v_sum4(float p[4], v16 a, v16 b, v16 c, v16 d)
{
    p[0] = v_sum(a);
    p[1] = v_sum(b);
    p[2] = v_sum(c);
    p[3] = v_sum(d);
}

#if TFT_SLEEF
#include <sleef.h>
static inline v16 v_exp(v16 a) { return (v16){Sleef_finz_expf8_u10avx2(a.l), Sleef_finz_expf8_u10avx2(a.h)}; }
#endif
