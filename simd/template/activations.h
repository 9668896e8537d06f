/* silu_mul, gelu, gelu_mul, their _u8 twins, relu2_mul and softcap of kernels.h. Parameters:
   ISA(name) and lanes.h. */
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

FORCE_INLINE v16 gelu_of(v16 a)
{
    return gated(a, v_mul(a, v_fma(v_mul(a, a), v_set(TFT_GELU_G3), v_set(TFT_GELU_G1))));
}

FORCE_INLINE void gelu(output y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        output_store(&y, i, gelu_of(v_load_n(x + i, n - i)), n - i);
}

FORCE_INLINE void gelu_mul(output y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        output_store(&y, i, v_mul(gelu_of(v_load_n(a + i, n - i)), v_load_n(b + i, n - i)), n - i);
}

static void ISA(relu2_mul)(float *y, const float *a, const float *b, size_t n)
{
    const v16 zero = v_set(0.0f);
    for (size_t i = 0; i < n; i += 16) {
        v16 x = v_load_n(a + i, n - i), r = v_pick(x, zero, zero, x);
        v_store_n(y + i, v_mul(v_mul(r, r), v_load_n(b + i, n - i)), n - i);
    }
}

static void ISA(softcap)(float *x, size_t n, float cap, float inverse)
{
    const v16 one = v_set(1.0f), zero = v_set(-0.0f);
    for (size_t i = 0; i < n; i += 16) {
        v16 u = v_mul(v_load_n(x + i, n - i), v_set(inverse)), a = v_mask(u, 0x7fffffff);
        v16 z = v_mul(a, a), p = v_fma(v_set(TFT_TANH_4), z, v_set(TFT_TANH_3));
        p = v_fma(p, z, v_set(TFT_TANH_2));
        p = v_fma(p, z, v_set(TFT_TANH_1));
        p = v_fma(p, z, v_set(TFT_TANH_0));
        v16 near = v_fma(v_mul(a, z), p, a),
            far = v_sub(one, v_div(v_set(2.0f), v_add(one, v_exp(v_add(a, a)))));
        v16 t = v_pick(a, v_set(TFT_TANH_SMALL), near, far);
        t = v_pick(u, v_set(0.0f), v_sub(zero, t), t);
        v_store_n(x + i, v_mul(t, v_set(cap)), n - i);
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

static void ISA(gelu_mul)(float *y, const float *a, const float *b, size_t n)
{
    gelu_mul(output_floats(y), a, b, n);
}

static void ISA(gelu_mul_u8)(uint8_t *y, const float *a, const float *b, size_t n,
                             const struct tft_affine *q)
{
    gelu_mul(output_bytes(y, q), a, b, n);
}

#endif
