/* rmsnorm, layernorm and their _u8 twins of kernels.h. Parameters: ISA(name) and lanes.h. */
#ifndef TFT_TEMPLATE_NORMS_H
#define TFT_TEMPLATE_NORMS_H

#include "output.h"

FORCE_INLINE void rmsnorm(output y, const float *x, const float *w, size_t n, float eps)
{
    v16 squares = v_set(0);
    for (size_t i = 0; i < n; i += 16) {
        v16 a = v_load_n(x + i, n - i);
        squares = v_select_n(v_fma(a, a, squares), squares, n - i);
    }
    v16 r = v_set(1.0f / sqrtf(v_hsum(squares) / (float)n + eps));
    for (size_t i = 0; i < n; i += 16) {
        v16 a = v_mul(v_load_n(x + i, n - i), r);
        output_store(&y, i, v_mul(a, v_load_n(w + i, n - i)), n - i);
    }
}

FORCE_INLINE void layernorm(output y, const float *x, const float *w, const float *b, size_t n,
                            float eps)
{
    v16 sum = v_set(0), squares = v_set(0);
    for (size_t i = 0; i < n; i += 16)
        sum = v_select_n(v_add(sum, v_load_n(x + i, n - i)), sum, n - i);
    v16 mean = v_set(v_hsum(sum) / (float)n);
    for (size_t i = 0; i < n; i += 16) {
        v16 d = v_sub(v_load_n(x + i, n - i), mean);
        squares = v_select_n(v_fma(d, d, squares), squares, n - i);
    }
    v16 r = v_set(1.0f / sqrtf(v_hsum(squares) / (float)n + eps));
    for (size_t i = 0; i < n; i += 16) {
        size_t left = n - i;
        v16 d = v_sub(v_load_n(x + i, left), mean);
        v16 a = v_fma(v_mul(d, r), v_load_n(w + i, left), v_load_n(b + i, left));
        output_store(&y, i, a, left);
    }
}

static void ISA(rmsnorm)(float *y, const float *x, const float *w, size_t n, float eps)
{
    rmsnorm(output_floats(y), x, w, n, eps);
}

static void ISA(rmsnorm_u8)(uint8_t *y, const float *x, const float *w, size_t n, float eps,
                            const struct tft_affine *q)
{
    rmsnorm(output_bytes(y, q), x, w, n, eps);
}

static void ISA(layernorm)(float *y, const float *x, const float *w, const float *b, size_t n,
                           float eps)
{
    layernorm(output_floats(y), x, w, b, n, eps);
}

static void ISA(layernorm_u8)(uint8_t *y, const float *x, const float *w, const float *b, size_t n,
                              float eps, const struct tft_affine *q)
{
    layernorm(output_bytes(y, q), x, w, b, n, eps);
}

#endif
