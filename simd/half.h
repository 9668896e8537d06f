/* Conversions of floats of 16 and 8 bits. All round to nearest, ties to even; the 16-bit functions
   return the same bits as F16C, AVX-512, NEON and ggml. */
#ifndef TFT_HALF_H
#define TFT_HALF_H

#include <stdint.h>
#include <string.h>

#include "inline.h"

TFT_INLINE float tft_f32_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

TFT_INLINE uint32_t tft_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* IEEE binary16: 1 sign bit, 5 of exponent (bias 15), 10 of fraction. */
#define TFT_F16_MAX 65504.0f

/* Without a branch, so a compiler can vectorize a loop of calls. */
TFT_INLINE float tft_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    uint32_t normal = (rest << 13) + ((127u - 15u) << 23);
    /* a NaN becomes quiet */
    uint32_t special = (rest << 13) | 0x7f800000u | (uint32_t)(rest > 0x7c00) << 22;
    /* Floats in 0.5 .. 1 are 2^-24 apart, the unit of a subnormal half: put the fraction there and
       subtract 0.5. */
    uint32_t subnormal = tft_f32_bits(tft_f32_of_bits(rest | 0x3f000000u) - 0.5f);
    return tft_f32_of_bits(sign | (rest >= 0x7c00 ? special : rest >= 0x400 ? normal : subnormal));
}

TFT_INLINE uint16_t tft_f32_to_f16(float f)
{
    uint32_t u = tft_f32_bits(f), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000) /* NaN: quiet, with the top bits of its payload */
        return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x477ff000) /* 65520 and more: half-way from the largest half to 2^16 */
        return (uint16_t)(sign | 0x7c00);
    if (u < 0x38800000) /* below 2^-14: the addition rounds to units of 2^-24, as above */
        return (uint16_t)(sign | (tft_f32_bits(tft_f32_of_bits(u) + 0.5f) - 0x3f000000u));
    u += 0xfff + (u >> 13 & 1);
    return (uint16_t)(sign | (u - ((127u - 15u) << 23)) >> 13);
}

/* bfloat16: the upper 16 bits of a float. */
TFT_INLINE float tft_bf16_to_f32(uint16_t h)
{
    return tft_f32_of_bits((uint32_t)h << 16);
}

TFT_INLINE uint16_t tft_f32_to_bf16(float f)
{
    uint32_t u = tft_f32_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* E4M3 of OCP: 1 sign bit, 4 of exponent (bias 7), 3 of fraction. There is no infinity; 0x7f is
   NaN. Micikevicius et al. 2022, table 1. */
#define TFT_F8_MAX 448.0f

TFT_INLINE float tft_f8_to_f32(uint8_t b)
{
    uint32_t sign = (uint32_t)(b & 0x80) << 24, rest = b & 0x7f;
    if (rest == 0x7f)
        return tft_f32_of_bits(sign | 0x7fc00000);
    /* exact, also for subnormal numbers */
    return tft_f32_of_bits(sign | tft_f32_bits(tft_f32_of_bits(rest << 20) * 0x1p120f));
}

/* Numbers beyond TFT_F8_MAX, and infinity, become TFT_F8_MAX. */
TFT_INLINE uint8_t tft_f32_to_f8(float f)
{
    uint32_t u = tft_f32_bits(f), sign = u >> 24 & 0x80;
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    if (u >= 0x43e00000) /* 448 */
        return (uint8_t)(sign | 0x7e);
    if (u < 0x3c800000) /* below 2^-6: the addition rounds to units of 2^-9 */
        return (uint8_t)(sign | (tft_f32_bits(tft_f32_of_bits(u) + 0x1p14f) - 0x46800000u));
    u += 0x7ffff + (u >> 20 & 1);
    return (uint8_t)(sign | (u - ((127u - 7u) << 23)) >> 20);
}

#endif
