/* W8A8 files of toys with their matrices as codes. Include it after w8a8.h. */
#ifndef TFT_TEST_LOW_COPIES_H
#define TFT_TEST_LOW_COPIES_H

#include "file/file.h"
#include "model/keys.h"
#include "random.h"
#include "tools/quantize/round/pack_low.h"

enum { MOST = 128 }; /* tensors */

/* ---- two files from one: codes, and the int8 numbers that they stand for */

struct copies {
    const struct tft_source *s;
    struct tft_gguf_writer *i8, *low;
    struct tft_low how[MOST];   /* [n_tensor]; group 0: stays int8 */
    int32_t codes[MOST];        /* [n_tensor] TFT_KEY_WEIGHT_CODES */
    int32_t *sum[MOST];         /* [n_tensor] of a matrix of codes: its sums, [rows] */
};

static inline bool ends_with(struct tft_str s, const char *end)
{
    size_t n = strlen(end);
    return s.n >= n && memcmp(s.p + s.n - n, end, n) == 0;
}

/* The tensor NAME.weight of NAME.rowsum, if it is held as codes; else n_tensor. */
static inline size_t matrix_of(const struct copies *c, struct tft_str rowsum)
{
    size_t stem = rowsum.n - strlen("rowsum");
    for (size_t i = 0; ends_with(rowsum, ".rowsum") && i < c->s->n_tensor; i++) {
        struct tft_str w = c->s->tensor[i].name;
        if (c->how[i].group && w.n == stem + strlen("weight") && memcmp(w.p, rowsum.p, stem) == 0)
            return i;
    }
    return c->s->n_tensor;
}

/* Columns without the padding, which is zero in all rows. */
static inline size_t real_columns(const struct tft_tensor *t)
{
    size_t cols = 0;
    for (size_t k = 0; k < t->ne[0]; k++)
        for (size_t n = 0; n < t->ne[1]; n++)
            if (t->data[tft_panel_at(n, k, t->ne[0])])
                cols = k + 1;
    return cols;
}

/* Rows without the padding, likewise. */
static inline size_t real_rows(const struct tft_tensor *t)
{
    size_t rows = 0;
    for (size_t n = 0; n < t->ne[1]; n++)
        for (size_t k = 0; k < t->ne[0]; k++)
            if (t->data[tft_panel_at(n, k, t->ne[0])])
                rows = n + 1;
    return rows;
}

/* Random codes for matrix i. */
static inline void put_matrix(struct copies *c, size_t i)
{
    enum { COLS = 640 };
    const struct tft_tensor *t = &c->s->tensor[i];
    const struct tft_low *how = &c->how[i];
    size_t K = (size_t)t->ne[0], rows = (size_t)t->ne[1], cols = real_columns(t),
           real = real_rows(t), groups = tft_low_groups(how, cols);
    int levels = (int)tft_bits_levels(how->bits);
    uint8_t code[TFT_PANEL * COLS], factors[TFT_PANEL * COLS / 32], to[TFT_PANEL * COLS];
    int8_t panel[TFT_PANEL * COLS];
    assert_true(K <= COLS && tft_low_panel(how, K) <= sizeof to);
    c->sum[i] = calloc(rows, sizeof(int32_t));
    assert_non_null(c->sum[i]);
    for (size_t n = 0; n < rows; n += TFT_PANEL) {
        for (size_t k = 0; k < TFT_PANEL * cols; k++)
            code[k] = (uint8_t)(random_u32() % (unsigned)levels);
        for (size_t g = 0; g < TFT_PANEL * groups; g++)
            factors[g] = pack_low_factors(1 + (int)(random_u32() % 15),
                                          (levels - (int)(random_u32() % 2)) / 2);
        pack_low_panel(to, c->sum[i] + n, how, code, cols, factors, TFT_PANEL, cols);
        memset(panel, 0, TFT_PANEL * K);
        for (size_t r = 0; r < TFT_PANEL; r++)
            c->sum[i][n + r] *= n + r < real;
        for (size_t r = 0; r < TFT_PANEL && n + r < real; r++)
            for (size_t k = 0; k < cols; k++) {
                uint8_t f = factors[r * groups + k / how->group];
                panel[tft_panel_at(r, k, K)] = (int8_t)((f & 15) * (code[r * cols + k] - (f >> 4)));
            }
        tft_gguf_put_data(c->i8, panel, TFT_PANEL * K);
        tft_gguf_put_data(c->low, to, tft_low_panel(how, K));
    }
}

static inline void put_tensors(struct copies *c)
{
    const struct tft_source *s = c->s;
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        tft_gguf_put_tensor(c->i8, t->name, t->type, t->n_dims, t->ne);
        if (c->how[i].group)
            tft_gguf_put_tensor(c->low, t->name, TFT_I8, 2,
                                (const uint64_t[]){tft_low_panel(&c->how[i], (size_t)t->ne[0]),
                                                   t->ne[1] / TFT_PANEL});
        else
            tft_gguf_put_tensor(c->low, t->name, t->type, t->n_dims, t->ne);
    }
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        size_t matrix = matrix_of(c, t->name);
        const void *data = matrix < s->n_tensor ? (const void *)c->sum[matrix] : t->data;
        if (c->how[i].group) {
            put_matrix(c, i);
            continue;
        }
        tft_gguf_put_data(c->i8, data, (size_t)t->bytes);
        tft_gguf_put_data(c->low, data, (size_t)t->bytes);
    }
}

/* Writes the files `i8` and `low`. first: the type of the first matrix; 0 .. 8: each width and
   group, 9: int8. The next ones follow. */
static inline void write_copies(const char *from, const char *i8, const char *low, int first)
{
    static const enum tft_bits widths[] = {TFT_BITS_4, TFT_BITS_3, TFT_BITS_2};
    struct copies c = {0};
    struct tft_source s;
    struct tft_error err;
    assert_int_equal(tft_source_open(&s, from, NULL, NULL, NULL), TFT_OK);
    c.s = &s;
    assert_true(s.n_tensor <= MOST);
    for (size_t i = 0; i < s.n_tensor; i++)
        if (s.tensor[i].type == TFT_I8) {
            int which = first++ % 10;
            if (which < 9)
                c.how[i] = (struct tft_low){widths[which / 3], (uint8_t)(32 << which % 3)};
            c.codes[i] = which < 9 ? pack_low_key(&c.how[i]) : 0;
        }
    assert_int_equal(tft_gguf_create(&c.i8, i8, NULL), TFT_OK);
    assert_int_equal(tft_gguf_create(&c.low, low, NULL), TFT_OK);
    for (size_t i = 0; i < s.n_value; i++)
        if (!tft_str_is(s.value[i].key, TFT_CHECKSUM_KEY)) {
            tft_gguf_put_value(c.i8, &s.value[i]);
            tft_gguf_put_value(c.low, &s.value[i]);
        }
    tft_gguf_put_array(c.low, TFT_KEY_WEIGHT_CODES, TFT_VALUE_I32, c.codes, s.n_tensor);
    put_tensors(&c);
    if (tft_gguf_close(c.i8, true, &err) != TFT_OK || tft_gguf_close(c.low, true, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < MOST; i++)
        free(c.sum[i]);
    tft_source_close(&s);
}

#endif
