#include "shape_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tft_str shape_str(const char *s) { return (struct tft_str){s, strlen(s)}; }

void shape_describe(struct shape_weights *w, const char *name, const char *suffix,
                    enum tft_dtype type, uint32_t n_dims, const uint64_t *ne)
{
    char full[80];
    snprintf(full, sizeof full, "%s%s", name, suffix);
    if (w->counted)
        tft_gguf_put_tensor(w->gguf, shape_str(full), type, n_dims, ne);
    else if (w->n_tensor < SHAPE_TENSORS)
        w->n_tensor++;
}

void shape_fill(struct shape_weights *w, size_t bytes)
{
    int8_t *to = w->panel;
    uint64_t x = w->random;
    for (size_t i = 0; i < bytes; i += 8) {
        x ^= x << 13; /* xorshift64, Marsaglia 2003 */
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(to + i, &x, 8);
    }
    w->random = x;
    for (size_t i = 0; i < bytes; i++)
        to[i] = to[i] == -128 ? 0 : to[i];
}

static void sum_rows(const int8_t *panel, size_t cols, int32_t *sum)
{
    memset(sum, 0, TFT_PANEL * sizeof *sum);
    for (size_t i = 0; i < TFT_PANEL * cols; i++)
        sum[i / TFT_QUAD % TFT_PANEL] += panel[i];
}

static int zero(const struct tft_low *low) { return (int)tft_bits_levels(low->bits) / 2; }

/* Completes a panel of random codes: replaces the bytes of s and z, and sums the rows. */
static void fill_codes(struct shape_weights *w, size_t cols, int32_t *sum)
{
    const struct tft_low *low = w->low;
    uint8_t *at = (uint8_t *)w->panel, code[TFT_LOW_MAX_GROUP * TFT_PANEL];
    for (size_t i = 0; i < tft_low_groups(low, cols); i++, at += tft_low_group_bytes(low)) {
        int32_t of_codes[TFT_PANEL] = {0};
        tft_codes_unpack(code, at + TFT_PANEL, low->bits, low->group / TFT_QUAD);
        for (size_t q = 0; q < low->group / TFT_QUAD; q++)
            for (size_t r = 0; r < TFT_PANEL; r++)
                for (size_t k = 0; k < TFT_QUAD; k++)
                    of_codes[r] += code[q * TFT_QUAD_CODES + r * TFT_QUAD + k];
        for (size_t r = 0; r < TFT_PANEL; r++) {
            int s = 1 + at[r] % TFT_LOW_MAX_SCALE;
            at[r] = (uint8_t)(s | zero(low) << 4);
            sum[r] += s * (of_codes[r] - low->group * zero(low));
        }
    }
}

/* Bytes of a panel of 16 rows, or of 16 rows of blocks. */
static size_t panel_bytes(const struct shape_weights *w, size_t cols)
{
    uint64_t bytes;
    if (w->type)
        return tft_dtype_bytes(w->type, TFT_PANEL * cols, &bytes) ? (size_t)bytes : 0;
    return w->low ? tft_low_panel(w->low, cols) : TFT_PANEL * cols;
}

/* Replaces the f16 factor, which is first in each block of a type, of rows of blocks: a power of
   two of about 1 / sqrt(cols). */
static void fill_factors(struct shape_weights *w, enum tft_dtype type, size_t bytes, size_t cols)
{
    unsigned half = 0; /* of the logarithm of cols */
    while (cols >> 2 * half > 1)
        half++;
    const uint16_t factor = (uint16_t)((15 - half) << 10);
    for (size_t at = 0; at < bytes; at += tft_dtype_info(type)->bytes)
        memcpy(w->panel + at, &factor, sizeof factor);
}

static uint32_t all_rows(const struct shape_matrix *x)
{
    return x->rows * (x->experts ? x->experts : 1);
}

/* The weights of a matrix. */
static void put_weights(struct shape_weights *w, struct shape_matrix *x)
{
    size_t bytes = panel_bytes(w, x->cols);
    if (!w->data) {
        if (w->low && !w->counted && w->n_tensor < SHAPE_TENSORS)
            w->codes[w->n_tensor] = (w->low->bits == TFT_BITS_4   ? 4
                                     : w->low->bits == TFT_BITS_3 ? 3
                                                                  : 2) +
                                    256 * w->low->group;
        const uint64_t of_codes[] = {bytes, x->rows / TFT_PANEL, x->experts},
                       of_int8[] = {x->cols, x->rows, x->experts};
        shape_describe(w, x->name, ".weight", w->type ? w->type : TFT_I8, x->experts ? 3 : 2,
                       w->low ? of_codes : of_int8);
        w->all += (double)bytes * (all_rows(x) / TFT_PANEL);
        return;
    }
    x->sum = calloc(all_rows(x), sizeof *x->sum);
    for (uint32_t i = 0; x->sum && i < all_rows(x) && !w->stopped; i += TFT_PANEL) {
        shape_fill(w, bytes);
        if (w->type)
            fill_factors(w, w->type, bytes, x->cols);
        else if (w->low)
            fill_codes(w, x->cols, x->sum + i);
        else
            sum_rows(w->panel, x->cols, x->sum + i);
        tft_gguf_put_data(w->gguf, w->panel, bytes);
        w->done += (double)bytes;
        w->stopped = w->progress && !w->progress(w->done / w->all);
    }
}

void shape_blocks(struct shape_weights *w, const char *name, enum tft_dtype type, uint32_t rows,
                  uint32_t cols)
{
    uint64_t bytes;
    if (!tft_dtype_bytes(type, cols, &bytes))
        return;
    if (!w->data) {
        shape_describe(w, name, ".weight", type, 2, (const uint64_t[]){cols, rows});
        w->all += (double)bytes * rows;
        return;
    }
    for (uint32_t i = 0; i < rows && !w->stopped; i++) {
        shape_fill(w, ((size_t)bytes + 7) / 8 * 8);
        fill_factors(w, type, (size_t)bytes, cols);
        tft_gguf_put_data(w->gguf, w->panel, (size_t)bytes);
        w->done += (double)bytes;
        w->stopped = w->progress && i % TFT_PANEL == 0 && !w->progress(w->done / w->all);
    }
}

void shape_vectors(struct shape_weights *w, const char *name, const char *suffix, uint32_t rows,
                   uint32_t n, float value)
{
    if (!w->data)
        shape_describe(w, name, suffix, TFT_F32, rows > 1 ? 2 : 1, (const uint64_t[]){n, rows});
    for (uint32_t i = 0; w->data && i < rows * n; i++)
        tft_gguf_put_data(w->gguf, &value, sizeof value);
}

void shape_vector(struct shape_weights *w, const char *name, const char *suffix, uint32_t n,
                  float value)
{
    shape_vectors(w, name, suffix, 1, n, value);
}

/* The standard deviation of the weights: uniform int8 numbers, or the product of s = 1 .. 15 and
   uniform codes. */
static float deviation(const struct tft_low *low)
{
    return !low ? 73.0f : low->bits == TFT_BITS_4 ? 42.0f : low->bits == TFT_BITS_3 ? 21.0f : 11.0f;
}

/* The scales, bias and row sums of a matrix. The scales make the output about as large as the
   input. */
static void put_scales(struct shape_weights *w, struct shape_matrix *x)
{
    uint32_t experts = x->experts ? x->experts : 1;
    if (!w->type)
        shape_vectors(w, x->name, ".scale", experts, x->rows,
                      1 / (deviation(w->low) * sqrtf((float)x->cols)));
    if (x->bias)
        shape_vector(w, x->name, ".bias", x->rows, 0.1f);
    if (w->type) {
        free(x->sum);
        return;
    }
    if (!w->data)
        shape_describe(w, x->name, ".rowsum", TFT_I32, experts > 1 ? 2 : 1,
                       (const uint64_t[]){x->rows, experts});
    else if (x->sum)
        tft_gguf_put_data(w->gguf, x->sum, all_rows(x) * sizeof *x->sum);
    free(x->sum);
}

void shape_matrices(struct shape_weights *w, unsigned layer, struct shape_matrix *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(x[i].name, sizeof x[i].name, x[i].format, layer);
        put_weights(w, &x[i]);
    }
    for (size_t i = 0; i < n; i++)
        put_scales(w, &x[i]);
}
