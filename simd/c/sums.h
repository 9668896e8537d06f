/* The numerics contract's (kernels.h) sums of floats. */
#ifndef TFT_SUMS_H
#define TFT_SUMS_H

#include <math.h>
#include <stddef.h>

static inline float sum16(float l[16])
{
    for (size_t half = 8; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            l[i] += l[i + half];
    return l[0];
}

static inline float total16(const float *x, size_t n)
{
    float l[16] = {0};
    for (size_t k = 0; k < n; k++)
        l[k % 16] += x[k];
    return sum16(l);
}

static inline float dot16(const float *a, const float *b, size_t n)
{
    float l[16] = {0};
    for (size_t k = 0; k < n; k++)
        l[k % 16] = fmaf(a[k], b[k], l[k % 16]);
    return sum16(l);
}

#endif
