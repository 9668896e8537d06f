/*
 * exp in single precision, with an error below 1 ulp: the algorithm and the bits of SLEEF's
 * Sleef_finz_expf*_u10 (Shibata & Petrogalli 2020, section 3.2). The ISA levels compute exp in
 * vectors, by r_exp of template/lanes.h, and do not call the library: its next version may have
 * other bits. tests/simd/kernels compares the ISA levels.
 *
 *   x = q ln2 + s        q an integer, |s| <= ln2 / 2
 *   exp(x) = 2^q exp(s)
 *
 * ln2 is the sum of LN2_HI and LN2_LO; q * LN2_HI is exact. There is no branch, so a compiler can
 * vectorize a loop over tft_expf.
 */
#ifndef TFT_EXPF_H
#define TFT_EXPF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "contract.h"
#include "inline.h"

#define TFT_R_LN2 1.442695040888963407f
#define TFT_LN2_HI 0.693145751953125f
#define TFT_LN2_LO 1.428606765330187045e-06f

/* Coefficients of the minimax polynomial of (exp(s) - 1 - s) / s^2; the constant term is 0.5. */
#define TFT_EXP_6 0.000198527617612853646278381f
#define TFT_EXP_5 0.00139304355252534151077271f
#define TFT_EXP_4 0.00833336077630519866943359f
#define TFT_EXP_3 0.0416664853692054748535156f
#define TFT_EXP_2 0.166666671633720397949219f

/* 2^e for -126 <= e <= 127 */
TFT_INLINE float tft_pow2i(int32_t e)
{
    uint32_t bits = (uint32_t)(e + 127) << 23;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

TFT_INLINE float tft_expf(float x)
{
    /* Outside of -104 .. 104 the result is 0 or infinite, set at the end; inside, q fits the two
       factors of 2^q below. NaN becomes -104 here. */
    float y = x > -104.0f ? x : -104.0f;
    y = y < 104.0f ? y : 104.0f;
    float q = rintf(y * TFT_R_LN2);
    float s = fmaf(q, -TFT_LN2_HI, y);
    s = fmaf(q, -TFT_LN2_LO, s);

    float u = TFT_EXP_6;
    u = fmaf(u, s, TFT_EXP_5);
    u = fmaf(u, s, TFT_EXP_4);
    u = fmaf(u, s, TFT_EXP_3);
    u = fmaf(u, s, TFT_EXP_2);
    u = fmaf(u, s, 0.5f);
    u = 1.0f + fmaf(s * s, u, s);

    /* 2^q as two factors: the last product alone rounds results that are subnormal or near the
       largest float */
    int32_t e = (int32_t)q, half = e >> 1;
    u = u * tft_pow2i(half) * tft_pow2i(e - half);

    u = x < -104.0f ? 0.0f : u;
    u = x > 100.0f ? INFINITY : u;
    return x != x ? x : u;
}

#endif
