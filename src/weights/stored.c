/* A tensor of the file, without a copy, in any type that dtype.h can read as floats: the embedding
   of a quantized GGUF, and all matrices of a model that a tool opens unexpanded. */
#include "weights/format.h"

static uint64_t row_bytes(const struct tft_mat *w)
{
    const struct tft_dtype_info *type = tft_dtype_info(w->tensor->type);
    return (uint64_t)w->cols / type->block * type->bytes;
}

static uint64_t bytes(const struct tft_mat *w)
{
    return w->rows * row_bytes(w);
}

static void row(const struct tft_kernels *kern, const struct tft_mat *w, uint32_t row, float *y)
{
    (void)kern;
    tft_dtype_info(w->tensor->type)
        ->to_f32(y, w->tensor->data + (w->first + row) * row_bytes(w), w->cols);
}

/* Rows are read as f32, so the model's description says f32. */
const struct tft_format tft_format_stored = {
    .name = "stored", .weights = TFT_WEIGHTS_F32, .bytes = bytes, .row = row};
