#include "dtype.h"

#include "dequant.h"

/* Block sizes are from the structs in ggml-common.h. tuffet knows a type without sizes by name
   only. */
static const struct tft_dtype_info table[] = {
    [TFT_F32] = {"F32", 1, 4, tft_dequant_f32},
    [TFT_F16] = {"F16", 1, 2, tft_dequant_f16},
    [TFT_Q4_0] = {"Q4_0", 32, 18, tft_dequant_q4_0},
    [TFT_Q4_1] = {"Q4_1", 32, 20, tft_dequant_q4_1},
    [TFT_Q5_0] = {"Q5_0", 32, 22, tft_dequant_q5_0},
    [TFT_Q5_1] = {"Q5_1", 32, 24, tft_dequant_q5_1},
    [TFT_Q8_0] = {"Q8_0", 32, 34, tft_dequant_q8_0},
    [TFT_Q2_K] = {"Q2_K", 256, 84, tft_dequant_q2_k},
    [TFT_Q3_K] = {"Q3_K", 256, 110, tft_dequant_q3_k},
    [TFT_Q4_K] = {"Q4_K", 256, 144, tft_dequant_q4_k},
    [TFT_Q5_K] = {"Q5_K", 256, 176, tft_dequant_q5_k},
    [TFT_Q6_K] = {"Q6_K", 256, 210, tft_dequant_q6_k},
    [TFT_IQ2_XXS] = {"IQ2_XXS", 256, 66, tft_dequant_iq2_xxs},
    [TFT_IQ2_XS] = {"IQ2_XS", 256, 74, tft_dequant_iq2_xs},
    [TFT_IQ3_XXS] = {"IQ3_XXS", 256, 98, tft_dequant_iq3_xxs},
    [TFT_IQ1_S] = {"IQ1_S", 256, 50, tft_dequant_iq1_s},
    [TFT_IQ4_NL] = {"IQ4_NL", 32, 18, tft_dequant_iq4_nl},
    [TFT_IQ3_S] = {"IQ3_S", 256, 110, tft_dequant_iq3_s},
    [TFT_IQ2_S] = {"IQ2_S", 256, 82, tft_dequant_iq2_s},
    [TFT_IQ4_XS] = {"IQ4_XS", 256, 136, tft_dequant_iq4_xs},
    [TFT_I8] = {"I8", 1, 1, NULL},
    [TFT_I32] = {"I32", 1, 4, NULL},
    [TFT_IQ1_M] = {"IQ1_M", 256, 56, tft_dequant_iq1_m},
    [TFT_BF16] = {"BF16", 1, 2, tft_dequant_bf16},
    [TFT_TQ1_0] = {"TQ1_0", 256, 54, tft_dequant_tq1_0},
    [TFT_TQ2_0] = {"TQ2_0", 256, 66, tft_dequant_tq2_0},
    [TFT_MXFP4] = {"MXFP4", 32, 17, tft_dequant_mxfp4},
    [TFT_NVFP4] = {"NVFP4", 64, 36, tft_dequant_nvfp4},
    [TFT_Q1_0] = {"Q1_0", 128, 18, tft_dequant_q1_0},
    [TFT_Q2_0] = {"Q2_0", 64, 18, tft_dequant_q2_0},

    [9] = {.name = "Q8_1"},
    [15] = {.name = "Q8_K"},
    [25] = {.name = "I16"},
    [27] = {.name = "I64"},
    [28] = {.name = "F64"},
};

enum { TYPES = sizeof table / sizeof *table };
_Static_assert(TYPES >= TFT_Q2_0 + 1, "the last enum tft_dtype has a row");

const struct tft_dtype_info *tft_dtype_info(uint32_t type)
{
    return type < TYPES && table[type].block ? &table[type] : NULL;
}

const char *tft_dtype_name(uint32_t type)
{
    return type < TYPES && table[type].name ? table[type].name : "unknown";
}

bool tft_dtype_bytes(uint32_t type, uint64_t n, uint64_t *bytes)
{
    const struct tft_dtype_info *info = tft_dtype_info(type);
    return info && n % info->block == 0 &&
           !__builtin_mul_overflow(n / info->block, (uint64_t)info->bytes, bytes);
}
