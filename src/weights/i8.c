/* Panels of int8 (simd/panel.h) with a scale and a sum for each row: weights of a W8A8 file. */
#include "weights/bytes.h"

static uint64_t bytes(const struct tft_mat *w)
{
    return tft_panel_rows(w->rows) *
           (tft_panel_cols(w->cols) + sizeof *w->scale + sizeof *w->rowsum);
}

/* The numbers of a row are spread over its panel, 4 bytes a quad: one row touches a few hundred
   cache lines. That costs less memory traffic than a second copy of the embedding would where the
   head is tied to it. */
static void row(const struct tft_kernels *kern, const struct tft_mat *w, uint32_t row, float *y)
{
    const int8_t *data = w->data;
    size_t cols = tft_panel_cols(w->cols);
    (void)kern;
    for (size_t k = 0; k < w->cols; k++)
        y[k] = (float)data[tft_panel_at(row, k, cols)] * w->scale[row];
}

static void product(const struct tft_kernels *kern, const struct tft_mat *w,
                    const struct tft_product *p, size_t begin, size_t end)
{
    size_t cols = tft_panel_cols(w->cols);
    struct tft_panels panels = {(const int8_t *)w->data + begin * cols, w->scale + begin,
                                w->rowsum + begin, cols};
    struct tft_gemm_i8 g = tft_bytes_product(p, &panels, begin, end);
    kern->gemm_i8(&g);
}

/* Such a matrix is always a whole tensor: `first` is 0. */
const struct tft_format tft_format_i8 = {.name = "int8 panels",
                                         .type = TFT_I8,
                                         .weights = TFT_WEIGHTS_I8,
                                         .takes_bytes = true,
                                         .bytes = bytes,
                                         .row = row,
                                         .product = product};
