/* Scale and zero-point of the bytes that stand for a range of numbers: struct tft_affine, and
   "Integers" in kernels.h. */
#ifndef QUANTIZE_ROUND_AFFINE_H
#define QUANTIZE_ROUND_AFFINE_H

#include "simd/kernels.h"

/* low <= 0 <= high: the 256 steps that cover this range. Scale 1 and zero-point 0 if it is empty.
 */
struct tft_affine affine_cover(double low, double high);

/* x - q(x), where q rounds x to a byte and back as the kernels do. */
double affine_error(float x, const struct tft_affine *q);

#endif
