/* The steps of tft_fit_fn of kernels.h for one group, shared by the reference and CUDA. */
#ifndef TFT_FIT_H
#define TFT_FIT_H

#include <float.h>
#include <math.h>

#include "half.h"
#include "kernels.h"

/* x rounded to the stored format: an E4M3 times unit if f8, otherwise an f16. */
TFT_INLINE float tft_fit_stored(float x, bool f8, float unit)
{
    float max = f8 ? TFT_F8_MAX : TFT_F16_MAX;
    x = f8 ? x / unit : x;
    x = x > -max ? x : -max;
    x = x < max ? x : max;
    x = f8 ? tft_f8_to_f32(tft_f32_to_f8(x)) * unit : tft_f16_to_f32(tft_f32_to_f16(x));
    return x + 0.0f; /* never -0 */
}

/* The scale and the middle of a group, inverse = 1 / scale, and half = (L - 1) / 2. */
struct tft_fitted {
    float scale, mid, inverse, half;
};

/* The index of a group's list of clips: for 2 levels, 3 levels, or more. */
TFT_INLINE int tft_fit_list(float half)
{
    return half < 1 ? 0 : half < 1.5f ? 1 : 2;
}

/* The scale and middle of a group with numbers in low .. high, clipped by entry i of its list. */
TFT_INLINE struct tft_fitted tft_fitted_of(float low, float high, float half, size_t i,
                                           const struct tft_fit *how)
{
    float clip = how->clip[tft_fit_list(half)][i], part = how->to_zero ? 1 : clip;
    if (how->to_zero)
        low *= clip, high *= clip;
    struct tft_fitted f = {0, 0, 0, half};
    f.scale = tft_fit_stored((high - low) / (2 * half) * part, how->f8, how->scale_unit);
    f.mid = tft_fit_stored((high + low) / 2, how->f8, how->mid_unit);
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
