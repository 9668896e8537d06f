/* quantize and range of kernels.h. Parameters: ISA(name) and lanes.h. */
#ifndef TFT_TEMPLATE_QUANTIZE_H
#define TFT_TEMPLATE_QUANTIZE_H

#include "output.h"

static void ISA(quantize)(uint8_t *y, const float *x, size_t n, const struct tft_affine *q)
{
    output o = output_bytes(y, q);
    for (size_t i = 0; i < n; i += 16)
        output_store(&o, i, v_load_n(x + i, n - i), n - i);
}

/* Lanes past the end are 0, which is always part of the range. */
static void ISA(range)(const float *x, size_t n, float *min, float *max)
{
    v16 low = v_set(0), high = v_set(0);
    for (size_t i = 0; i < n; i += 16) {
        v16 a = v_load_n(x + i, n - i);
        low = v_min(a, low);
        high = v_max(a, high);
    }
    *min = 0.0f - v_hmax(v_sub(v_set(-0.0f), low)); /* never -0 */
    *max = v_hmax(high) + 0.0f;
}

#endif
