/* The number type of the trainer: float, or double where its gradients are checked against finite
   differences. */
#ifndef QUANTIZE_TUNE_REAL_H
#define QUANTIZE_TUNE_REAL_H

#include <math.h>

#include "simd/expf.h"

#ifdef TUNE_DOUBLE
typedef double real;
static inline real real_exp(real x)
{
    return exp(x);
}
static inline real real_sqrt(real x)
{
    return sqrt(x);
}
/* Rounding has a slope of 0 nearly everywhere. The gradient takes it for 1, "straight through"
   (Bengio et al. 2013, section 4), which is the slope of this. */
static inline real real_round(real x)
{
    return x;
}
#else
typedef float real;
static inline real real_exp(real x)
{
    return tft_expf(x);
}
static inline real real_sqrt(real x)
{
    return sqrtf(x);
}
static inline real real_round(real x)
{
    return rintf(x);
}
#endif

#endif
