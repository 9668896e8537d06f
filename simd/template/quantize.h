/* quantize, quantize_groups and range of kernels.h. Parameters: ISA(name) and lanes.h. */
#ifndef TFT_TEMPLATE_QUANTIZE_H
#define TFT_TEMPLATE_QUANTIZE_H

#include "output.h"

static void ISA(quantize)(uint8_t *y, const float *x, size_t n, const struct tft_affine *q)
{
    output o = output_bytes(y, q);
    for (size_t i = 0; i < n; i += 16)
        output_store(&o, i, v_load_n(x + i, n - i), n - i);
}

/* fold(x, 127) of kernels.h, 32 numbers at a time. */
static void ISA(quantize_groups)(uint8_t *y, size_t K, size_t first, const float *x, size_t n)
{
    float *step = (float *)(void *)(y + K);
    int32_t *minus32 = (int32_t *)(void *)(step + K / 32), *minus16 = minus32 + K / 32;
    float *fall32 = (float *)(void *)(minus16 + K / 16), *fall16 = fall32 + K / 32;
    for (size_t g = first / 32; g < (first + n) / 32; g++, x += 32) {
        v16 a[2] = {v_load(x), v_load(x + 16)}, most = v_set(0);
        UNROLL for (int i = 0; i < 2; i++)
            most = v_max(v_mask(a[i], 0x7fffffff), most);
        float r = v_hmax(most), inverse = 0;
        bool in_range = r >= TFT_FOLD_LEAST && r <= FLT_MAX;
        if (in_range)
            inverse = 127 / r;
        step[g] = in_range ? r / 127 : 0;
        minus32[g] = 0;
        for (size_t i = 0; i < 2; i++) {
            uint8_t *to = y + 32 * g + 16 * i;
            v16 t = v_max(v_mul(a[i], v_set(inverse)), v_set(-127)); /* NaN becomes -127 */
            t = v_min(t, v_set(127));
            int32_t sum = 0;
            UNROLL for (int p = 0; p < PARTS; p++)
                r_store_bytes(to + p * LANES, t.r[p], 128);
            for (size_t k = 0; k < 16; k++) {
                sum += to[k] - 128;
                to[k] ^= 128;
            }
            minus16[2 * g + i] = -sum;
            fall16[2 * g + i] = (float)-sum * step[g];
            minus32[g] -= sum;
        }
        fall32[g] = (float)minus32[g] * step[g];
    }
}

/* Lanes past the end are 0, always part of the range. */
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
