/* The trainer's number type: float, or double in the test that compares gradients with finite
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
real real_round(real x); /* of the test: tests/tools/quantize/tune_rounding.h */
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
