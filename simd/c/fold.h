/* fold of kernels.h: floats to integers of a common step. */
#ifndef TFT_FOLD_H
#define TFT_FOLD_H

#include <float.h>
#include <math.h>

#include "simd/kernels.h"

/* x, f: [n]. Returns step. */
static inline float fold(int32_t *x, const float *f, size_t n, float limit)
{
    float r = 0;
    for (size_t k = 0; k < n; k++)
        r = fabsf(f[k]) > r ? fabsf(f[k]) : r;
    bool in_range = r >= TFT_FOLD_LEAST && r <= FLT_MAX;
    float inverse = in_range ? limit / r : 0;
    for (size_t k = 0; k < n; k++) {
        float t = f[k] * inverse;
        t = t > -limit ? t : -limit;
        x[k] = (int32_t)rintf(t < limit ? t : limit);
    }
    return in_range ? r / limit : 0;
}

#endif
