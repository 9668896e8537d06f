/* Panels of codes (simd/low_panel.h) with a scale and a sum for each row: weights of a W8A8 file
   that are int8 numbers in fewer bytes. */
#include "weights/bytes.h"

static uint64_t bytes(const struct tft_mat *w)
{
    return tft_panel_rows(w->rows) / TFT_PANEL *
           (tft_low_panel(w->format->low, tft_panel_cols(w->cols)) +
            TFT_PANEL * (sizeof *w->scale + sizeof *w->rowsum));
}

static void row(const struct tft_kernels *kern, const struct tft_mat *w, uint32_t row, float *y)
{
    size_t cols = tft_panel_cols(w->cols);
    (void)kern;
    for (size_t k = 0; k < w->cols; k++)
        y[k] = (float)tft_low_at(w->data, w->format->low, row, k, cols) * w->scale[row];
}

static void product(const struct tft_kernels *kern, const struct tft_mat *w,
                    const struct tft_product *p, size_t begin, size_t end)
{
    size_t cols = tft_panel_cols(w->cols);
    struct tft_panels rows = {NULL, w->scale + begin, w->rowsum + begin, cols};
    struct tft_low_panels codes = {
        (const uint8_t *)w->data + begin / TFT_PANEL * tft_low_panel(w->format->low, cols),
        *w->format->low, w->cols};
    struct tft_gemm_i8 g = tft_bytes_product(p, &rows, begin, end);
    kern->gemm_low(&g, &codes);
}

#define ROW(label, code_bits, columns)                                                             \
    {                                                                                              \
        .name = label, .type = TFT_I8, .weights = TFT_WEIGHTS_I8, .takes_bytes = true,             \
        .bytes = bytes, .row = row, .product = product,                                            \
        .low = &(const struct tft_low){code_bits, columns},                                        \
    }

static const struct tft_format formats[] = {
    ROW("int4 panels", TFT_BITS_4, 32),  ROW("int4 panels", TFT_BITS_4, 64),
    ROW("int4 panels", TFT_BITS_4, 128), ROW("int3 panels", TFT_BITS_3, 32),
    ROW("int3 panels", TFT_BITS_3, 64),  ROW("int3 panels", TFT_BITS_3, 128),
    ROW("int2 panels", TFT_BITS_2, 32),  ROW("int2 panels", TFT_BITS_2, 64),
    ROW("int2 panels", TFT_BITS_2, 128),
};

const struct tft_format *tft_format_low(unsigned bits, unsigned group)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (tft_bits_levels(formats[i].low->bits) == 1u << (bits & 7) &&
            formats[i].low->group == group && bits < 8)
            return &formats[i];
    return NULL;
}
