/* Panels of int8 (simd/panel.h) with a scale and a sum for each row: weights of a W8A8 file. */
#include "weights/bytes.h"

#include <string.h>

static uint64_t bytes(const struct tft_mat *w)
{
    return (uint64_t)tft_panel_rows(w->rows) *
           (tft_panel_cols(w->cols) + sizeof *w->scale + sizeof *w->rowsum);
}

/* The numbers of a row are spread over its panel, 4 bytes a quad: one row touches a few hundred
   cache lines. With a head tied to the embedding, this costs less memory traffic than a second copy
   of the embedding. */
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

/* ---- flaws */

/* Statistics of a panel. */
struct census {
    int32_t sum[TFT_PANEL]; /* of each row */
    uint8_t least[TFT_PANEL * TFT_QUAD]; /* the least byte at each place of a quad, plus 128 */
};

/* Adds 128 to each number, so compilers add and compare 16 numbers in one SSE2 or NEON register. */
static void count(struct census *c, const int8_t *data, size_t quads)
{
    enum { QUAD = TFT_PANEL * TFT_QUAD, RUN = UINT16_MAX / UINT8_MAX };
    *c = (struct census){0};
    memset(c->least, UINT8_MAX, sizeof c->least);
    while (quads) {
        uint16_t part[QUAD] = {0};
        size_t n = quads < RUN ? quads : RUN;
        for (size_t q = 0; q < n; q++, data += QUAD)
            for (size_t i = 0; i < QUAD; i++) {
                uint8_t b = (uint8_t)data[i] ^ 128;
                part[i] = (uint16_t)(part[i] + b);
                c->least[i] = b < c->least[i] ? b : c->least[i];
            }
        for (size_t i = 0; i < QUAD; i++)
            c->sum[i / TFT_QUAD] += (int32_t)part[i] - 128 * (int32_t)n;
        quads -= n;
    }
}

/* Whether row r of a panel is zero from column `counted` up to `cols`, the padded width. */
static bool only_zeros(const int8_t *panel, size_t r, size_t counted, size_t cols)
{
    int bits = 0;
    for (size_t k = counted; k < cols; k++)
        bits |= panel[tft_panel_at(r, k, cols)];
    return bits == 0;
}

static const char *flaw(const struct tft_kernels *kern, const struct tft_mat *w, size_t begin,
                        size_t end, size_t *at)
{
    size_t cols = tft_panel_cols(w->cols);
    (void)kern;
    for (size_t n = begin; n < end; n += TFT_PANEL) {
        const int8_t *panel = (const int8_t *)w->data + n * cols;
        struct census c;
        count(&c, panel, cols / TFT_QUAD);
        for (size_t r = 0; r < TFT_PANEL; r++) {
            const char *why = tft_bytes_row_flaw(w, n + r, c.sum[r]);
            *at = n + r;
            if (!only_zeros(panel, r, n + r < w->rows ? w->cols : 0, cols))
                return "has padding that is not zero";
            for (size_t i = 0; i < TFT_QUAD; i++)
                if (!c.least[r * TFT_QUAD + i])
                    return "has a weight of -128; the least is -127";
            if (why)
                return why;
        }
    }
    return NULL;
}

/* A matrix of int8 panels is always a whole tensor: `first` is 0. */
const struct tft_format tft_format_i8 = {.name = "int8 panels",
                                         .type = TFT_I8,
                                         .weights = TFT_WEIGHTS_I8,
                                         .takes_bytes = true,
                                         .bytes = bytes,
                                         .flaw = flaw,
                                         .row = row,
                                         .product = product};
