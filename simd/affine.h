/* The quantization of activations: q of struct tft_affine (kernels.h), for one number at a time. */
#ifndef TFT_AFFINE_H
#define TFT_AFFINE_H

#include <float.h>
#include <math.h>

#include "inline.h"
#include "kernels.h"

/* q(v) */
TFT_INLINE uint8_t tft_affine_byte(float v, const struct tft_affine *q)
{
    float low = (float)-q->zero, high = (float)(255 - q->zero), t = v * q->inverse;
    t = t > low ? t : low; /* NaN becomes low */
    t = t < high ? t : high;
    return (uint8_t)((int32_t)rintf(t) + q->zero);
}

/* The scale and the zero point that map min .. max to bytes 0 .. 255; min <= 0 <= max. The scale is
   1 if the range is empty, infinite or NaN. */
TFT_INLINE struct tft_affine tft_affine_of(float min, float max)
{
    float scale = (max - min) / 255;
    if (!(scale >= FLT_MIN && scale <= FLT_MAX))
        scale = 1;
    struct tft_affine q = {scale, 1 / scale, (int32_t)rintf(fminf(-min / scale, 255))};
    return q;
}

#endif
