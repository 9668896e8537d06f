/*
 * The input is a matrix of a W8A8 file: int8, or codes of few bits, with scales and row sums, and
 * bytes to multiply it by. All ISA levels find the same flaw in it. If they find none, all ISA
 * levels give the same bits.
 */
#include "fuzz.h"

#include <math.h>

#include "simd/kernels.h"
#include "weights/format.h"

enum { ROWS = 33, COLS = 300, TOKENS = 26, PADDED = 304 };

struct input {
    const uint8_t *p;
    size_t n, at;
};

/* The next byte; the input is repeated as often as need be. */
static uint8_t next(struct input *in)
{
    return in->n ? in->p[in->at++ % in->n] : 0;
}

/* n bytes in memory of that size, so that memory tools see an access past the end. */
static void *bytes(struct input *in, size_t n)
{
    uint8_t *p = malloc(n);
    MUST(p);
    for (size_t i = 0; i < n; i++)
        p[i] = next(in);
    return p;
}

static const struct tft_format *format(unsigned which)
{
    which %= 10;
    return which == 9 ? &tft_format_i8 : tft_format_low(2 + which / 3, 32u << which % 3);
}

static int number(const struct tft_mat *w, size_t n, size_t k)
{
    size_t cols = tft_panel_cols(w->cols);
    return w->format->low ? tft_low_at(w->data, w->format->low, n, k, cols)
                          : ((const int8_t *)w->data)[tft_panel_at(n, k, cols)];
}

/* A file as `tuffet quantize` would write it: zeros for the padding of int8, positive scales, and
   row sums that are right. */
static void mend(const struct tft_mat *w, uint8_t *data, float *scale, int32_t *rowsum)
{
    size_t cols = tft_panel_cols(w->cols), rows = tft_panel_rows(w->rows);
    for (size_t n = 0; n < rows; n++) {
        rowsum[n] = 0;
        scale[n] = isfinite(scale[n]) && scale[n] != 0 ? fabsf(scale[n]) : 1;
        for (size_t k = 0; k < cols; k++)
            if (n < w->rows && k < w->cols)
                rowsum[n] += number(w, n, k);
            else if (!w->format->low)
                data[tft_panel_at(n, k, cols)] = 0;
    }
}

static bool same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* Each number of tokens may have a way of its own. */
static void multiply(struct input *in, const struct tft_mat *w)
{
    static const size_t tokens[] = {1, 2, 4, 5, TOKENS};
    float scale = ldexpf(1 + (float)next(in) / 256, next(in) % 8 - 8);
    struct tft_affine affine = {scale, 1 / scale, next(in)};
    uint8_t *x = bytes(in, TOKENS * PADDED);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        float want[TOKENS * ROWS] = {0}, got[TOKENS * ROWS] = {0};
        struct tft_product p = {
            .y = want, .ldy = ROWS, .bytes = x, .ldx = PADDED, .affine = &affine, .n = tokens[i]};
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            struct tft_kernels kern;
            tft_kernels_fill(&kern, isa);
            p.y = isa ? got : want;
            w->format->product(&kern, w, &p, 0, w->rows);
            MUST(!isa || same(got, want, tokens[i] * ROWS));
        }
    }
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size, 0};
    uint8_t which = next(&in);
    struct tft_mat w = {.format = format(which / 2),
                        .rows = 1 + next(&in) % ROWS,
                        .cols = 1 + (next(&in) | (uint32_t)next(&in) << 8) % COLS};
    size_t rows = tft_panel_rows(w.rows), factors = rows * (sizeof(float) + sizeof(int32_t)), row;
    uint8_t *numbers = bytes(&in, (size_t)w.format->bytes(&w) - factors);
    float *scale = bytes(&in, rows * sizeof *scale);
    int32_t *rowsum = bytes(&in, rows * sizeof *rowsum);
    w.data = numbers;
    w.scale = scale;
    w.rowsum = rowsum;
    if (which % 2)
        mend(&w, numbers, scale, rowsum);

    const char *flaw = NULL;
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        struct tft_kernels kern;
        tft_kernels_fill(&kern, isa);
        const char *found = w.format->flaw(&kern, &w, 0, w.rows, &row);
        MUST(!isa || found == flaw);
        flaw = found;
    }
    if (!flaw)
        multiply(&in, &w);
    free(numbers);
    free(scale);
    free(rowsum);
    return 0;
}
