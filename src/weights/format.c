#include "weights/format.h"

const struct tft_format *const tft_formats[] = {
    [TFT_WEIGHTS_F32] = &tft_format_f32,
    [TFT_WEIGHTS_F16] = &tft_format_f16,
    [TFT_WEIGHTS_BF16] = &tft_format_bf16,
    [TFT_WEIGHTS_I8] = &tft_format_i8,
};

const struct tft_format *tft_format_of(enum tft_dtype type)
{
    for (size_t i = 0; i < sizeof tft_formats / sizeof *tft_formats; i++)
        if (tft_formats[i]->type == type)
            return tft_formats[i];
    return NULL;
}
