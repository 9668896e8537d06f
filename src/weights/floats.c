/* Rows of floats, [rows, cols], contiguous and without padding. */
#include "weights/format.h"

static const void *at(const struct tft_mat *w, size_t row)
{
    return (const char *)w->data + (w->first + row) * w->cols * tft_num_bytes(w->format->num);
}

static uint64_t bytes(const struct tft_mat *w)
{
    return (uint64_t)w->rows * w->cols * tft_num_bytes(w->format->num);
}

static void row(const struct tft_kernels *kern, const struct tft_mat *w, uint32_t row, float *y)
{
    kern->widen[w->format->num](y, at(w, row), w->cols);
}

static void product(const struct tft_kernels *kern, const struct tft_mat *w,
                    const struct tft_product *p, size_t begin, size_t end)
{
    kern->gemm[w->format->num](&(struct tft_gemm){
        .y = p->y,
        .ldy = p->ldy,
        .x = p->x,
        .ldx = p->ldx,
        .w = at(w, begin),
        .bias = p->bias ? p->bias + begin : NULL,
        .add = p->add,
        .M = p->n,
        .N = end - begin,
        .K = w->cols,
    });
}

const struct tft_format tft_format_f32 = {.name = "f32",
                                          .type = TFT_F32,
                                          .weights = TFT_WEIGHTS_F32,
                                          .num = TFT_NUM_F32,
                                          .bytes = bytes,
                                          .row = row,
                                          .product = product};
const struct tft_format tft_format_f16 = {.name = "f16",
                                          .type = TFT_F16,
                                          .weights = TFT_WEIGHTS_F16,
                                          .num = TFT_NUM_F16,
                                          .bytes = bytes,
                                          .row = row,
                                          .product = product};
const struct tft_format tft_format_bf16 = {.name = "bf16",
                                           .type = TFT_BF16,
                                           .weights = TFT_WEIGHTS_BF16,
                                           .num = TFT_NUM_BF16,
                                           .bytes = bytes,
                                           .row = row,
                                           .product = product};
