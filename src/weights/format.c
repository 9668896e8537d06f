#include "weights/format.h"

const struct tft_format *tft_format_of(enum tft_dtype type)
{
    switch (type) {
    case TFT_F32: return &tft_format_f32;
    case TFT_F16: return &tft_format_f16;
    case TFT_BF16: return &tft_format_bf16;
    case TFT_I8: return &tft_format_i8;
    default: return NULL;
    }
}

const struct tft_format *tft_format_of_floats(enum tft_weights weights)
{
    return weights == TFT_WEIGHTS_F16    ? &tft_format_f16
           : weights == TFT_WEIGHTS_BF16 ? &tft_format_bf16
                                         : &tft_format_f32;
}
