/* Panels of codes (simd/low_panel.h) with a scale and a sum for each row: weights of a W8A8 file,
   int8 numbers in fewer bytes. */
#include "weights/bytes.h"

#include <string.h>

static uint64_t bytes(const struct tft_mat *w)
{
    return (uint64_t)(tft_panel_rows(w->rows) / TFT_PANEL) *
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

/* ---- flaws */

/* Whether s * (c - z) of a group is in -127 .. 127 in row r of the panel, for the group's first
   `columns` columns. Reads codes only if s and z allow a number outside. */
static bool in_range(const uint8_t *group, const struct tft_low *low, size_t r, size_t columns)
{
    int s = group[r] & 15, z = group[r] >> 4, last = (int)tft_bits_levels(low->bits) - 1;
    if (s * z <= INT8_MAX && s * (last - z) <= INT8_MAX)
        return true;
    for (size_t k = 0; k < columns; k++) {
        int v = tft_low_at(group, low, r, k, low->group);
        if (v < -INT8_MAX || v > INT8_MAX)
            return false;
    }
    return true;
}

/* The sums of the rows of a panel: its product with ones, exact for any codes. */
static void sums(const struct tft_kernels *kern, const struct tft_mat *w, const uint8_t *panel,
                 float sum[TFT_PANEL])
{
    static const float one[TFT_PANEL] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const int32_t none[TFT_PANEL] = {0};
    static const struct tft_affine plain = {1, 1, 0};
    uint8_t ones[TFT_PANEL_MAX_K];
    size_t cols = tft_panel_cols(w->cols);
    memset(ones, 1, cols);
    struct tft_panels rows = {NULL, one, none, cols};
    struct tft_low_panels codes = {panel, *w->format->low, w->cols};
    kern->gemm_low(&(struct tft_gemm_i8){.y = sum,
                                         .ldy = TFT_PANEL,
                                         .x = ones,
                                         .ldx = cols,
                                         .xq = &plain,
                                         .w = &rows,
                                         .M = 1,
                                         .N = TFT_PANEL},
                   &codes);
}

/* Codes of padding are arbitrary. */
static const char *flaw(const struct tft_kernels *kern, const struct tft_mat *w, size_t begin,
                        size_t end, size_t *at)
{
    const struct tft_low *low = w->format->low;
    size_t size = tft_low_panel(low, tft_panel_cols(w->cols));
    for (size_t n = begin; n < end; n += TFT_PANEL) {
        const uint8_t *panel = (const uint8_t *)w->data + n / TFT_PANEL * size;
        float sum[TFT_PANEL];
        sums(kern, w, panel, sum);
        for (size_t r = 0; r < TFT_PANEL && n + r < w->rows; r++) {
            *at = n + r;
            for (size_t k = 0; k < w->cols; k += low->group)
                if (!in_range(panel + k / low->group * tft_low_group_bytes(low), low, r,
                              w->cols - k < low->group ? w->cols - k : low->group))
                    return "has a weight outside of -127 .. 127";
            const char *why = tft_bytes_row_flaw(w, n + r, (int32_t)sum[r]);
            if (why)
                return why;
        }
    }
    return NULL;
}

#define ROW(label, code_bits, columns)                                                             \
    {                                                                                              \
        .name = label, .type = TFT_I8, .weights = TFT_WEIGHTS_I8, .takes_bytes = true,             \
        .bytes = bytes, .flaw = flaw, .row = row, .product = product,                              \
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
