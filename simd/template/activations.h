/* silu_mul, gelu and their _u8 twins of kernels.h. Parameters: ISA(name) and lanes.h. */
#ifndef TFT_TEMPLATE_ACTIVATIONS_H
#define TFT_TEMPLATE_ACTIVATIONS_H

#include "output.h"

/* a / (1 + exp(-u)) */
FORCE_INLINE v16 gated(v16 a, v16 u)
{
    return v_div(a, v_add(v_set(1.0f), v_exp(v_sub(v_set(-0.0f), u))));
}

FORCE_INLINE void silu_mul(output y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        v16 g = v_load_n(a + i, n - i);
        output_store(&y, i, v_mul(gated(g, g), v_load_n(b + i, n - i)), n - i);
    }
}

FORCE_INLINE void gelu(output y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        v16 a = v_load_n(x + i, n - i);
        v16 u = v_mul(a, v_fma(v_mul(a, a), v_set(TFT_GELU_G3), v_set(TFT_GELU_G1)));
        output_store(&y, i, gated(a, u), n - i);
    }
}

static void ISA(silu_mul)(float *y, const float *a, const float *b, size_t n)
{
    silu_mul(output_floats(y), a, b, n);
}

static void ISA(silu_mul_u8)(uint8_t *y, const float *a, const float *b, size_t n,
                             const struct tft_affine *q)
{
    silu_mul(output_bytes(y, q), a, b, n);
}

static void ISA(gelu)(float *y, const float *x, size_t n)
{
    gelu(output_floats(y), x, n);
}

static void ISA(gelu_u8)(uint8_t *y, const float *x, size_t n, const struct tft_affine *q)
{
    gelu(output_bytes(y, q), x, n);
}

#endif
