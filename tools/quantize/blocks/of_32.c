/* Blocks of 32 numbers; dequant.c has the layouts. A scale and a minimum are stored as f16, so
   codes are chosen for the rounded ones. */
#include "tools/quantize/blocks/blocks.h"

#include <math.h>

#include "base/bytes.h"
#include "simd/half.h"
#include "tools/quantize/blocks/fit.h"

enum { N = 32 };

static float put_half(unsigned char *to, float x)
{
    uint16_t half = tft_f32_to_f16(fminf(fmaxf(x, -TFT_F16_MAX), TFT_F16_MAX));
    tft_store_u16(to, half);
    return tft_f16_to_f32(half);
}

/* Codes from 0 on: 16 bytes of nibbles, the first 16 numbers in the low halves. */
static void put_nibbles(unsigned char *to, const uint8_t code[N])
{
    for (int i = 0; i < N / 2; i++)
        to[i] = (unsigned char)((code[i] & 15) | (code[i + N / 2] & 15) << 4);
}

/* Their fifth bits. */
static void put_fifth(unsigned char *to, const uint8_t code[N])
{
    uint32_t bits = 0;
    for (int i = 0; i < N; i++)
        bits |= (uint32_t)(code[i] >> 4 & 1) << i;
    tft_store_u32(to, bits);
}

static void codes_of(const struct fit_group *g, float d, float m, uint8_t code[N])
{
    for (int i = 0; i < N; i++)
        code[i] = (uint8_t)(fit_code(g, g->x[i], d, m) - g->least);
}

void codes_q4_0(unsigned char *to, const uint8_t *code) { put_nibbles(to + 2, code); }

void codes_q4_1(unsigned char *to, const uint8_t *code) { put_nibbles(to + 4, code); }

void codes_q5_0(unsigned char *to, const uint8_t *code)
{
    put_fifth(to + 2, code);
    put_nibbles(to + 6, code);
}

void codes_q5_1(unsigned char *to, const uint8_t *code)
{
    put_fifth(to + 4, code);
    put_nibbles(to + 8, code);
}

void blocks_q4_0(unsigned char *to, const float *x, const float *weight)
{
    struct fit_group g = {x, weight, N, -8, 7};
    uint8_t code[N];
    codes_of(&g, put_half(to, fit_scale(&g)), 0, code);
    codes_q4_0(to, code);
}

void blocks_q5_0(unsigned char *to, const float *x, const float *weight)
{
    struct fit_group g = {x, weight, N, -16, 15};
    uint8_t code[N];
    codes_of(&g, put_half(to, fit_scale(&g)), 0, code);
    codes_q5_0(to, code);
}

/* The scale and the minimum, and the codes. */
static void affine(unsigned char *to, const struct fit_group *g, uint8_t code[N])
{
    float d, m;
    fit_affine(g, false, &d, &m);
    d = put_half(to, d);
    m = put_half(to + 2, m);
    codes_of(g, d, m, code);
}

void blocks_q4_1(unsigned char *to, const float *x, const float *weight)
{
    struct fit_group g = {x, weight, N, 0, 15};
    uint8_t code[N];
    affine(to, &g, code);
    codes_q4_1(to, code);
}

void blocks_q5_1(unsigned char *to, const float *x, const float *weight)
{
    struct fit_group g = {x, weight, N, 0, 31};
    uint8_t code[N];
    affine(to, &g, code);
    codes_q5_1(to, code);
}

/* With 255 levels a search gains nothing: the largest number has the code 127. */
void blocks_q8_0(unsigned char *to, const float *x, const float *weight)
{
    struct fit_group g = {x, weight, N, -127, 127};
    float largest = 0;
    for (int i = 0; i < N; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    float d = put_half(to, largest / 127);
    for (int i = 0; i < N; i++)
        to[2 + i] = (unsigned char)(int8_t)fit_code(&g, x[i], d, 0);
}
