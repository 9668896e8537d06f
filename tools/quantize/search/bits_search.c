#include "tools/quantize/search/bits_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tools/quantize/array.h"
#include "tools/quantize/measure/divergence.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/round/low_bits.h"
#include "tools/quantize/round/pack_low.h"
#include "tools/quantize/search/knapsack.h"
#include "weights/format.h"

enum { MEASURED_TOKENS = 1024, SAMPLE_ROWS = 64 };

/* Of equal costs the first is taken. */
struct choice {
    uint8_t bits, group;
};
static const struct choice choices[] = {{2, 128}, {2, 64}, {2, 32}, {3, 128}, {3, 64},
                                        {3, 32}, {4, 128}, {4, 64}, {4, 32},  {8, 0}};
enum { N_CHOICES = sizeof choices / sizeof *choices };

static const struct choice int8 = {8, 0};

struct searcher {
    struct tft_model *m;
    const struct bits_search_opts *o;
    struct bits_search *r;
    struct tft_error bad;
    struct divergence d;
    struct choice choice[N_CHOICES]; /* [n_choices] what a matrix may have, 8 bits the last */
    uint32_t n_choices;
    struct choice measured;     /* that whose loss is measured */
    struct knapsack_item *item; /* [matrices] the model's matrices */
    size_t *place;              /* [matrices] their index in r->matrix */
    size_t n;
    float *rows;                /* [most rows, cols] a matrix as floats */
    uint8_t *panels;            /* the low-bit matrix */
    float *scale;
    int32_t *rowsum;
};

static bool failed(const struct searcher *z)
{
    return z->bad.code != TFT_OK || z->d.stopped;
}

static void fail_memory(struct searcher *z)
{
    if (!failed(z))
        tft_fail(&z->bad, TFT_ERR_NOMEM, "%s: out of memory to search the bits of its weights",
                 z->m->source.name);
}

static struct tft_mat *matrix(struct searcher *z, size_t i)
{
    struct tft_layer *b = &z->m->layer[z->place[i] / LAYER_MATS];
    return &layers_linear(b, (int)(z->place[i] % LAYER_MATS))->w;
}

/* ------------------------------------------------------------------------------------- rounding */

/* to: [n, cols] = n rows of w, spread evenly. */
static void take_rows(const struct searcher *z, const struct tft_mat *w, size_t n, float *to)
{
    for (size_t i = 0; i < n; i++)
        tft_mat_row(z->m, w, (uint32_t)(i * w->rows / n), to + i * w->cols);
}

/* Rounds z->rows: [rows, cols] to nearest. The caller closes q. */
static void round_rows(struct searcher *z, struct low_bits *q, size_t rows, size_t cols,
                       struct choice c)
{
    struct metric metric = {0};
    float *same = malloc(cols * sizeof *same);
    for (size_t k = 0; same && k < cols; k++)
        same[k] = 1;
    struct low_bits_how how = {
        .metric = &metric, .kern = &z->m->kern, .n_threads = divergence_threads(&z->d)};
    if (!low_bits_open(q, rows, cols, c.bits, c.group) || !same ||
        !metric_open(&metric, same, cols, false, NULL, c.group, how.kern, how.n_threads) ||
        !low_bits_round(q, z->rows, &how))
        fail_memory(z);
    metric_close(&metric);
    free(same);
}

/* The squared error of some rows. */
static double sample_error(struct searcher *z, const struct tft_mat *w, struct choice c)
{
    struct low_bits q = {0};
    int8_t row[TFT_PANEL_MAX_K];
    size_t n = w->rows < SAMPLE_ROWS ? w->rows : SAMPLE_ROWS;
    double sum = 0;
    take_rows(z, w, n, z->rows);
    round_rows(z, &q, n, w->cols, c);
    for (size_t i = 0; i < n && !failed(z); i++) {
        low_bits_int8(&q, i, row);
        for (size_t k = 0; k < w->cols; k++) {
            double e = (double)z->rows[i * w->cols + k] - (double)(row[k] * q.row_scale[i]);
            sum += e * e;
        }
    }
    low_bits_close(&q);
    return sum;
}

/* Makes the model compute with the fewest bits in this matrix. */
static void use_fewest(struct searcher *z, struct tft_mat *w)
{
    struct low_bits q = {0};
    const struct tft_format *format = tft_format_low(z->measured.bits, z->measured.group);
    size_t panel = tft_low_panel(format->low, tft_panel_cols(w->cols));
    take_rows(z, w, w->rows, z->rows);
    round_rows(z, &q, w->rows, w->cols, z->measured);
    for (size_t i = 0; i < tft_panel_rows(w->rows) && !failed(z); i += TFT_PANEL) {
        size_t rows = w->rows - i < TFT_PANEL ? w->rows - i : TFT_PANEL;
        pack_low_panel(z->panels + i / TFT_PANEL * panel, z->rowsum + i, format->low,
                       q.code + i * q.cols, q.cols, q.factors + i * q.groups, rows, q.cols);
        for (size_t r = 0; r < TFT_PANEL; r++)
            z->scale[i + r] = r < rows ? q.row_scale[i + r] : 1;
    }
    if (!failed(z)) {
        w->format = format;
        w->data = z->panels;
        w->scale = z->scale;
        w->rowsum = z->rowsum;
    }
    low_bits_close(&q);
}

/* ---------------------------------------------------------------------------------------- costs */

/* Loss of a model with its first matrix larger by one part in 4096. */
static double measure_floor(struct searcher *z)
{
    struct tft_mat *w = matrix(z, 0), whole = *w;
    for (size_t i = 0; i < tft_panel_rows(w->rows); i++)
        z->scale[i] = w->scale[i] * (1 + 0x1p-12f);
    w->scale = z->scale;
    double loss = divergence_measure(&z->d, quantize_float_cache(z->m->kv_text));
    *w = whole;
    return loss;
}

static void measure_matrix(struct searcher *z, size_t i)
{
    struct tft_mat *w = matrix(z, i), whole = *w;
    struct bits_found *found = &z->r->matrix[z->place[i]];
    double fewest = sample_error(z, w, z->measured);
    for (size_t c = 0; c + 1 < z->n_choices && !failed(z); c++)
        z->item[i].cost[c] = fewest > 0 ? sample_error(z, w, z->choice[c]) / fewest : 0;
    use_fewest(z, w);
    found->loss = divergence_measure(&z->d, quantize_float_cache(z->m->kv_text));
    *w = whole;
    /* a hundredth of the floor is noise */
    double cost = fmax(found->loss - z->r->floor, 0.01 * z->r->floor + 1e-12);
    for (size_t c = 0; c + 1 < z->n_choices; c++)
        z->item[i].cost[c] *= cost;
}

/* Bytes of codes, scales and zeros, or of int8. */
static size_t matrix_bytes(const struct tft_mat *w, struct choice c)
{
    size_t cols = tft_panel_cols(w->cols), panels = tft_panel_rows(w->rows) / TFT_PANEL;
    const struct tft_format *f = c.bits < 8 ? tft_format_low(c.bits, c.group) : NULL;
    return panels * (f ? tft_low_panel(f->low, cols) : TFT_PANEL * cols);
}

static void fill_bytes(struct searcher *z)
{
    for (size_t i = 0; i < z->n; i++) {
        z->item[i].n = z->n_choices;
        for (size_t c = 0; c < z->n_choices; c++)
            z->item[i].bytes[c] = matrix_bytes(matrix(z, i), z->choice[c]);
    }
}

/* --------------------------------------------------------------------------------------- budget */

/* The number of weights of the layers, and their bytes with 8 bits. */
static double weights(struct searcher *z, uint64_t *bytes)
{
    double n = 0;
    *bytes = 0;
    for (size_t i = 0; i < z->n; i++) {
        n += (double)matrix(z, i)->rows * matrix(z, i)->cols;
        *bytes += matrix_bytes(matrix(z, i), int8);
    }
    return n;
}

/* An upper bound of the bytes that only a low-bit file needs besides its weights: the description
   of its weights, a key with a number for each tensor, padding of matrices. */
static uint64_t more_than_eight(const struct searcher *z)
{
    const struct tft_source *s = &z->m->source;
    return 512 + 4 * (uint64_t)s->n_tensor + s->alignment * (uint64_t)z->n;
}

/* Bytes for the weights of the layers; 0 after a failure. */
static size_t budget(struct searcher *z)
{
    uint64_t eight, have;
    double n = weights(z, &eight);
    uint64_t rest = tft_source_bytes(&z->m->source) - eight + more_than_eight(z);
    size_t least = knapsack_least(z->item, z->n);
    char groups[32] = "";
    if (z->o->group)
        snprintf(groups, sizeof groups, " with groups of %u", z->o->group);
    if (z->o->bytes)
        have = z->o->bytes > rest ? z->o->bytes - rest : 0;
    else
        have = (uint64_t)fmin(z->o->bits * n / 8 + 1e-6, (double)eight);
    if (have < least && z->o->bytes)
        tft_fail(&z->bad, TFT_ERR_ARG,
                 "%s: takes at least %llu bytes%s, more than the budget of %llu",
                 z->m->source.name, (unsigned long long)(least + rest), groups,
                 (unsigned long long)z->o->bytes);
    else if (have < least)
        tft_fail(&z->bad, TFT_ERR_ARG,
                 "%s: a weight takes at least %.4g bits%s, more than the budget of %.4g",
                 z->m->source.name, (double)least * 8 / n, groups, z->o->bits);
    return failed(z) ? 0 : (size_t)(have < eight ? have : eight);
}

static void choose(struct searcher *z, size_t bytes)
{
    uint64_t eight;
    double taken = 0, n = weights(z, &eight);
    if (!knapsack_solve(z->item, z->n, bytes)) {
        fail_memory(z);
        return;
    }
    for (size_t i = 0; i < z->n; i++) {
        struct bits_found *found = &z->r->matrix[z->place[i]];
        uint32_t picked = z->item[i].picked;
        found->bits = z->choice[picked].bits;
        found->group = z->choice[picked].group;
        found->cost = z->item[i].cost[picked];
        taken += (double)z->item[i].bytes[z->item[i].picked];
    }
    z->r->bits = taken * 8 / n;
}

static void check(struct searcher *z)
{
    const struct tft_model *m = z->m;
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (int i = 0; i < LAYER_MATS; i++) {
            const struct tft_linear *linear = layers_linear(&m->layer[l], i);
            if (linear && linear->w.format != &tft_format_i8) {
                tft_fail(&z->bad, TFT_ERR_ARG, "%s: its layers do not have weights of 8 bits",
                         m->source.name);
                return;
            }
        }
}

static void search(struct searcher *z)
{
    check(z);
    if (failed(z))
        return;
    size_t bytes = budget(z);
    uint32_t windows = divergence_pick(&z->d, DIVERGENCE_OTHERS, MEASURED_TOKENS);
    z->d.total_work = windows * ((double)z->n + 2);
    divergence_refer(&z->d, quantize_float_cache(z->m->kv_text));
    z->r->floor = failed(z) ? 0 : measure_floor(z);
    for (size_t i = 0; i < z->n && !failed(z); i++)
        measure_matrix(z, i);
    if (!failed(z))
        choose(z, bytes);
}

/* -------------------------------------------------------------------------------------- opening */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Lists what matrices may have. */
static void list_choices(struct searcher *z)
{
    uint8_t group = (uint8_t)z->o->group;
    z->measured = (struct choice){2, group ? group : 64};
    for (size_t i = 0; i < N_CHOICES; i++)
        if (!group || choices[i].group == group || choices[i].bits == 8)
            z->choice[z->n_choices++] = choices[i];
}

static bool alloc_all(struct searcher *z)
{
    size_t all = (size_t)z->m->n_layer * LAYER_MATS, rows = 0, packed = 0;
    uint64_t numbers = 0;
    z->item = calloc(all, sizeof *z->item);
    z->place = calloc(all, sizeof *z->place);
    z->r->matrix = calloc(all, sizeof *z->r->matrix);
    z->r->n_layer = z->m->n_layer;
    z->r->group = z->o->group;
    if (!z->item || !z->place || !z->r->matrix)
        return false;
    for (size_t i = 0; i < all; i++) {
        z->r->matrix[i].bits = 8;
        if (!layers_linear(&z->m->layer[i / LAYER_MATS], (int)(i % LAYER_MATS)))
            continue;
        z->r->matrix[i].there = true;
        z->place[z->n] = i;
        const struct tft_mat *w = matrix(z, z->n++);
        rows = larger(rows, tft_panel_rows(w->rows));
        if (numbers < (uint64_t)w->rows * w->cols)
            numbers = (uint64_t)w->rows * w->cols;
        packed = larger(packed, matrix_bytes(w, z->measured));
    }
    z->rows = array_alloc(sizeof *z->rows, numbers, 1, 1);
    z->panels = tft_port_alloc(packed, 64);
    z->scale = malloc(rows * sizeof *z->scale);
    z->rowsum = malloc(rows * sizeof *z->rowsum);
    return z->rows && z->panels && z->scale && z->rowsum;
}

static void prepare(struct searcher *z)
{
    const struct bits_search_opts *o = z->o;
    list_choices(z);
    divergence_open(&z->d, z->m,
                    &(struct divergence_opts){.text = o->text,
                                              .n_windows = o->n_windows,
                                              .window = o->window,
                                              .n_threads = o->n_threads,
                                              .progress = o->progress,
                                              .user = o->user},
                    &z->bad);
    if (!failed(z) && z->m->n_expert)
        tft_fail(&z->bad, TFT_ERR_UNSUPPORTED,
                 "%s: --bits-search does not support mixtures of experts", z->m->source.name);
    if (!failed(z) && z->m->n_round)
        tft_fail(&z->bad, TFT_ERR_UNSUPPORTED,
                 "%s: --bits-search does not support layers that run several times",
                 z->m->source.name);
    if (!failed(z) && z->o->n_windows < 2)
        tft_fail(&z->bad, TFT_ERR_ARG,
                 "%s: a search needs at least two windows of text, one to measure and one held out",
                 z->m->source.name);
    if (!failed(z) && !alloc_all(z))
        fail_memory(z);
    if (!failed(z))
        fill_bytes(z);
}

void bits_search_free(struct bits_search *r)
{
    free(r->matrix);
    *r = (struct bits_search){0};
}

static enum tft_status finish(struct searcher *z, struct tft_error *err)
{
    if (failed(z))
        bits_search_free(z->r);
    free(z->item);
    free(z->place);
    free(z->rows);
    tft_port_free(z->panels);
    free(z->scale);
    free(z->rowsum);
    divergence_close(&z->d);
    if (z->bad.code != TFT_OK && err)
        *err = z->bad;
    return z->bad.code;
}

enum tft_status bits_search_check(struct tft_model *m, const struct bits_search_opts *o,
                                  struct tft_error *err)
{
    struct bits_search none = {0};
    struct searcher z = {.m = m, .o = o, .r = &none};
    prepare(&z);
    if (!failed(&z) && !o->bytes)
        budget(&z);
    enum tft_status status = finish(&z, err);
    bits_search_free(&none);
    return status;
}

enum tft_status bits_search(struct tft_model *m, const struct bits_search_opts *o,
                            struct bits_search *r, bool *stopped, struct tft_error *err)
{
    struct searcher z = {.m = m, .o = o, .r = r};
    *r = (struct bits_search){0};
    prepare(&z);
    if (!failed(&z))
        search(&z);
    *stopped = z.d.stopped;
    return finish(&z, err);
}

/* ----------------------------------------------------------------------------------------- text */

static bool append(char *text, size_t size, const char *part)
{
    size_t n = strlen(text);
    return (size_t)snprintf(text + n, size - n, "%s", part) < size - n;
}

static bool is_same(const struct bits_found *a, const struct bits_found *b)
{
    return a->bits == b->bits && a->group == b->group;
}

/* A matrix with the most frequent bits and group. */
static const struct bits_found *usual_of(const struct bits_search *r)
{
    size_t n = (size_t)r->n_layer * LAYER_MATS, most = 0;
    const struct bits_found *usual = &r->matrix[0];
    for (size_t i = 0; i < n; i++) {
        size_t count = 0;
        for (size_t k = i; k < n && r->matrix[i].there; k++)
            count += r->matrix[k].there && is_same(&r->matrix[i], &r->matrix[k]);
        if (count > most) {
            most = count;
            usual = &r->matrix[i];
        }
    }
    return usual;
}

/* "4", or "4g64" if groups were chosen. */
static int print_bits(char *to, size_t size, const struct bits_search *r,
                      const struct bits_found *found)
{
    if (r->group || found->bits == 8)
        return snprintf(to, size, "%u", found->bits);
    return snprintf(to, size, "%ug%u", found->bits, found->group);
}

bool bits_search_text(const struct bits_search *r, char *text, size_t size)
{
    char part[64];
    const struct bits_found *usual = usual_of(r);
    bool fits = (size_t)print_bits(text, size, r, usual) < size;
    for (uint32_t i = 0; i < LAYER_MATS; i++)
        for (uint32_t l = 0, end; l < r->n_layer; l = end) {
            const struct bits_found *found = &r->matrix[l * LAYER_MATS + i];
            for (end = l + 1;
                 end < r->n_layer && is_same(&r->matrix[end * LAYER_MATS + i], found);)
                end++;
            if (is_same(found, usual) || !found->there)
                continue;
            int n = snprintf(part, sizeof part, ",%u", l);
            if (end > l + 1)
                n += snprintf(part + n, sizeof part - (size_t)n, "-%u", end - 1);
            n += snprintf(part + n, sizeof part - (size_t)n, ".%s=",
                          quantize_matrix_name((int)i));
            print_bits(part + n, sizeof part - (size_t)n, r, found);
            fits = fits && append(text, size, part);
        }
    return fits;
}
