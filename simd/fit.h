/* How a group of numbers becomes codes: tft_fit_fn in kernels.h, a number at a time. */
#ifndef TFT_FIT_H
#define TFT_FIT_H

#include <float.h>
#include <math.h>

#include "half.h"
#include "kernels.h"

/* As it is kept. */
TFT_INLINE float tft_fit_kept(float x, bool f8, float unit)
{
    float most = f8 ? TFT_F8_MAX : 65504.0f;
    x = f8 ? x / unit : x;
    x = x > -most ? x : -most;
    x = x < most ? x : most;
    /* never -0 */
    return (f8 ? tft_f8_to_f32(tft_f32_to_f8(x)) * unit : tft_f16_to_f32(tft_f32_to_f16(x))) + 0.0f;
}

/* A group's scale and middle; half: (L - 1) / 2 */
struct tft_fitted {
    float scale, mid, inverse, half;
};

/* Of a range, clipped. */
TFT_INLINE struct tft_fitted tft_fitted_of(float low, float high, float half, float clip,
                                           const struct tft_fit *how)
{
    float part = how->to_zero ? 1 : clip;
    if (how->to_zero)
        low *= clip, high *= clip;
    struct tft_fitted f = {0, 0, 0, half};
    f.scale = tft_fit_kept((high - low) / (2 * half) * part, how->f8, how->scale_unit);
    f.mid = tft_fit_kept((high + low) / 2, how->f8, how->mid_unit);
    f.inverse = f.scale >= FLT_MIN ? 1 / f.scale : 0;
    return f;
}

/* The code of x. */
TFT_INLINE float tft_fitted_code(float x, const struct tft_fitted *f)
{
    float c = fmaf(x - f->mid, f->inverse, f->half);
    c = c > 0 ? c : 0;
    return rintf(c < 2 * f->half ? c : 2 * f->half);
}

#endif
