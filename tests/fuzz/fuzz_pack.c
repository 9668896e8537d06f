/*
 * The input is a format, an ISA level, and the bytes of a panel: as GGUF has its rows, which are
 * packed, or as a packed file has them. Whatever the bytes are, nothing is read or written out of
 * bounds, packed rows equal the file's, and products equal the reference's.
 */
#include "fuzz.h"

#include <math.h>

#include "simd/kernels.h"
#include "weights/packed.h"

enum { BLOCKS = 3, COLS = BLOCKS * TFT_PACKED_BLOCK, TOKENS = 3 };

struct input {
    const struct tft_format *format;
    struct tft_kernels kern, reference;
    uint32_t rows, cols;
    const uint8_t *data; /* of the panel, repeated as often as need be */
    size_t size;
};

/* n bytes in memory of that size, so that memory tools see an access past the end. */
static unsigned char *filled(const struct input *in, size_t n)
{
    unsigned char *p = malloc(n);
    MUST(p);
    for (size_t i = 0; i < n; i++)
        p[i] = in->size ? in->data[i % in->size] : 0;
    return p;
}

static bool same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

/* The panel, from rows as in a file; NULL: they were refused. */
static unsigned char *packed(const struct input *in)
{
    const struct tft_format *f = in->format;
    const struct tft_dtype_info *type = tft_dtype_info(f->type);
    size_t row = in->cols / type->block * type->bytes;
    unsigned char *rows = filled(in, in->rows * row),
                  *panel = malloc(tft_packed_bytes(f, TFT_PANEL, in->cols));
    uint64_t bad = 0;
    MUST(panel);
    bool good = tft_pack_panel(panel, f, rows, in->rows, in->cols, &bad);
    MUST(good || (bad < in->rows * row && bad % type->bytes == 0));
    struct tft_mat w = {.format = f, .rows = in->rows, .cols = in->cols, .data = panel};
    for (uint32_t i = 0; good && i < in->rows; i++) {
        float want[COLS], got[COLS];
        type->to_f32(want, rows + i * row, in->cols);
        f->row(&in->kern, &w, i, got);
        MUST(same(got, want, in->cols));
    }
    free(rows);
    if (good)
        return panel;
    free(panel);
    return NULL;
}

static void multiply(const struct input *in, const struct tft_kernels *kern,
                     const unsigned char *panel, const uint8_t *x, size_t n, float *y)
{
    struct tft_mat w = {.format = in->format, .rows = in->rows, .cols = in->cols, .data = panel};
    w.format->product(
        kern, &w,
        &(struct tft_product){
            .y = y, .ldy = TFT_PANEL, .bytes = x, .ldx = tft_groups_bytes(in->cols), .n = n},
        0, in->rows);
}

/* One token, and several: kernels may have a way for each. */
static void products(const struct input *in, const unsigned char *panel)
{
    size_t groups = tft_groups_bytes(in->cols);
    uint8_t *x = malloc(TOKENS * groups);
    MUST(x);
    for (size_t i = 0; i < TOKENS; i++) {
        float row[COLS];
        for (size_t k = 0; k < in->cols; k++)
            row[k] = in->size ? (float)in->data[(i + k * 5) % in->size] / 16 - 7 : 1;
        in->reference.quantize_groups(x + i * groups, in->cols, 0, row, in->cols);
    }
    for (size_t n = 1; n <= TOKENS; n += TOKENS - 1) {
        float want[TOKENS * TFT_PANEL] = {0}, got[TOKENS * TFT_PANEL] = {0};
        multiply(in, &in->reference, panel, x, n, want);
        multiply(in, &in->kern, panel, x, n, got);
        MUST(same(got, want, n * TFT_PANEL));
    }
    free(x);
}

static void read_rows(const struct input *in, const unsigned char *panel)
{
    struct tft_mat w = {.format = in->format, .rows = in->rows, .cols = in->cols, .data = panel};
    for (uint32_t i = 0; i < in->rows; i++) {
        float want[COLS], got[COLS];
        w.format->row(&in->reference, &w, i, want);
        w.format->row(&in->kern, &w, i, got);
        MUST(same(got, want, in->cols));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEAD = 4 };
    if (size < HEAD)
        return 0;
    struct input in = {.format = &tft_packed_formats[data[0] % TFT_PACKED_FORMATS],
                       .rows = 1 + data[2] % TFT_PANEL,
                       .data = data + HEAD,
                       .size = size - HEAD};
    in.cols = (1 + data[3] % BLOCKS) * in.format->packing->block;
    tft_kernels_fill(&in.reference, 0);
    tft_kernels_fill(&in.kern, data[1] / 2 % tft_kernels_isas());
    unsigned char *panel =
        data[1] % 2 ? packed(&in) : filled(&in, tft_packed_bytes(in.format, TFT_PANEL, in.cols));
    if (panel) {
        read_rows(&in, panel);
        products(&in, panel);
    }
    free(panel);
    return 0;
}
