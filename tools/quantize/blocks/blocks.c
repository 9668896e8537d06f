#include "tools/quantize/blocks/blocks.h"

#include "base/bytes.h"
#include "simd/half.h"

static void put_f32(unsigned char *to, const float *x, const float *weight)
{
    (void)weight;
    tft_store_u32(to, tft_f32_bits(*x));
}

static void put_f16(unsigned char *to, const float *x, const float *weight)
{
    (void)weight;
    tft_store_u16(to, tft_f32_to_f16(*x));
}

static void put_bf16(unsigned char *to, const float *x, const float *weight)
{
    (void)weight;
    tft_store_u16(to, tft_f32_to_bf16(*x));
}

static void (*const put[])(unsigned char *to, const float *x, const float *weight) = {
    [TFT_F32] = put_f32,      [TFT_F16] = put_f16,      [TFT_BF16] = put_bf16,
    [TFT_Q4_0] = blocks_q4_0, [TFT_Q4_1] = blocks_q4_1, [TFT_Q5_0] = blocks_q5_0,
    [TFT_Q5_1] = blocks_q5_1, [TFT_Q8_0] = blocks_q8_0, [TFT_Q4_K] = blocks_q4_k,
    [TFT_Q5_K] = blocks_q5_k, [TFT_Q6_K] = blocks_q6_k, [TFT_Q3_K] = blocks_q3_k,
};

bool blocks_writes(enum tft_dtype type)
{
    return (size_t)type < sizeof put / sizeof *put && put[type];
}

void blocks_row(unsigned char *to, enum tft_dtype type, const float *x, const float *weight,
                size_t n)
{
    const struct tft_dtype_info *info = tft_dtype_info(type);
    for (size_t i = 0; i < n; i += info->block, to += info->bytes)
        put[type](to, x + i, weight + i);
}

static const struct {
    unsigned levels;
    void (*put)(unsigned char *to, const uint8_t *code);
} codes[] = {
    [TFT_Q4_0] = {16, codes_q4_0}, [TFT_Q4_1] = {16, codes_q4_1}, [TFT_Q5_0] = {32, codes_q5_0},
    [TFT_Q5_1] = {32, codes_q5_1}, [TFT_Q4_K] = {16, codes_q4_k}, [TFT_Q5_K] = {32, codes_q5_k},
    [TFT_Q6_K] = {64, codes_q6_k}, [TFT_Q3_K] = {8, codes_q3_k},
};

unsigned blocks_levels(enum tft_dtype type)
{
    return (size_t)type < sizeof codes / sizeof *codes ? codes[type].levels : 0;
}

void blocks_codes(unsigned char *to, enum tft_dtype type, const uint8_t *code, size_t n)
{
    const struct tft_dtype_info *info = tft_dtype_info(type);
    for (size_t i = 0; i < n; i += info->block, to += info->bytes)
        codes[type].put(to, code + i);
}
