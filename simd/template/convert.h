/* widen, narrow and widen_f8 of kernels.h. Parameters: ISA(name) and lanes.h. The reference keeps
   the kernels for f32, and narrow to bf16. */
#ifndef TFT_TEMPLATE_CONVERT_H
#define TFT_TEMPLATE_CONVERT_H

#include "lanes.h"

FORCE_INLINE void widen(float *y, const void *x, size_t n, enum tft_num num)
{
    for (size_t i = 0; i < n; i += 16) {
        size_t left = n - i;
        v16 a = left >= 16 ? v_load_num(x, i, num) : v_load_buffer(x, i, left, num);
        v_store_n(y + i, a, left);
    }
}

static void ISA(widen_f16)(float *y, const void *x, size_t n)
{
    widen(y, x, n, TFT_NUM_F16);
}

static void ISA(widen_bf16)(float *y, const void *x, size_t n)
{
    widen(y, x, n, TFT_NUM_BF16);
}

static void ISA(narrow_f16)(void *y, const float *x, size_t n)
{
    uint16_t *h = y;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        r_store_f16(h + i, r_load(x + i));
    for (; i < n; i++)
        h[i] = tft_f32_to_f16(x[i]);
}

static void ISA(widen_f8)(float *y, const uint8_t *x, size_t n, float unit)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(y + i, v_mul(v_load_f8(x + i), v_set(unit)));
    if (i < n) {
        uint8_t part[16] = {0};
        memcpy(part, x + i, n - i);
        v_store_part(y + i, v_mul(v_load_f8(part), v_set(unit)), n - i);
    }
}

#endif
