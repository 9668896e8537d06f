#include "blocks.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "simd/half.h"

enum { Q2_0_BLOCK = 64, NVFP4_BLOCK = 64, NVFP4_GROUP = 16 };

/* A block of codes with one scale. */
struct block {
    float scale;
    bool one_scale, whole; /* whole: all codes are whole numbers */
    float low, high;       /* the least and the largest code; 0 and 0 if the scale is 0 */
};

static struct block look(const float *code, const float *scale, int n)
{
    struct block b = {
        .scale = scale[0], .one_scale = true, .whole = true, .low = code[0], .high = code[0]};
    for (int i = 0; i < n; i++) {
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
    for (int i = 0; i <= 15 && b->low - (float)i >= b->high - 15; i++)
        if (is_half((double)(b->low - (float)i) * (double)b->scale))
            return b->low - (float)i;
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

static bool are_levels(const float *code, int n)
{
    for (int i = 0; i < n; i++)
        if (level_of(code[i]) < 0)
            return false;
    return true;
}

/* Whether 16 numbers are levels with one scale that is an e4m3 number times the factor. NVFP4 has
   no sign for it. */
static bool is_nvfp4(const float *code, const float *scale, float factor)
{
    float s = tft_f8_to_f32(tft_f32_to_f8(scale[0] / factor)) * factor;
    for (int i = 1; i < NVFP4_GROUP; i++)
        if (scale[i] != scale[0])
            return false;
    return scale[0] >= 0 && fabsf(s - scale[0]) <= 1e-6f * scale[0] &&
           are_levels(code, NVFP4_GROUP);
}

static void see_block(struct import_blocks *b, const float *code, const float *scale)
{
    struct block k = look(code, scale, IMPORT_BLOCK);
    bool codes = k.one_scale && k.whole && is_half((double)k.scale);
    b->q4_0 = b->q4_0 && codes && k.low >= -8 && k.high <= 7;
    b->q4_1 = b->q4_1 && codes && k.high - k.low <= 15 && !isnan(least_code(&k));
    b->q8_0 = b->q8_0 && codes && k.low >= -128 && k.high <= 127;
    b->mxfp4 = b->mxfp4 && k.one_scale &&
               (k.scale == 0 || (exponent(k.scale) >= 0 && are_levels(code, IMPORT_BLOCK)));
}

/* Codes of 2 bits are -2 .. 1, and Q2_0's -1 .. 2: its scale is the negative one. */
static bool is_q2_0(const float *code, const float *scale)
{
    struct block k = look(code, scale, Q2_0_BLOCK);
    return k.one_scale && k.whole && is_half((double)k.scale) && k.low >= -2 && k.high <= 1;
}

static void see_numbers(struct import_blocks *b, const float *code, const float *scale, uint64_t n)
{
    for (uint64_t i = 0; i < n && (b->bf16 || b->f16); i++) {
        float x = code[i] * scale[i];
        b->bf16 = b->bf16 && tft_bf16_to_f32(tft_f32_to_bf16(x)) == x;
        b->f16 = b->f16 && is_half((double)x);
    }
}

struct import_blocks import_blocks_all(uint64_t cols, float factor)
{
    bool whole = cols % IMPORT_BLOCK == 0, wide = cols % Q2_0_BLOCK == 0;
    return (struct import_blocks){.q2_0 = wide,
                                  .q4_0 = whole,
                                  .q4_1 = whole,
                                  .q8_0 = whole,
                                  .mxfp4 = whole,
                                  .nvfp4 = factor != 0 && cols % NVFP4_BLOCK == 0,
                                  .bf16 = true,
                                  .f16 = true,
                                  .factor = factor};
}

/* Whether a type with blocks of 32 is possible. */
static bool has_small(const struct import_blocks *b)
{
    return b->q4_0 || b->q4_1 || b->q8_0 || b->mxfp4;
}

bool import_blocks_see(struct import_blocks *b, const float *code, const float *scale,
                       uint64_t cols)
{
    for (uint64_t c = 0; has_small(b) && c < cols; c += IMPORT_BLOCK)
        see_block(b, code + c, scale + c);
    for (uint64_t c = 0; b->q2_0 && c < cols; c += Q2_0_BLOCK)
        b->q2_0 = is_q2_0(code + c, scale + c);
    for (uint64_t c = 0; b->nvfp4 && c < cols; c += NVFP4_GROUP)
        b->nvfp4 = is_nvfp4(code + c, scale + c, b->factor);
    see_numbers(b, code, scale, cols);
    return has_small(b) || b->q2_0 || b->nvfp4 || b->bf16 || b->f16;
}

enum tft_dtype import_blocks_type(const struct import_blocks *b)
{
    return b->q2_0    ? TFT_Q2_0
           : b->q4_0  ? TFT_Q4_0
           : b->mxfp4 ? TFT_MXFP4
           : b->nvfp4 ? TFT_NVFP4
           : b->q4_1  ? TFT_Q4_1
           : b->q8_0  ? TFT_Q8_0
           : b->bf16  ? TFT_BF16
           : b->f16   ? TFT_F16
                      : TFT_F32;
}

bool import_blocks_has(enum tft_dtype type)
{
    return type == TFT_Q2_0 || type == TFT_Q4_0 || type == TFT_Q4_1 || type == TFT_Q8_0 ||
           type == TFT_MXFP4 || type == TFT_NVFP4;
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

/* 64 codes: number j in 2 bits of byte j / 4, the first lowest. */
static void put_q2_0(unsigned char *to, const float *code, const float *scale)
{
    tft_store_u16(to, tft_f32_to_f16(-scale[0]));
    for (int j = 0; j < Q2_0_BLOCK; j += 4) {
        unsigned all = 0;
        for (int i = 0; i < 4; i++)
            all |= (unsigned)(scale[0] == 0 ? 1 : 1 - code[j + i]) << 2 * i;
        to[2 + j / 4] = (unsigned char)all;
    }
}

/* 64 numbers: 4 scales, then 8 bytes for each 16: number j low, number j + 8 high. */
static void put_nvfp4(unsigned char *to, const float *code, const float *scale, float factor)
{
    for (int g = 0; g < NVFP4_BLOCK / NVFP4_GROUP; g++, code += NVFP4_GROUP) {
        to[g] = tft_f32_to_f8(scale[g * NVFP4_GROUP] / factor);
        for (int j = 0; j < 8; j++)
            to[4 + 8 * g + j] = (unsigned char)(level_of(code[j]) | level_of(code[j + 8]) << 4);
    }
}

static void put_block(unsigned char *to, enum tft_dtype type, const float *code, const float *scale,
                      float factor)
{
    if (type == TFT_Q2_0 || type == TFT_NVFP4) {
        type == TFT_Q2_0 ? put_q2_0(to, code, scale) : put_nvfp4(to, code, scale, factor);
        return;
    }
    struct block b = look(code, scale, IMPORT_BLOCK);
    switch (type) {
    case TFT_Q4_0: put_q4_0(to, &b, code); break;
    case TFT_Q4_1: put_q4_1(to, &b, code); break;
    case TFT_Q8_0: put_q8_0(to, &b, code); break;
    default: put_mxfp4(to, &b, code);
    }
}

void import_blocks_row(unsigned char *to, enum tft_dtype type, const float *code,
                       const float *scale, uint64_t cols, float factor)
{
    const struct tft_dtype_info *info = tft_dtype_info(type);
    for (uint64_t c = 0; c < cols; c += info->block, to += info->bytes)
        put_block(to, type, code + c, scale + c, factor);
}
