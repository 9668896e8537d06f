/* The numerics contract of kernels.h in plain C: the specification that every other rung is
   compared with, bit for bit, and the rung of machines without any other. Read it beside
   kernels.h. */
#include "simd/rungs.h"

#include <math.h>

#include "simd/affine.h"
#include "simd/expf.h"
#include "simd/half.h"
#include "simd/peak.h"
#include "reference.h"

/* --------------------------------------------------------------------------- the defined orders */

static float sum16(float l[16])
{
    for (size_t half = 8; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            l[i] += l[i + half];
    return l[0];
}

/* Element k of a row of numbers held as `num`. */
static float at(const void *x, size_t k, enum tft_num num)
{
    switch (num) {
    case TFT_NUM_F16: return tft_f16_to_f32(((const uint16_t *)x)[k]);
    case TFT_NUM_BF16: return tft_bf16_to_f32(((const uint16_t *)x)[k]);
    default: return ((const float *)x)[k];
    }
}

static float dot16(const float *a, const void *b, size_t n, enum tft_num num)
{
    float l[16] = {0};
    for (size_t k = 0; k < n; k++)
        l[k % 16] = fmaf(a[k], at(b, k, num), l[k % 16]);
    return sum16(l);
}

float tft_ref_total16(const float *x, size_t n)
{
    float l[16] = {0};
    for (size_t k = 0; k < n; k++)
        l[k % 16] += x[k];
    return sum16(l);
}

float tft_ref_dot16(const float *a, const float *b, size_t n)
{
    return dot16(a, b, n, TFT_NUM_F32);
}

/* ------------------------------------------------------------------------------- matrix product */

static inline void gemm(float *y, size_t ldy, const float *x, size_t ldx, const void *w,
                        const float *bias, int add, size_t M, size_t N, size_t K, enum tft_num num)
{
    size_t size = tft_num_bytes(num);
    for (size_t n = 0; n < N; n++)
        for (size_t m = 0; m < M; m++) {
            float sum = add ? y[m * ldy + n] : 0;
            if (bias)
                sum += bias[n];
            for (size_t k = 0; k < K; k += TFT_PIECE)
                sum += dot16(x + m * ldx + k, (const char *)w + (n * K + k) * size,
                             K - k < TFT_PIECE ? K - k : TFT_PIECE, num);
            y[m * ldy + n] = sum;
        }
}

#define GEMM(name, num)                                                                            \
    static void name(float *y, size_t ldy, const float *x, size_t ldx, const void *w,              \
                     const float *bias, int add, size_t M, size_t N, size_t K)                     \
    {                                                                                              \
        gemm(y, ldy, x, ldx, w, bias, add, M, N, K, num);                                          \
    }
GEMM(gemm_f32_c, TFT_NUM_F32)
GEMM(gemm_f16_c, TFT_NUM_F16)
GEMM(gemm_bf16_c, TFT_NUM_BF16)

/* ------------------------------------------------------------------------------ rows of numbers */

static void rmsnorm_c(float *y, const float *x, const float *w, size_t n, float eps)
{
    float r = 1.0f / sqrtf(dot16(x, x, n, TFT_NUM_F32) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * r * w[i];
}

static void layernorm_c(float *y, const float *x, const float *w, const float *b, size_t n,
                        float eps)
{
    float mean = tft_ref_total16(x, n) / (float)n;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] - mean;
    float r = 1.0f / sqrtf(dot16(y, y, n, TFT_NUM_F32) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(y[i] * r, w[i], b[i]);
}

static void rope_pairs_c(float *x, const float *c, const float *s, size_t n_head, size_t head_dim,
                         size_t n_rot)
{
    for (size_t h = 0; h < n_head; h++, x += head_dim)
        for (size_t i = 0; i < n_rot; i += 2) {
            float a = x[i], b = x[i + 1];
            x[i] = fmaf(a, c[i], b * s[i]);
            x[i + 1] = fmaf(b, c[i + 1], a * s[i + 1]);
        }
}

static void rope_halves_c(float *x, const float *c, const float *s, size_t n_head, size_t head_dim,
                          size_t n_rot)
{
    size_t half = n_rot / 2;
    for (size_t h = 0; h < n_head; h++, x += head_dim)
        for (size_t i = 0; i < half; i++) {
            float a = x[i], b = x[i + half];
            x[i] = fmaf(a, c[i], b * s[i]);
            x[i + half] = fmaf(b, c[i + half], a * s[i + half]);
        }
}

static void silu_mul_c(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] / (1.0f + tft_expf(-a[i])) * b[i];
}

static void gelu_c(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float u = x[i] * fmaf(x[i] * x[i], TFT_GELU_G3, TFT_GELU_G1);
        y[i] = x[i] / (1.0f + tft_expf(-u));
    }
}

static void add_c(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void widen_f32_c(float *y, const void *x, size_t n)
{
    memcpy(y, x, n * sizeof *y);
}

static void widen_f16_c(float *y, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = at(x, i, TFT_NUM_F16);
}

static void widen_bf16_c(float *y, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = at(x, i, TFT_NUM_BF16);
}

static void narrow_f32_c(void *y, const float *x, size_t n)
{
    memcpy(y, x, n * sizeof *x);
}

static void narrow_f16_c(void *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)y)[i] = tft_f32_to_f16(x[i]);
}

static void narrow_bf16_c(void *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)y)[i] = tft_f32_to_bf16(x[i]);
}

/* ------------------------------------------------------------------------------------ attention */

static inline void score(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq,
                         size_t n, size_t head_dim, float scale, enum tft_num num)
{
    for (size_t i = 0; i < nq; i++)
        for (size_t j = 0; j < (n + 15) / 16 * 16; j++) {
            float sum = 0;
            for (size_t d = 0; d < head_dim; d++)
                sum = fmaf(q[i * ldq + d], at(k, (j / 16 * head_dim + d) * 16 + j % 16, num), sum);
            s[i * ns + j] = sum * scale;
        }
}

static void score_f32_c(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq,
                        size_t n, size_t head_dim, float scale)
{
    score(s, ns, q, ldq, k, nq, n, head_dim, scale, TFT_NUM_F32);
}

static void score_f16_c(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq,
                        size_t n, size_t head_dim, float scale)
{
    score(s, ns, q, ldq, k, nq, n, head_dim, scale, TFT_NUM_F16);
}

static void softmax_c(float *p, size_t n, float *max, float *sum)
{
    float m = p[0];
    for (size_t j = 1; j < n; j++)
        m = p[j] > m ? p[j] : m;
    for (size_t j = 0; j < n; j++)
        p[j] = tft_expf(p[j] - m);
    *max = m;
    *sum = tft_ref_total16(p, n);
}

static inline void mix(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq,
                       size_t n, size_t head_dim, enum tft_num num)
{
    for (size_t i = 0; i < nq; i++)
        for (size_t j = 0; j < n; j++)
            for (size_t d = 0; d < head_dim; d++)
                o[i * ldo + d] = fmaf(p[i * ldp + j], at(v, j * head_dim + d, num), o[i * ldo + d]);
}

static void mix_f32_c(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq,
                      size_t n, size_t head_dim)
{
    mix(o, ldo, p, ldp, v, nq, n, head_dim, TFT_NUM_F32);
}

static void mix_f16_c(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq,
                      size_t n, size_t head_dim)
{
    mix(o, ldo, p, ldp, v, nq, n, head_dim, TFT_NUM_F16);
}

static void blend_c(float *y, float a, const float *x, float b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(x[i], b, y[i] * a);
}

static void scale_c(float *y, float a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= a;
}

/* ------------------------------------------------------------------------------------- integers */

static void gemm_i8_c(float *y, size_t ldy, const uint8_t *x, size_t ldx,
                      const struct tft_affine *xq, size_t step, const struct tft_panels *w,
                      const float *bias, int add, size_t M, size_t N)
{
    for (size_t n = 0; n < N; n++)
        for (size_t m = 0; m < M; m++) {
            const struct tft_affine *q = &xq[m * step];
            int32_t acc = 0;
            for (size_t k = 0; k < w->cols; k++)
                acc += x[m * ldx + k] * w->data[tft_panel_at(n, k, w->cols)];
            int32_t d = (int32_t)((uint32_t)acc - (uint32_t)q->zero * (uint32_t)w->rowsum[n]);
            float v = (float)d * (q->scale * w->scale[n]);
            if (bias)
                v += bias[n];
            y[m * ldy + n] = add ? y[m * ldy + n] + v : v;
        }
}

static void quantize_c(uint8_t *y, const float *x, size_t n, const struct tft_affine *q)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tft_affine_byte(x[i], q);
}

static void rmsnorm_u8_c(uint8_t *y, const float *x, const float *w, size_t n, float eps,
                         const struct tft_affine *q)
{
    float r = 1.0f / sqrtf(dot16(x, x, n, TFT_NUM_F32) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = tft_affine_byte(x[i] * r * w[i], q);
}

static void layernorm_u8_c(uint8_t *y, const float *x, const float *w, const float *b, size_t n,
                           float eps, const struct tft_affine *q)
{
    float mean = tft_ref_total16(x, n) / (float)n, l[16] = {0};
    for (size_t i = 0; i < n; i++)
        l[i % 16] = fmaf(x[i] - mean, x[i] - mean, l[i % 16]);
    float r = 1.0f / sqrtf(sum16(l) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = tft_affine_byte(fmaf((x[i] - mean) * r, w[i], b[i]), q);
}

static void silu_mul_u8_c(uint8_t *y, const float *a, const float *b, size_t n,
                          const struct tft_affine *q)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tft_affine_byte(a[i] / (1.0f + tft_expf(-a[i])) * b[i], q);
}

static void gelu_u8_c(uint8_t *y, const float *x, size_t n, const struct tft_affine *q)
{
    for (size_t i = 0; i < n; i++) {
        float u = x[i] * fmaf(x[i] * x[i], TFT_GELU_G3, TFT_GELU_G1);
        y[i] = tft_affine_byte(x[i] / (1.0f + tft_expf(-u)), q);
    }
}

static void hadamard_c(float *x, size_t n, size_t block)
{
    for (size_t h = 1; h < block; h *= 2)
        for (size_t i = 0; i < n; i++)
            if (!(i & h)) {
                float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
}

static void range_c(const float *x, size_t n, float *min, float *max)
{
    *min = *max = 0;
    for (size_t i = 0; i < n; i++) {
        *min = x[i] < *min ? x[i] : *min;
        *max = x[i] > *max ? x[i] : *max;
    }
}

/* --------------------------------------------------------------------------------------- limits */

TFT_PEAK(peak_fma_c, float, 1, fmaf(a, acc[i], a), 2)
TFT_PEAK(peak_int8_c, int32_t, 1,
         (int32_t)((uint32_t)acc[i] + (uint32_t)((int8_t)a * (int8_t)acc[i])), 2)

static float read_c(const float *x, size_t n)
{
    float top = x[0];
    for (size_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

void tft_rung_c(struct tft_kernels *k)
{
    *k = (struct tft_kernels){
        .gemm = {gemm_f32_c, gemm_f16_c, gemm_bf16_c},
        .rmsnorm = rmsnorm_c,
        .layernorm = layernorm_c,
        .rope_pairs = rope_pairs_c,
        .rope_halves = rope_halves_c,
        .silu_mul = silu_mul_c,
        .gelu = gelu_c,
        .add = add_c,
        .widen = {widen_f32_c, widen_f16_c, widen_bf16_c},
        .narrow = {narrow_f32_c, narrow_f16_c, narrow_bf16_c},
        .score = {score_f32_c, score_f16_c},
        .softmax = softmax_c,
        .mix = {mix_f32_c, mix_f16_c},
        .blend = blend_c,
        .scale = scale_c,
        .score_codes = tft_ref_score_codes,
        .mix_codes = tft_ref_mix_codes,
        .fit = tft_ref_fit,
        .widen_f8 = tft_ref_widen_f8,
        .gemm_i8 = gemm_i8_c,
        .quantize = quantize_c,
        .rmsnorm_u8 = rmsnorm_u8_c,
        .layernorm_u8 = layernorm_u8_c,
        .silu_mul_u8 = silu_mul_u8_c,
        .gelu_u8 = gelu_u8_c,
        .hadamard = hadamard_c,
        .range = range_c,
        .peak_fma = peak_fma_c,
        .peak_int8 = peak_int8_c,
        .read = read_c,
    };
}
