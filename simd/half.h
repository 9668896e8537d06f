/* The 16-bit floats, one number at a time, without help from the CPU. */
#ifndef TFT_HALF_H
#define TFT_HALF_H

#include <stdint.h>
#include <string.h>

static inline float tft_bits_f32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline uint32_t tft_f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

/* IEEE binary16: sign, 5 bits of exponent (bias 15), 10 of fraction. Exact. NaNs become quiet and keep their payload, as the CPUs' own
   conversions do. */
static inline float tft_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00) /* infinite or NaN */
        return tft_bits_f32(sign | 0x7f800000 | (rest & 0x3ff) << 13 | (rest > 0x7c00 ? 0x400000 : 0));
    if (rest >= 0x400)
        return tft_bits_f32(sign | ((rest << 13) + ((127 - 15) << 23)));
    float f = (float)rest * 0x1p-24f; /* subnormal: a whole number of the smallest steps */
    return sign ? -f : f;
}

/* To nearest, ties to even; too large becomes infinite. */
static inline uint16_t tft_f32_to_f16(float f)
{
    uint32_t bits = tft_f32_bits(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x47800000) /* 65536 and up; 65520 to there rounds up to it below */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) /* below 2^-14: adding 0.5 leaves a whole number of 2^-24 steps in the low bits, rounded by the adder */
        return (uint16_t)(sign | (tft_f32_bits(tft_bits_f32(rest) + 0.5f) - 0x3f000000));
    rest -= (127 - 15) << 23;
    return (uint16_t)(sign | ((rest + 0xfff + (rest >> 13 & 1)) >> 13));
}

/* bfloat16: the upper half of a float. */
static inline float tft_bf16_to_f32(uint16_t h)
{
    return tft_bits_f32((uint32_t)h << 16);
}

static inline uint16_t tft_f32_to_bf16(float f)
{
    uint32_t bits = tft_f32_bits(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
