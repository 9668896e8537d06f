#include "tools/quantize/convert/few_bits.h"

#include <math.h>
#include <stdlib.h>

#include "model/parts.h"
#include "simd/half.h"
#include "tools/quantize/array.h"
#include "tools/quantize/blocks/mix.h"
#include "tools/quantize/convert/runs.h"
#include "tools/quantize/round/correct.h"
#include "tools/quantize/round/grid.h"
#include "tools/quantize/round/keep_codes.h"

static bool round_progress(void *user, double done)
{
    struct conversion *c = user;
    return conversion_step(c, (c->now + done) / LAYER_MATS);
}

/* Maps columns of the matrices to channels of the moments: values are reordered. map: [width]; NULL
   if memory is short */
static uint32_t *channel_map(const struct conversion *c, const struct tft_layer *b, uint32_t which)
{
    size_t n = quantize_input_width(c->m, b, which), dim = c->m->head_dim;
    bool values = which == TFT_IN_O && b->mixer == TFT_MIX_ATTENTION;
    const int32_t *order = values ? c->kv.value_order : NULL;
    uint32_t *map = malloc(n * sizeof *map), shared = c->m->n_head / c->m->n_head_kv;
    for (size_t k = 0; map && k < n; k++)
        map[k] = (uint32_t)(order ? k / dim * dim + (size_t)order[k / dim / shared * dim + k % dim]
                                  : k);
    return map;
}

/* Whether the rows of the input are the same tokens in the float model, where other experts may
   have been chosen. */
static bool has_gap(const struct conversion *c, const struct tft_layer *b, uint32_t which)
{
    return c->moments.correlated && !(tft_layer_has_experts(b) && which == TFT_IN_DOWN);
}

/* Whether the product of the matrix that reads the input is added to the residual stream as it is,
   and nothing else changes the stream. */
static bool adds_to_stream(const struct conversion *c, const struct tft_layer *b, uint32_t which)
{
    const struct tft_model *m = c->m;
    return moments_has_stream(&c->moments, which) && !tft_model_adds_y(m) && !m->altup.n &&
           !m->layer_embed.n && !b->side_out.w.rows && !tft_layer_has_experts(b) &&
           !(m->parts & (TFT_BIT(TFT_PART_NO_PRE_NORM) | TFT_BIT(TFT_PART_RWKV)));
}

/* Makes up for the errors of matrices before. The layer's difference at its end, which ffn_down
   makes up for, includes that of its input. */
static bool correct_matrix(const struct conversion *c, const struct tft_layer *b, uint32_t which,
                           float *w, size_t rows, const struct metric *metric)
{
    bool stream = adds_to_stream(c, b, which);
    struct correct_for f = {stream && which == TFT_IN_DOWN ? NULL : c->moments.gap[which],
                            stream ? c->moments.stream[which] : NULL};
    return !has_gap(c, b, which) ||
           correct_weights(w, rows, metric, &f, &c->m->kern, c->y.n_threads);
}

/* Whether the loaded weights w are the numbers of their tensor, finite in f16. */
static bool is_as_stored(const struct tft_tensor *t, const float *w, float *row)
{
    size_t cols = (size_t)t->ne[0], rows = (size_t)(t->ne[1] * t->ne[2] * t->ne[3]),
           bytes = (size_t)(t->bytes / rows);
    for (size_t r = 0; r < rows; r++) {
        tft_dtype_info(t->type)->to_f32(row, t->data + r * bytes, cols);
        for (size_t k = 0; k < cols; k++)
            if (!(fabsf(row[k]) <= TFT_F16_MAX) || row[k] != w[r * cols + k])
                return false;
    }
    return true;
}

/* Rounds a matrix to blocks. One that differs from its tensor, as a part of it, is left to
   plain.c. False if memory is short, or if it was stopped. */
static bool round_to_blocks(struct conversion *c, const struct tft_layer *b, uint32_t which,
                            const struct tft_linear *l, const struct tft_tensor *t,
                            const struct metric *metric)
{
    struct grid_how how = {metric, &c->m->kern, c->y.n_threads, round_progress, c};
    enum tft_dtype type = mix_type(c->o->blocks->mix, &c->m->source, t);
    size_t rows = tft_mat_all_rows(&l->w), cols = l->w.cols;
    float *w = layers_weights(l), *row = malloc(cols * sizeof *row);
    uint64_t bytes = 0;
    tft_dtype_bytes(type, cols, &bytes);
    unsigned char *to = array_alloc((size_t)bytes, rows, 1, 1);
    bool ok = row && to, fits = ok && is_as_stored(t, w, row);
    if (fits)
        ok = correct_matrix(c, b, which, w, rows, metric) && grid_round(to, type, w, rows, &how);
    if (fits && ok)
        c->o->blocks->of[t - c->m->source.tensor] = to;
    else
        free(to);
    free(row);
    return ok;
}

/* Rounds a matrix to codes. from: as the file has it. False as above. */
static bool round_to_codes(struct conversion *c, const struct tft_layer *b, uint32_t which,
                           const struct tft_linear *l, struct low_bits *q,
                           const struct tft_mat *from, const struct low_bits_how *how)
{
    float *w = layers_weights(l);
    uint32_t bits = quantize_bits(c->o, c->layers_done, c->now),
             group = quantize_group(c->o, c->layers_done, c->now);
    return low_bits_open(q, tft_mat_all_rows(&l->w), l->w.cols, bits, group) &&
           (keep_codes(q, from, w, how->n_threads) ||
            (correct_matrix(c, b, which, w, q->rows, how->metric) && low_bits_round(q, w, how)));
}

/* The metric of an input for matrices in groups of `group`, in place of an older one. */
static bool open_metric(const struct conversion *c, const struct tft_layer *b, uint32_t which,
                        struct metric *metric, const uint32_t *map, uint32_t group)
{
    metric_close(metric);
    return metric_open(metric, c->moments.h[which], quantize_input_width(c->m, b, which),
                       c->moments.correlated, map, group, &c->m->kern, c->y.n_threads);
}

/* Whether the input had no NaN and no infinity. A weight may be NaN, a key too large for f16. */
static bool has_numbers(const struct conversion *c, const struct tft_layer *b, uint32_t which)
{
    size_t n = quantize_input_width(c->m, b, which);
    for (size_t k = 0; k < n; k++)
        if (!isfinite(c->moments.h[which][k * n + k]))
            return false;
    return true;
}

/* Rounds the matrices that read input `which`. If the input is not finite, blocks of a plain file
   are not rounded here: plain.c rounds them to nearest, or refuses a weight that is NaN. */
static void round_readers(struct conversion *c, struct tft_layer *b, uint32_t which)
{
    struct metric metric = {0};
    struct low_bits_how how = {.metric = &metric,
                               .kern = &c->m->kern,
                               .n_threads = c->y.n_threads,
                               .progress = round_progress,
                               .user = c};
    if (c->o->blocks && !has_numbers(c, b, which))
        return;
    uint32_t *map = channel_map(c, b, which);
    if (!map)
        conversion_fail_memory(c);
    for (int i = 0; i < LAYER_MATS && !conversion_failed(c); i++) {
        struct tft_linear *l = layers_linear(b, i);
        struct low_bits *q = &conversion_rounded(c, c->layers_done)[i];
        uint32_t bits = quantize_bits(c->o, c->layers_done, i),
                 group = quantize_group(c->o, c->layers_done, i);
        if (!l || bits == 8 || quantize_matrix_input(b, i) != which)
            continue;
        c->now = i;
        if (metric.group != group && !open_metric(c, b, which, &metric, map, group)) {
            conversion_fail_memory(c);
            break;
        }
        const struct tft_mat *from = &layers_linear(&c->y.original, i)->w;
        if (!(c->o->blocks ? round_to_blocks(c, b, which, l, from->tensor, &metric)
                           : round_to_codes(c, b, which, l, q, from, &how)))
            conversion_fail_memory(c);
    }
    metric_close(&metric);
    free(map);
}

/* Makes the loaded layer compute with the weights that are rounded so far. */
static void use_rounded(struct conversion *c, uint32_t l)
{
    struct tft_layer *b = &c->m->layer[l];
    int8_t row[TFT_PANEL_MAX_K];
    for (int i = 0; i < LAYER_MATS; i++) {
        struct low_bits *q = &conversion_rounded(c, l)[i];
        for (size_t r = 0; r < q->rows; r++) {
            float *to = layers_weights(layers_linear(b, i)) + r * q->cols;
            low_bits_int8(q, r, row);
            for (size_t k = 0; k < q->cols; k++)
                to[k] = (float)row[k] * q->row_scale[r];
        }
    }
    fold_undo(&c->fold, b);
}

/* Measures the next input of `left` with the errors of the matrices before it. */
static void measure_again(struct conversion *c, uint32_t l, uint32_t left)
{
    struct tft_layer *b = &c->m->layer[l];
    use_rounded(c, l);
    runs_moments(c, l, left);
    input_stats_clear(&c->stats);
    fold_rotate(&c->fold, b);
    fold_scale(&c->fold, b);
    c->steps++;
}

void few_bits_round(struct conversion *c, uint32_t l)
{
    struct tft_layer *b = &c->m->layer[l];
    uint32_t all = runs_to_round(c, b), left = all;
    for (uint32_t which = 0; which < TFT_INPUT_KINDS && !conversion_failed(c); which++) {
        if (!(left >> which & 1))
            continue;
        if (c->moments.correlated && left != all)
            measure_again(c, l, left);
        if (!conversion_failed(c))
            round_readers(c, b, which);
        left &= left - 1;
        c->steps += c->moments.correlated || !left;
    }
}

void few_bits_run(struct conversion *c, uint32_t l)
{
    use_rounded(c, l);
    for (int i = 0; i < LAYER_MATS && !c->m->n_round; i++) /* later rounds use them again */
        low_bits_close(&conversion_rounded(c, l)[i]);
    layers_run_text(&c->y, l, false);
    if (!conversion_failed(c))
        runs_finish_inputs(c, l);
}
