/* Bytes for numbers: kernels.h says how a struct tft_affine holds them. */
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
    t = t > low ? t : low; /* NaN too */
    t = t < high ? t : high;
    return (uint8_t)((int32_t)rintf(t) + q->zero);
}

/* Numbers from min <= 0 to max >= 0 */
TFT_INLINE struct tft_affine tft_affine_of(float min, float max)
{
    float scale = (max - min) / 255;
    if (!(scale >= FLT_MIN && scale <= FLT_MAX))
        scale = 1; /* nothing but zeros, or nothing that makes sense */
    struct tft_affine q = {scale, 1 / scale, (int32_t)rintf(fminf(-min / scale, 255))};
    return q;
}

#endif
