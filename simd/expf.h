/*
 * exp in single precision, within 1 ulp, the same bits as SLEEF's Sleef_finz_expf*_u10 (Shibata &
 * Petrogalli 2020, section 3.2) for every argument: the two can stand in for each other, in any
 * vector width. tests/kernels compares them.
 *
 * x = q ln2 + s with q an integer and |s| <= ln2 / 2: exp(x) = 2^q exp(s). ln2 is split in two so
 * that q * LN2_HI is exact. Written without a branch, so that a loop over it becomes vector code
 * under any instruction set.
 */
#ifndef TFT_EXPF_H
#define TFT_EXPF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "inline.h"

#define TFT_R_LN2 1.442695040888963407f
#define TFT_LN2_HI 0.693145751953125f
#define TFT_LN2_LO 1.428606765330187045e-06f

/* (exp(s) - 1 - s) / s^2, minimax on the interval; the term without s is 0.5 */
#define TFT_EXP_6 0.000198527617612853646278381f
#define TFT_EXP_5 0.00139304355252534151077271f
#define TFT_EXP_4 0.00833336077630519866943359f
#define TFT_EXP_3 0.0416664853692054748535156f
#define TFT_EXP_2 0.166666671633720397949219f

TFT_INLINE float tft_pow2i(int32_t e) /* 2^e, -126 <= e <= 127 */
{
    uint32_t bits = (uint32_t)(e + 127) << 23;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

TFT_INLINE float tft_expf(float x)
{
    /* beyond these the result is 0 or infinite anyway; within, q fits the two factors of 2^q below.
       NaN becomes -104 for now. */
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

    /* 2^q in two factors, so that subnormal results and the largest finite ones are rounded once,
       at the end */
    int32_t e = (int32_t)q, half = e >> 1;
    u = u * tft_pow2i(half) * tft_pow2i(e - half);

    u = x < -104.0f ? 0.0f : u;
    u = x > 100.0f ? INFINITY : u;
    return x != x ? x : u;
}

#endif
