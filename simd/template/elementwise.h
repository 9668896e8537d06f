/* add, blend and scale of kernels.h. Parameters: ISA(name) and lanes.h. */
#ifndef TFT_TEMPLATE_ELEMENTWISE_H
#define TFT_TEMPLATE_ELEMENTWISE_H

#include "lanes.h"

static void ISA(add)(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        v_store_n(y + i, v_add(v_load_n(y + i, n - i), v_load_n(x + i, n - i)), n - i);
}

static void ISA(blend)(float *y, float a, const float *x, float b, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        v16 old = v_mul(v_load_n(y + i, n - i), v_set(a));
        v_store_n(y + i, v_fma(v_load_n(x + i, n - i), v_set(b), old), n - i);
    }
}

static void ISA(scale)(float *y, float a, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        v_store_n(y + i, v_mul(v_load_n(y + i, n - i), v_set(a)), n - i);
}

#endif
