/*
 * The reference: the numerics contract of kernels.h in plain C. Tests compare every other ISA level
 * with the reference bit for bit, and a CPU without another level uses the reference. Read this
 * file beside kernels.h, which has the formulas and shapes.
 */
#include "simd/isas.h"

#include <math.h>
#include <string.h>

#include "reference_codes.h"
#include "reference_packed.h"
#include "reference_state.h"
#include "simd/affine.h"
#include "simd/expf.h"
#include "simd/half.h"
#include "simd/kernels.h"
#include "simd/peak.h"
#include "sums.h"

/* Element k of a row of numbers of type num. */
static float element(const void *x, size_t k, enum tft_num num)
{
    switch (num) {
    case TFT_NUM_F16: return tft_f16_to_f32(((const uint16_t *)x)[k]);
    case TFT_NUM_BF16: return tft_bf16_to_f32(((const uint16_t *)x)[k]);
    default: return ((const float *)x)[k];
    }
}

/* dot16 with a row of type num. */
static float dot16_num(const float *a, const void *b, size_t n, enum tft_num num)
{
    float l[16] = {0};
    for (size_t k = 0; k < n; k++)
        l[k % 16] = fmaf(a[k], element(b, k, num), l[k % 16]);
    return sum16(l);
}

/* ------------------------------------------------------------------------------- matrix product */

static inline void gemm(const struct tft_gemm *g, enum tft_num num)
{
    size_t K = g->K, size = tft_num_bytes(num);
    for (size_t n = 0; n < g->N; n++)
        for (size_t m = 0; m < g->M; m++) {
            const char *w = (const char *)g->w + n * K * size;
            float sum = g->add ? g->y[m * g->ldy + n] : 0;
            if (g->bias)
                sum += g->bias[n];
            for (size_t k = 0; k < K; k += TFT_PIECE)
                sum += dot16_num(g->x + m * g->ldx + k, w + k * size,
                                 K - k < TFT_PIECE ? K - k : TFT_PIECE, num);
            g->y[m * g->ldy + n] = sum;
        }
}

static void gemm_f32_c(const struct tft_gemm *g)
{
    gemm(g, TFT_NUM_F32);
}

static void gemm_f16_c(const struct tft_gemm *g)
{
    gemm(g, TFT_NUM_F16);
}

static void gemm_bf16_c(const struct tft_gemm *g)
{
    gemm(g, TFT_NUM_BF16);
}

/* y[m][n] of the sum acc. */
static void finish_i8(const struct tft_gemm_i8 *g, size_t m, size_t n, uint32_t acc)
{
    const struct tft_affine *q = &g->xq[m * g->xq_step];
    float *y = &g->y[m * g->ldy + n];
    int32_t d = (int32_t)(acc - (uint32_t)q->zero * (uint32_t)g->w->rowsum[n]);
    float v = (float)d * (q->scale * g->w->scale[n]);
    if (g->bias)
        v += g->bias[n];
    *y = g->add ? *y + v : v;
}

static void gemm_i8_c(const struct tft_gemm_i8 *g)
{
    const struct tft_panels *w = g->w;
    for (size_t n = 0; n < g->N; n++)
        for (size_t m = 0; m < g->M; m++) {
            int32_t acc = 0;
            for (size_t k = 0; k < w->cols; k++)
                acc += g->x[m * g->ldx + k] * w->data[tft_panel_at(n, k, w->cols)];
            finish_i8(g, m, n, (uint32_t)acc);
        }
}

/* At most 16 tokens at a time share the unpacking of a row. */
static void gemm_low_c(const struct tft_gemm_i8 *g, const struct tft_low_panels *w)
{
    enum { TOKENS = 16 };
    for (size_t n = 0; n < g->N; n++)
        for (size_t m = 0; m < g->M; m += TOKENS) {
            size_t tokens = g->M - m < TOKENS ? g->M - m : TOKENS;
            uint32_t acc[TOKENS] = {0};
            for (size_t k = 0; k < w->cols; k++) {
                int v = tft_low_at(w->codes, &w->how, n, k, w->cols);
                for (size_t i = 0; i < tokens; i++)
                    acc[i] += (uint32_t)(g->x[(m + i) * g->ldx + k] * v);
            }
            for (size_t i = 0; i < tokens; i++)
                finish_i8(g, m + i, n, acc[i]);
        }
}

/* ------------------------------------------------------------------------------- rows of floats */

static void rmsnorm_c(float *y, const float *x, const float *w, size_t n, float eps)
{
    float r = 1.0f / sqrtf(dot16(x, x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * r * w[i];
}

static void layernorm_c(float *y, const float *x, const float *w, const float *b, size_t n,
                        float eps)
{
    float mean = total16(x, n) / (float)n;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] - mean;
    float r = 1.0f / sqrtf(dot16(y, y, n) / (float)n + eps);
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

static float gelu_of(float x)
{
    float u = x * fmaf(x * x, TFT_GELU_G3, TFT_GELU_G1);
    return x / (1.0f + tft_expf(-u));
}

static void gelu_c(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = gelu_of(x[i]);
}

static void gelu_mul_c(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = gelu_of(a[i]) * b[i];
}

static void relu2_mul_c(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float r = a[i] < 0 ? 0 : a[i];
        y[i] = r * r * b[i];
    }
}

static void softcap_c(float *x, size_t n, float cap, float inverse)
{
    for (size_t i = 0; i < n; i++) {
        float u = x[i] * inverse, a = fabsf(u), z = a * a;
        float p = fmaf(TFT_TANH_4, z, TFT_TANH_3);
        p = fmaf(p, z, TFT_TANH_2);
        p = fmaf(p, z, TFT_TANH_1);
        p = fmaf(p, z, TFT_TANH_0);
        float near = fmaf(a * z, p, a), far = 1.0f - 2.0f / (1.0f + tft_expf(a + a));
        float t = a < TFT_TANH_SMALL ? near : far;
        x[i] = (u < 0.0f ? -0.0f - t : t) * cap;
    }
}

static void add_c(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
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

/* -------------------------------------------------------------- rows of floats, result in bytes */

static void quantize_c(uint8_t *y, const float *x, size_t n, const struct tft_affine *q)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tft_affine_byte(x[i], q);
}

static void rmsnorm_u8_c(uint8_t *y, const float *x, const float *w, size_t n, float eps,
                         const struct tft_affine *q)
{
    float r = 1.0f / sqrtf(dot16(x, x, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = tft_affine_byte(x[i] * r * w[i], q);
}

static void layernorm_u8_c(uint8_t *y, const float *x, const float *w, const float *b, size_t n,
                           float eps, const struct tft_affine *q)
{
    float mean = total16(x, n) / (float)n, l[16] = {0};
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
    for (size_t i = 0; i < n; i++)
        y[i] = tft_affine_byte(gelu_of(x[i]), q);
}

static void gelu_mul_u8_c(uint8_t *y, const float *a, const float *b, size_t n,
                          const struct tft_affine *q)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tft_affine_byte(gelu_of(a[i]) * b[i], q);
}

/* ---------------------------------------------------------------------------------- conversions */

static void widen_f32_c(float *y, const void *x, size_t n)
{
    memcpy(y, x, n * sizeof *y);
}

static void widen_f16_c(float *y, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = element(x, i, TFT_NUM_F16);
}

static void widen_bf16_c(float *y, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = element(x, i, TFT_NUM_BF16);
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

static void widen_f8_c(float *y, const uint8_t *x, size_t n, float unit)
{
    for (size_t i = 0; i < n; i++)
        y[i] = tft_f8_to_f32(x[i]) * unit;
}

/* ------------------------------------------------------------------------------------ attention */

static inline void score(const struct tft_score *a, enum tft_num num)
{
    size_t dim = a->head_dim;
    for (size_t i = 0; i < a->nq; i++)
        for (size_t j = 0; j < (a->n + 15) / 16 * 16; j++) {
            float sum = 0;
            for (size_t d = 0; d < dim; d++)
                sum = fmaf(a->q[i * a->ldq + d],
                           element(a->k, (j / 16 * dim + d) * 16 + j % 16, num), sum);
            a->s[i * a->lds + j] = sum * a->scale;
        }
}

static void score_f32_c(const struct tft_score *a)
{
    score(a, TFT_NUM_F32);
}

static void score_f16_c(const struct tft_score *a)
{
    score(a, TFT_NUM_F16);
}

static void softmax_c(float *p, size_t n, float *max, float *sum)
{
    float m = p[0];
    for (size_t j = 1; j < n; j++)
        m = p[j] > m ? p[j] : m;
    m += 0; /* -0 becomes 0 */
    for (size_t j = 0; j < n; j++)
        p[j] = tft_expf(p[j] - m);
    *max = m;
    *sum = total16(p, n);
}

static void softmax_u8_row(uint8_t *y, float *p, const float *scale, size_t n, float *max,
                           float *sum, float *step)
{
    float r = 0;
    int32_t total = 0;
    softmax_c(p, n, max, sum);
    for (size_t j = 0; j < n; j++) {
        p[j] *= scale[j];
        r = p[j] > r ? p[j] : r;
    }
    float inverse = r >= TFT_FOLD_LEAST && r <= FLT_MAX ? 255 / r : 0;
    for (size_t j = 0; j < (n + 15) / 16 * 16; j++) {
        float t = j < n && p[j] * inverse > 0 ? p[j] * inverse : 0;
        y[j] = (uint8_t)rintf(t < 255 ? t : 255);
        total += y[j];
    }
    *step = total ? total16(p, n) / (float)total : 0;
}

static void softmax_u8_c(const struct tft_softmax_u8 *a)
{
    for (size_t i = 0; i < a->rows; i++)
        softmax_u8_row(a->y + i * a->ldy, a->p + i * a->ldp, a->scale, a->n[i], &a->max[i],
                       &a->sum[i], &a->step[i]);
}

static double sum_exp_c(const float *x, size_t n, float max, float inverse)
{
    double lane[16] = {0};
    for (size_t at = 0; at < n; at += 64) {
        float w[64] = {0};
        for (size_t i = 0; i < 64 && at + i < n; i++) {
            float d = (x[at + i] - max) * inverse;
            w[i] = d > -200 ? tft_expf(d) : 0;
        }
        for (size_t j = 0; j < 16; j++)
            lane[j] += (double)((w[j] + w[j + 16]) + (w[j + 32] + w[j + 48]));
    }
    for (size_t half = 8; half; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static void tops_c(float *top, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i % TFT_TOPS == 0)
            top[i / TFT_TOPS] = -INFINITY;
        if (x[i] > top[i / TFT_TOPS])
            top[i / TFT_TOPS] = x[i];
    }
}

static inline void mix(const struct tft_mix *a, enum tft_num num)
{
    size_t dim = a->head_dim;
    for (size_t i = 0; i < a->nq; i++)
        for (size_t j = 0; j < a->n; j++)
            for (size_t d = 0; d < dim; d++) {
                float *o = &a->o[i * a->ldo + d];
                *o = fmaf(a->p[i * a->ldp + j], element(a->v, j * dim + d, num), *o);
            }
}

static void mix_f32_c(const struct tft_mix *a)
{
    mix(a, TFT_NUM_F32);
}

static void mix_f16_c(const struct tft_mix *a)
{
    mix(a, TFT_NUM_F16);
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

/* -------------------------------------------------------------------------- limits of a machine */

TFT_PEAK(peak_fma_c, float, 1, fmaf(a, acc[i], a), 2)
TFT_PEAK(peak_int8_c, int32_t, 1,
         (int32_t)((uint32_t)acc[i] + (uint32_t)((int8_t)a * (int8_t)acc[i])), 2)

static float read_c(const float *x, size_t n)
{
    float max = x[0];
    for (size_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

void tft_isa_c(struct tft_kernels *k)
{
    *k = (struct tft_kernels){
        .gemm =
            {
                [TFT_NUM_F32] = gemm_f32_c,
                [TFT_NUM_F16] = gemm_f16_c,
                [TFT_NUM_BF16] = gemm_bf16_c,
            },
        .gemm_i8 = gemm_i8_c,
        .gemm_low = gemm_low_c,
        .gemm_packed = tft_ref_gemm_packed,
        .unpack = tft_ref_unpack,
        .rmsnorm = rmsnorm_c,
        .layernorm = layernorm_c,
        .rope_pairs = rope_pairs_c,
        .rope_halves = rope_halves_c,
        .silu_mul = silu_mul_c,
        .gelu = gelu_c,
        .gelu_mul = gelu_mul_c,
        .relu2_mul = relu2_mul_c,
        .softcap = softcap_c,
        .add = add_c,
        .hadamard = hadamard_c,
        .range = range_c,
        .quantize = quantize_c,
        .quantize_groups = tft_ref_quantize_groups,
        .rmsnorm_u8 = rmsnorm_u8_c,
        .layernorm_u8 = layernorm_u8_c,
        .silu_mul_u8 = silu_mul_u8_c,
        .gelu_u8 = gelu_u8_c,
        .gelu_mul_u8 = gelu_mul_u8_c,
        .mul = tft_ref_mul,
        .sigmoid_mul = tft_ref_sigmoid_mul,
        .conv = tft_ref_conv,
        .delta = tft_ref_delta,
        .scan = tft_ref_scan,
        .wkv = tft_ref_wkv,
        .widen =
            {
                [TFT_NUM_F32] = widen_f32_c,
                [TFT_NUM_F16] = widen_f16_c,
                [TFT_NUM_BF16] = widen_bf16_c,
            },
        .narrow =
            {
                [TFT_NUM_F32] = narrow_f32_c,
                [TFT_NUM_F16] = narrow_f16_c,
                [TFT_NUM_BF16] = narrow_bf16_c,
            },
        .widen_f8 = widen_f8_c,
        .score = {[TFT_NUM_F32] = score_f32_c, [TFT_NUM_F16] = score_f16_c},
        .softmax = softmax_c,
        .softmax_u8 = softmax_u8_c,
        .mix = {[TFT_NUM_F32] = mix_f32_c, [TFT_NUM_F16] = mix_f16_c},
        .blend = blend_c,
        .scale = scale_c,
        .sum_exp = sum_exp_c,
        .tops = tops_c,
        .score_codes = tft_ref_score_codes,
        .mix_codes = tft_ref_mix_codes,
        .mix_widths = tft_ref_mix_widths,
        .turn_keys = tft_ref_turn_keys,
        .fit = tft_ref_fit,
        .peak_fma = peak_fma_c,
        .peak_int8 = peak_int8_c,
        .read = read_c,
        .contracted = tft_contracts(),
    };
}
