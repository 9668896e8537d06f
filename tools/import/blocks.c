#include "blocks.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "simd/half.h"

/* A block of 32 codes with one scale. */
struct block {
    float scale;
    bool one_scale, whole; /* whole: all codes are whole numbers */
    float low, high;       /* the least and the largest code; 0 and 0 if the scale is 0 */
};

static struct block look(const float *code, const float *scale)
{
    struct block b = {
        .scale = scale[0], .one_scale = true, .whole = true, .low = code[0], .high = code[0]};
    for (int i = 0; i < IMPORT_BLOCK; i++) {
        b.one_scale &= scale[i] == b.scale;
        b.whole &= code[i] == rintf(code[i]);
        b.low = fminf(b.low, code[i]);
        b.high = fmaxf(b.high, code[i]);
    }
    if (b.scale == 0)
        b.low = b.high = 0;
    return b;
}

static bool is_half(double x) { return (double)tft_f16_to_f32(tft_f32_to_f16((float)x)) == x; }

/* The least code of a block of 16 levels with the minimum code * scale as a half. NAN: none. */
static float least_code(const struct block *b)
{
    for (float least = b->low; least >= b->high - 15; least--)
        if (is_half((double)least * (double)b->scale))
            return least;
    return NAN;
}

/* ------------------------------------------------------------------------------------ exclusion */

/* e of the scale 2^(e - 127); -1: the scale is no such power. */
static int exponent(float scale)
{
    int e;
    return scale > 0 && frexpf(scale, &e) == 0.5f && e >= -126 && e <= 128 ? e + 126 : -1;
}

/* The index of an e2m1 number; -1: there is none. */
static int level_of(float code)
{
    static const float level[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (int i = 0; i < 8; i++)
        if (fabsf(code) == level[i])
            return i | (code < 0 ? 8 : 0);
    return -1;
}

static bool are_levels(const float *code)
{
    for (int i = 0; i < IMPORT_BLOCK; i++)
        if (level_of(code[i]) < 0)
            return false;
    return true;
}

static void see_block(struct import_blocks *b, const float *code, const float *scale)
{
    struct block k = look(code, scale);
    bool codes = k.one_scale && k.whole && is_half((double)k.scale);
    b->q4_0 = b->q4_0 && codes && k.low >= -8 && k.high <= 7;
    b->q4_1 = b->q4_1 && codes && k.high - k.low <= 15 && !isnan(least_code(&k));
    b->q8_0 = b->q8_0 && codes && k.low >= -128 && k.high <= 127;
    b->mxfp4 =
        b->mxfp4 && k.one_scale && (k.scale == 0 || (exponent(k.scale) >= 0 && are_levels(code)));
}

static void see_numbers(struct import_blocks *b, const float *code, const float *scale, uint64_t n)
{
    for (uint64_t i = 0; i < n && (b->bf16 || b->f16); i++) {
        float x = code[i] * scale[i];
        b->bf16 = b->bf16 && tft_bf16_to_f32(tft_f32_to_bf16(x)) == x;
        b->f16 = b->f16 && is_half((double)x);
    }
}

struct import_blocks import_blocks_all(uint64_t cols)
{
    bool whole = cols % IMPORT_BLOCK == 0;
    return (struct import_blocks){whole, whole, whole, whole, true, true};
}

bool import_blocks_see(struct import_blocks *b, const float *code, const float *scale,
                       uint64_t cols)
{
    bool codes = b->q4_0 || b->q4_1 || b->q8_0 || b->mxfp4;
    for (uint64_t c = 0; codes && c < cols; c += IMPORT_BLOCK)
        see_block(b, code + c, scale + c);
    see_numbers(b, code, scale, cols);
    return b->q4_0 || b->q4_1 || b->q8_0 || b->mxfp4 || b->bf16 || b->f16;
}

enum tft_dtype import_blocks_type(const struct import_blocks *b)
{
    return b->q4_0    ? TFT_Q4_0
           : b->mxfp4 ? TFT_MXFP4
           : b->q4_1  ? TFT_Q4_1
           : b->q8_0  ? TFT_Q8_0
           : b->bf16  ? TFT_BF16
           : b->f16   ? TFT_F16
                      : TFT_F32;
}

bool import_blocks_has(enum tft_dtype type)
{
    return type == TFT_Q4_0 || type == TFT_Q4_1 || type == TFT_Q8_0 || type == TFT_MXFP4;
}

/* -------------------------------------------------------------------------------------- writing */

/* 16 bytes: number j in the low half of byte j, number j + 16 in the high half. */
static void put_halves(unsigned char *to, const unsigned char code[IMPORT_BLOCK])
{
    for (int j = 0; j < IMPORT_BLOCK / 2; j++)
        to[j] = (unsigned char)(code[j] | code[j + IMPORT_BLOCK / 2] << 4);
}

/* The codes less `least`; all alike if the scale is 0. */
static void put_levels(unsigned char *to, const struct block *b, const float *code, float least)
{
    unsigned char level[IMPORT_BLOCK];
    for (int i = 0; i < IMPORT_BLOCK; i++)
        level[i] = (unsigned char)((b->scale == 0 ? 0 : code[i]) - least);
    put_halves(to, level);
}

static void put_q4_0(unsigned char *to, const struct block *b, const float *code)
{
    tft_store_u16(to, tft_f32_to_f16(b->scale));
    put_levels(to + 2, b, code, -8);
}

static void put_q4_1(unsigned char *to, const struct block *b, const float *code)
{
    float least = least_code(b);
    tft_store_u16(to, tft_f32_to_f16(b->scale));
    tft_store_u16(to + 2, tft_f32_to_f16(least * b->scale));
    put_levels(to + 4, b, code, least);
}

static void put_q8_0(unsigned char *to, const struct block *b, const float *code)
{
    tft_store_u16(to, tft_f32_to_f16(b->scale));
    for (int i = 0; i < IMPORT_BLOCK; i++)
        to[2 + i] = (unsigned char)(int8_t)(b->scale == 0 ? 0 : code[i]);
}

static void put_mxfp4(unsigned char *to, const struct block *b, const float *code)
{
    unsigned char level[IMPORT_BLOCK] = {0};
    to[0] = (unsigned char)(b->scale == 0 ? 0 : exponent(b->scale));
    for (int i = 0; i < IMPORT_BLOCK && b->scale != 0; i++)
        level[i] = (unsigned char)level_of(code[i]);
    put_halves(to + 1, level);
}

void import_blocks_row(unsigned char *to, enum tft_dtype type, const float *code,
                       const float *scale, uint64_t cols)
{
    for (uint64_t c = 0; c < cols; c += IMPORT_BLOCK, to += tft_dtype_info(type)->bytes) {
        struct block b = look(code + c, scale + c);
        switch (type) {
        case TFT_Q4_0: put_q4_0(to, &b, code + c); break;
        case TFT_Q4_1: put_q4_1(to, &b, code + c); break;
        case TFT_Q8_0: put_q8_0(to, &b, code + c); break;
        default: put_mxfp4(to, &b, code + c);
        }
    }
}
