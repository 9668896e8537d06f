/* Scale and zero-point of the bytes that stand for a range of numbers: struct tft_affine, and
   "Integers" in kernels.h. */
#ifndef QUANTIZE_ROUND_AFFINE_H
#define QUANTIZE_ROUND_AFFINE_H

#include <math.h>

#include "simd/kernels.h"

/* low <= 0 <= high: the 256 steps that cover this range. Scale 1 and zero-point 0 if the range is
   empty. */
struct tft_affine affine_cover(double low, double high);

/* x - q(x), where q rounds x to a byte and back as the kernels do. Inline, because the search for
   the range of least error spends its time in this function. */
static inline double affine_error(float x, const struct tft_affine *q)
{
    float low = (float)-q->zero, high = (float)(255 - q->zero), t = x * q->inverse;
    t = t > low ? t : low;
    t = t < high ? t : high;
    return x - (double)rintf(t) * q->scale;
}

#endif
