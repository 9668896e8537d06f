#include "data.h"

#include <math.h>
#include <string.h>

/* -------------------------------------------------------------------------------------- gemm_i8 */

uint8_t check_byte(struct check *c, size_t kind)
{
    return kind == 0 ? 0 : kind == 1 ? 255 : (uint8_t)check_rand(c);
}

int8_t check_weight(struct check *c, size_t kind)
{
    return kind == 0   ? -127
           : kind == 1 ? 127
           : kind == 2 ? (check_below(c, 2) ? 127 : -127)
                       : (int8_t)((int)check_below(c, 255) - 127);
}

struct tft_affine check_affine(struct check *c)
{
    struct tft_affine q;
    q.scale = check_below(c, 4) ? fabsf(check_float(c)) + 1e-3f : 0x1p-6f;
    q.inverse = 1 / q.scale;
    q.zero = (int32_t)(check_below(c, 4) ? check_below(c, 256) : 255 * check_below(c, 2));
    return q;
}

static void make_weights(struct check *c, struct check_product *o, size_t kind)
{
    /* up to 15 of the columns are padding */
    size_t rows = tft_panel_rows(o->N), K = o->cols - check_below(c, 16);
    int8_t *data = check_buf(c, rows * o->cols, 1);
    float *scale = check_buf(c, rows, 4);
    int32_t *rowsum = check_buf(c, rows, 4);
    memset(data, 0, rows * o->cols);
    memset(scale, 0, rows * 4);
    memset(rowsum, 0, rows * 4);
    for (size_t n = 0; n < o->N; n++) {
        scale[n] = fabsf(check_float(c));
        for (size_t k = 0; k < K; k++) {
            int8_t v = check_weight(c, kind);
            data[tft_panel_at(n, k, o->cols)] = v;
            rowsum[n] += v;
        }
    }
    o->w = (struct tft_panels){data, scale, rowsum, o->cols};
}

struct check_product check_product(struct check *c, size_t M, size_t N, size_t cols,
                                   size_t byte_kind, size_t weight_kind)
{
    struct check_product o = {.M = M, .N = N, .cols = cols};
    o.ldx = cols + check_below(c, 4);
    o.ldy = N + check_below(c, 4);
    o.step = check_below(c, 2);
    o.used = check_below(c, 3) == 0 ? 16 * check_below(c, cols / 16 + 1) : 0;
    o.add = (int)check_below(c, 2);
    size_t nx = M ? (M - 1) * o.ldx + cols : 0, ny = M ? (M - 1) * o.ldy + N : 0,
           nq = o.step ? M : 1;
    o.x = check_buf(c, nx, 1);
    o.y = check_buf(c, ny, 4);
    o.xq = check_buf(c, nq, sizeof *o.xq);
    o.bias = check_below(c, 2) ? check_buf(c, N, 4) : NULL;
    for (size_t i = 0; i < nx; i++)
        o.x[i] = check_byte(c, byte_kind);
    for (size_t m = 0; m < M && o.used; m++)
        memset(o.x + m * o.ldx + o.used, 0, cols - o.used);
    check_fill(c, o.y, ny);
    for (size_t i = 0; i < nq; i++)
        o.xq[i] = check_affine(c);
    for (size_t i = 1, one = check_below(c, 2); i < nq && one; i++)
        o.xq[i].zero = o.xq[0].zero; /* as in attention */
    if (o.bias)
        check_fill(c, o.bias, N);
    make_weights(c, &o, weight_kind);
    return o;
}

/* ------------------------------------------------------------------------------ blocks of codes */

/* Random codes for k->b.quads, and the same packed. Sometimes only the least and the largest codes,
   which give the largest sums. */
static void make_codes(struct check *c, struct check_block *k, size_t rows, size_t columns)
{
    size_t bytes = 0, column = 0;
    bool extreme = !check_below(c, 4);
    k->rows = (rows + 15) / 16 * 16;
    k->columns = columns;
    for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++) {
        bytes += tft_codes_bytes(b, k->b.quads[b]);
        for (size_t i = 0; i < (size_t)k->b.quads[b] * 4; i++)
            k->levels[column++] = tft_bits_levels(b);
    }
    k->code = check_buf(c, k->rows * columns, 1);
    for (size_t i = 0; i < k->rows * columns; i++) {
        unsigned levels = k->levels[i % columns];
        k->code[i] = (uint8_t)(extreme ? (levels - 1) * !!check_below(c, 8)
                                       : check_below(c, levels));
    }

    uint8_t *to = check_buf(c, k->rows / 16 * bytes, 1), panel[16 * TFT_CODED_DIM];
    k->b.codes = to;
    for (size_t row = 0; row < k->rows; row += 16) {
        for (size_t i = 0; i < 16 * columns; i++)
            panel[i] = k->code[(row + i % 64 / 4) * columns + i / 64 * 4 + i % 4];
        const uint8_t *from = panel;
        for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++) {
            tft_codes_pack(to, from, b, k->b.quads[b]);
            to += tft_codes_bytes(b, k->b.quads[b]);
            from += 64 * (size_t)k->b.quads[b];
        }
    }
}

static void make_scales(struct check *c, struct check_block *k)
{
    size_t n = k->b.group ? (k->b.dim + k->b.group - 1) / k->b.group * k->b.tokens : k->b.dim;
    float *scale = check_buf(c, n, 4), *mid = check_buf(c, n, 4);
    check_fill(c, scale, n);
    check_fill(c, mid, n);
    for (size_t i = 0; i < n; i++)
        scale[i] = fabsf(scale[i]);
    k->b.scale = scale;
    k->b.mid = mid;
}

void check_quads(struct check *c, uint16_t quads[TFT_BITS_COUNT], size_t dim, enum tft_bits bits)
{
    size_t kinds = check_below(c, 3) ? TFT_BITS_8 : TFT_BITS_COUNT;
    memset(quads, 0, TFT_BITS_COUNT * sizeof *quads);
    bool largest = !check_below(c, 4); /* the largest sum of x * (L - 1) */
    for (size_t q = 0; q < dim / 4; q++)
        quads[bits < TFT_BITS_COUNT ? bits
              : largest             ? (check_below(c, 8) ? TFT_BITS_4 : TFT_BITS_8)
                                    : check_below(c, kinds)]++;
}

struct check_block check_keys(struct check *c, size_t tokens, size_t dim, size_t group,
                              const uint16_t quads[TFT_BITS_COUNT])
{
    struct check_block k = {
        .b = {.tokens = (uint32_t)tokens, .dim = (uint32_t)dim, .group = (uint32_t)group}};
    memcpy(k.b.quads, quads, sizeof k.b.quads);
    make_codes(c, &k, tokens, dim);
    make_scales(c, &k);
    return k;
}

struct check_block check_values(struct check *c, size_t tokens, size_t dim, size_t group,
                                enum tft_bits bits)
{
    struct check_block v = {
        .b = {.tokens = (uint32_t)tokens, .dim = (uint32_t)dim, .group = (uint32_t)group}};
    v.b.quads[bits] = (uint16_t)(tokens / 4);
    make_codes(c, &v, dim, tokens);
    make_scales(c, &v);
    return v;
}

void check_fill_factors(struct check *c, float *x, size_t n)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 1e38f, -3e38f};
    check_fill(c, x, n);
    float size = check_below(c, 2) ? 1 : 0.7f;
    switch (check_below(c, 8)) {
    case 0:
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] < 0 ? -size : size;
        break;
    case 1:
        for (size_t i = 0; i < n; i++)
            x[i] *= check_below(c, 2) ? 1e-36f : 1e-33f;
        break;
    case 2: memset(x, 0, n * 4); break;
    case 3: x[check_below(c, n)] = odd[check_below(c, 5)]; break;
    case 4:
        for (size_t i = 0; i < n; i++)
            x[i] = size;
        break;
    case 5:
        for (size_t i = 0; i < n; i++)
            x[i] = size - 0.001f * (float)check_below(c, 100);
    }
}
