#include "test.h"

#include <string.h>

#include "file/dtype.h"

static void sizes(void **state)
{
    (void)state;
    /* Bits per number, from ggml's documentation. */
    static const struct {
        enum tft_dtype type;
        const char *name;
        double bits;
    } known[] = {
        {TFT_F32, "F32", 32},             {TFT_F16, "F16", 16},
        {TFT_BF16, "BF16", 16},           {TFT_I8, "I8", 8},
        {TFT_I32, "I32", 32},             {TFT_Q4_0, "Q4_0", 4.5},
        {TFT_Q4_1, "Q4_1", 5},            {TFT_Q5_0, "Q5_0", 5.5},
        {TFT_Q5_1, "Q5_1", 6},            {TFT_Q8_0, "Q8_0", 8.5},
        {TFT_Q2_K, "Q2_K", 2.625},        {TFT_Q3_K, "Q3_K", 3.4375},
        {TFT_Q4_K, "Q4_K", 4.5},          {TFT_Q5_K, "Q5_K", 5.5},
        {TFT_Q6_K, "Q6_K", 6.5625},       {TFT_IQ2_XXS, "IQ2_XXS", 2.0625},
        {TFT_IQ4_NL, "IQ4_NL", 4.5},      {TFT_IQ4_XS, "IQ4_XS", 4.25},
        {TFT_IQ2_XS, "IQ2_XS", 2.3125},   {TFT_IQ2_S, "IQ2_S", 2.5625},
        {TFT_IQ3_XXS, "IQ3_XXS", 3.0625}, {TFT_IQ3_S, "IQ3_S", 3.4375},
        {TFT_TQ1_0, "TQ1_0", 1.6875},     {TFT_TQ2_0, "TQ2_0", 2.0625},
        {TFT_MXFP4, "MXFP4", 4.25},       {TFT_NVFP4, "NVFP4", 4.5},
        {TFT_Q1_0, "Q1_0", 1.125},        {TFT_Q2_0, "Q2_0", 2.25},
        {TFT_IQ1_S, "IQ1_S", 1.5625},     {TFT_IQ1_M, "IQ1_M", 1.75},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct tft_dtype_info *info = tft_dtype_info(known[i].type);
        assert_non_null(info);
        assert_string_equal(info->name, known[i].name);
        assert_string_equal(tft_dtype_name(known[i].type), known[i].name);
        assert_true(info->bytes * 8 == info->block * known[i].bits);
    }
}

static void unknown_types(void **state)
{
    (void)state;
    static const uint32_t none[] = {4, 5, 9, 15, 25, 27, 28, 31, 38, 43, 1000, UINT32_MAX};
    uint64_t bytes;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_null(tft_dtype_info(none[i]));
        assert_false(tft_dtype_bytes(none[i], 256, &bytes));
    }
    assert_string_equal(tft_dtype_name(15), "Q8_K");
    assert_string_equal(tft_dtype_name(4), "unknown");
    assert_string_equal(tft_dtype_name(43), "unknown");
    assert_string_equal(tft_dtype_name(UINT32_MAX), "unknown");
}

static void bytes_of_rows(void **state)
{
    (void)state;
    uint64_t bytes = 1;
    assert_true(tft_dtype_bytes(TFT_Q8_0, 64, &bytes));
    assert_int_equal(bytes, 68);
    assert_true(tft_dtype_bytes(TFT_F32, 0, &bytes));
    assert_int_equal(bytes, 0);
    assert_false(tft_dtype_bytes(TFT_Q8_0, 33, &bytes));
    assert_false(tft_dtype_bytes(TFT_F32, (uint64_t)1 << 62, &bytes));
    assert_true(tft_dtype_bytes(TFT_F32, ((uint64_t)1 << 62) - 1, &bytes));
    assert_true(bytes == UINT64_MAX - 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(unknown_types),
        cmocka_unit_test(bytes_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
