#include "tools/quantize/round/smooth.h"

#include <math.h>

#include "base/exp_log.h"

void smooth_columns_max(float *max, const float *w, size_t stride, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++, w += stride)
        for (size_t j = 0; j < cols; j++)
            max[j] = fmaxf(max[j], fabsf(w[j]));
}

void smooth_factors(float *s, const float *x_max, const float *w_max, size_t n, float alpha)
{
    for (size_t j = 0; j < n; j++) {
        float f = x_max[j] > 0 && w_max[j] > 0
                      ? (float)(tft_pow((double)x_max[j], (double)alpha) /
                                tft_pow((double)w_max[j], (double)(1 - alpha)))
                      : 1;
        s[j] = isnormal(f) && isnormal(1 / f) ? f : 1;
    }
}

void smooth_columns(float *w, size_t stride, size_t rows, size_t cols, const float *s)
{
    for (size_t i = 0; i < rows; i++, w += stride)
        for (size_t j = 0; j < cols; j++)
            w[j] *= s[j];
}

void smooth_rows(float *w, size_t rows, size_t cols, const float *s)
{
    for (size_t i = 0; i < rows; i++, w += cols)
        for (size_t j = 0; j < cols; j++)
            w[j] /= s[i];
}

void smooth_divide(float *v, const float *s, size_t n)
{
    for (size_t j = 0; j < n; j++)
        v[j] /= s[j];
}
