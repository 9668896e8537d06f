#include "tools/quantize/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/parts.h"
#include "port/port.h"
#include "simd/half.h"
#include "tools/quantize/array.h"
#include "tools/quantize/blocks/blocks.h"
#include "tools/quantize/blocks/mix.h"
#include "tools/quantize/fold.h"
#include "tools/quantize/measure/input_stats.h"
#include "tools/quantize/measure/key_importance.h"
#include "tools/quantize/measure/kv_calibrate.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/measure/moments.h"
#include "tools/quantize/round/awq.h"
#include "tools/quantize/round/correct.h"
#include "tools/quantize/round/grid.h"
#include "tools/quantize/round/keep_codes.h"
#include "tools/quantize/round/low_bits.h"
#include "tools/quantize/round/prefix_pack.h"
#include "tools/quantize/round/smooth.h"
#include "tools/quantize/write/write_model.h"

struct conversion {
    struct tft_model *m;
    const struct quantize_opts *o;
    struct quantize_input *result;
    struct layers y;
    struct input_stats stats;
    struct key_importance importance;
    struct kv_calibration kv;
    struct model_writer file;
    bool stopped;
    uint32_t layers_done;
    uint32_t steps; /* finished steps of the current layer: runs over the text, AWQ, rounding */
    bool measuring; /* the KV cache is calibrated from the current run */
    struct tft_error bad; /* the first failure */

    struct fold fold; /* of the current layer; SmoothQuant or AWQ choose its factors */
    float *w_max, *x_max; /* [D] largest weight and input of each channel */
    uint16_t *prefix_k, *prefix_v; /* [n_kv_layer, n_prefix, G, E] */

    /* if weights have fewer than 8 bits; else zeros */
    bool low_bits;
    struct moments moments;
    struct low_bits *rounded; /* [LAYER_MATS] of the current layer, or [n_round, LAYER_MATS] of all
                                 layers with weights of their own; no rows: 8 bits */
    float *exact; /* [n_windows, window, stride] the float model's residual stream, if rounding or
                     o->outputs needs it: the stream in `y` went through rounded layers */
    struct shared_kv exact_shared; /* its keys and values */
    float *floats;   /* the current layer's weights before rounding; NULL: they are not kept */
    uint32_t stages; /* runs of the text through the current layer before all weights are rounded */
    bool advances;   /* the float model's stream goes on in the current run */
    int now;      /* the matrix being rounded; the input, while AWQ scales it */
};

static bool failed(const struct conversion *c) { return c->bad.code != TFT_OK || c->stopped; }

/* Whether no earlier layer has the weights of layer l. */
static bool has_own_weights(const struct tft_model *m, uint32_t l)
{
    return !m->n_round || l < m->n_round;
}

/* The matrices of layer l: [LAYER_MATS]; NULL: all have 8 bits. */
static struct low_bits *rounded_of(const struct conversion *c, uint32_t l)
{
    uint32_t at = c->m->n_round ? l % c->m->n_round * LAYER_MATS : 0;
    return c->rounded ? c->rounded + at : NULL;
}

/* Whether the layer has keys and values of earlier tokens. */
static bool has_cache(const struct conversion *c, const struct tft_layer *b)
{
    return !c->m->encoder && tft_layer_has_kv(b);
}

/* ------------------------------------------------------------------------------------ smoothing */

/* Chooses the smoothing factors of a norm's output. */
static void smooth_input(struct conversion *c, struct tft_layer *b, uint32_t which)
{
    struct tft_linear *l[LAYER_READERS];
    size_t n = layers_readers(b, which, l), d = c->m->n_embd;
    if (!n) /* the block lacks this half */
        return;
    memset(c->w_max, 0, d * sizeof *c->w_max);
    for (size_t i = 0; i < n; i++)
        smooth_columns_max(c->w_max, layers_weights(l[i]), d, l[i]->w.rows, d);
    histogram_absmax(input_stats_of(&c->stats, which), c->x_max);
    smooth_factors(c->fold.factor[which], c->x_max, c->w_max, d, c->o->smooth);
}

/* Runs the layer once without smoothing, to choose the factors. */
static void choose_smooth(struct conversion *c, struct tft_layer *b, uint32_t l)
{
    if (c->o->smooth == 0)
        return;
    c->stats.untransformed = true;
    layers_run(&c->y, l, true);
    c->stats.untransformed = false;
    c->steps++;
    smooth_input(c, b, TFT_IN_ATTN);
    smooth_input(c, b, TFT_IN_FFN);
    input_stats_clear(&c->stats);
}

/* Location of the prefix's keys and values of layer l, which has its own. */
static size_t prefix_at(const struct conversion *c, uint32_t l)
{
    return c->o->n_prefix * tft_model_kv_before(c->m, c->m->layer[l].kv_layer);
}

/* Copies the layer's keys and values of the prefix, the values as the rotated and scaled weights
   make them. */
static void copy_prefix(struct conversion *c, uint32_t l)
{
    size_t at = prefix_at(c, l);
    layers_prefix_kv(&c->y, l, c->prefix_k + at, c->prefix_v + at);
    fold_prefix(&c->fold, c->prefix_v + at, c->o->n_prefix, c->m->layer[l].kv_layer);
}

/* ----------------------------------------------------------------------------------- measuring */

static void progress(struct conversion *c, double done)
{
    if (c->o->progress && !c->o->progress(c->o->user, done))
        c->stopped = true;
}

/* Whether AWQ chooses factors. */
static bool scales_moments(const struct conversion *c)
{
    return c->low_bits && c->o->rounding == QUANTIZE_AWQ;
}

/* done: 0..1 of the current step of the layer. The head has one step. */
static bool step_progress(struct conversion *c, double done)
{
    double steps = c->layers_done == c->m->n_layer
                       ? 1
                       : 1 + (c->o->smooth > 0) + 2 * c->low_bits * c->stages + scales_moments(c);
    progress(c, (c->layers_done + (c->steps + done) / steps) / (c->m->n_layer + 1.0));
    return !c->stopped;
}

/* After each window. */
static bool on_window(void *user, double done)
{
    struct conversion *c = user;
    const struct tft_layer *b = &c->m->layer[c->layers_done];
    if (c->measuring && !c->m->encoder && b->mixer == TFT_MIX_ATTENTION)
        key_importance_add(&c->importance, c->y.s, c->layers_done, c->o->window);
    if (c->measuring && has_cache(c, b))
        kv_calibrate_add(&c->kv, c->y.s, b->kv_layer);
    if (c->stats.moments && moments_has_stream(&c->moments, TFT_IN_DOWN))
        moments_put_stream(&c->moments, TFT_IN_DOWN, c->y.work->buf[TFT_X], c->y.stride);
    if (c->stats.moments)
        moments_add(c->stats.moments);
    return step_progress(c, done);
}

/* Before a window: the float model's stream goes through the layer, too. */
static void run_exact(void *user, size_t i)
{
    struct conversion *c = user;
    const struct tft_layer *b = &c->m->layer[c->layers_done];
    size_t n = c->o->window * c->y.stride;
    float *x = c->exact + i * n;
    if (moments_has_stream(&c->moments, TFT_IN_O)) {
        moments_put_exact_stream(&c->moments, TFT_IN_O, x, c->y.stride);
        moments_put_stream(&c->moments, TFT_IN_O, c->y.text + i * n, c->y.stride);
    }
    if (!c->advances)
        x = memcpy(c->y.work->buf[TFT_X], x, n * sizeof *x);
    if (!c->m->encoder)
        shared_kv_restore(&c->exact_shared, &c->y.s->kv, b, i);
    c->stats.exact = true;
    if (c->floats)
        layers_swap(&c->y, c->layers_done, &c->floats);
    layers_run_pass(&c->y, &(struct layers_pass){.part = LAYERS_LAYER,
                                                 .x = x,
                                                 .tokens = c->o->text + i * c->o->window,
                                                 .n = c->o->window,
                                                 .pos = c->o->n_prefix,
                                                 .layer = c->layers_done});
    if (c->floats)
        layers_swap(&c->y, c->layers_done, &c->floats);
    c->stats.exact = false;
    if (!c->m->encoder)
        shared_kv_keep(&c->exact_shared, &c->y.s->kv, b, i);
    if (moments_has_stream(&c->moments, TFT_IN_DOWN))
        moments_put_exact_stream(&c->moments, TFT_IN_DOWN, x, c->y.stride);
}

static void finish_input(struct conversion *c, uint32_t index)
{
    c->result[index] = (struct quantize_input){0};
    if (!c->o->blocks) /* which have no ranges, and leave numbers that are none to plain.c */
        input_stats_finish(&c->stats, index, &c->result[index], &c->bad);
}

/* Inputs of matrices that get few bits, as bits (1 << which). */
static uint32_t inputs_to_round(const struct conversion *c, struct tft_layer *b)
{
    uint32_t inputs = 0;
    if (!has_own_weights(c->m, c->layers_done))
        return 0;
    for (int i = 0; i < LAYER_MATS; i++)
        if (layers_linear(b, i) && quantize_bits(c->o, c->layers_done, i) < 8)
            inputs |= 1u << quantize_matrix_input(b, i);
    return inputs;
}

/* With correlations, one input after another is measured, with the errors of the matrices before
   it, and its matrices are rounded. */
static uint32_t stages_of(const struct conversion *c, struct tft_layer *b)
{
    uint32_t n = 1;
    for (uint32_t left = inputs_to_round(c, b); c->moments.correlated && (left &= left - 1);)
        n++;
    return n;
}

/* Sums the moments of the next input of `left` in a run of the text through the layer; without
   correlations, of all of them. */
static void run_moments(struct conversion *c, uint32_t l, uint32_t left)
{
    uint32_t next = c->moments.correlated ? left & -left : left;
    c->stats.moments = &c->moments;
    moments_begin(&c->moments, &c->m->layer[l], next);
    c->advances = next == left;
    c->y.before_window = c->exact ? run_exact : NULL;
    layers_run_text(&c->y, l, true);
    c->y.before_window = NULL;
    c->stats.moments = NULL;
}

/* Runs the text through the layer, to count its inputs. If weights will be rounded to few bits,
   this only measures: the text goes on after the rounding. The prefix always goes on in floats, as
   its keys and values are the float model's (IntactKV, section 3). */
static void measure(struct conversion *c, uint32_t l)
{
    c->measuring = true;
    layers_run_prefix(&c->y, l, false);
    if (c->low_bits)
        run_moments(c, l, inputs_to_round(c, &c->m->layer[l]));
    else
        layers_run_text(&c->y, l, false);
    c->measuring = false;
    c->steps++;
}

/* Calls o->outputs with the float model's residual stream. */
static void give_outputs(struct conversion *c, uint32_t l)
{
    if (c->o->outputs)
        c->o->outputs(c->o->outputs_user, l, c->exact ? c->exact : c->y.text, c->y.stride);
}

static void finish_inputs(struct conversion *c, uint32_t l)
{
    for (uint32_t i = 0; i < TFT_INPUT_KINDS && !failed(c); i++)
        if (tft_model_has_input(c->m, i))
            finish_input(c, tft_input_index(c->m, l, i));
    input_stats_clear(&c->stats);
}

/* ----------------------------------------------------------------------------------------- AWQ */

static bool awq_progress(void *user, double done)
{
    struct conversion *c = user;
    return step_progress(c, (c->now + done) / TFT_INPUT_KINDS);
}

static void fail_memory(struct conversion *c)
{
    if (!failed(c))
        tft_fail(&c->bad, TFT_ERR_NOMEM, "%s: out of memory to round the weights of layer %u",
                 c->m->source.name, c->layers_done);
}

/* Whether the producer of the input can be divided: a norm, if there is one. Values keep their
   sizes if the KV cache is calibrated for them. ffn_down's input is up times another number,
   channel by channel, if there is a gate; rotation mixes the channels. */
static bool can_scale(const struct conversion *c, const struct tft_layer *b, uint32_t which)
{
    if (b->in[which].norm) /* a norm lies between the divided rows and the input */
        return false;
    if (which == TFT_IN_O)
        return b->mixer == TFT_MIX_ATTENTION && b->v.w.rows && !b->v_norm.w &&
               !(c->m->qkv_bound > 0) && !(c->m->parts & TFT_BIT(TFT_PART_SHORT_VALUES)) &&
               !c->kv.value_order && !c->kv.alpha[1];
    if (which == TFT_IN_ATTN)
        return b->attn_norm.w && !b->altup.left.w.rows; /* which reads the same norm */
    if (tft_layer_has_experts(b)) /* the router reads the same norm */
        return false;
    if (which == TFT_IN_FFN)
        return b->ffn_norm.w;
    if (which == TFT_IN_DOWN)
        return b->gate.w.rows && !b->up.bias && !quantize_down_block(c->m, c->o);
    return which != TFT_IN_SHARED; /* Mamba-2 makes it */
}

/* The KV head's channel from which channel k of attention's output is mixed. */
static size_t value_channel(const struct tft_model *m, size_t k)
{
    size_t shared = m->n_head / m->n_head_kv;
    return k / m->head_dim / shared * m->head_dim + k % m->head_dim;
}

/* size: [width] = the moments; for attention's output, summed over the heads that share a value.
   The values' factors are scratch. */
static void input_sizes(struct conversion *c, const struct tft_layer *b, uint32_t which,
                        float *size)
{
    size_t n = quantize_input_width(c->m, b, which);
    memcpy(size, c->moments.h[which], n * sizeof *size);
    if (which != TFT_IN_O)
        return;
    memset(c->fold.values, 0,
           (size_t)c->m->n_head_kv * c->m->head_dim * sizeof *c->fold.values);
    for (size_t k = 0; k < n; k++)
        c->fold.values[value_channel(c->m, k)] += size[k];
    for (size_t k = 0; k < n; k++)
        size[k] = c->fold.values[value_channel(c->m, k)];
}

/* Chooses the factors of an input, and divides its moments by their squares. size: [width] scratch
 */
static void scale_input(struct conversion *c, struct tft_layer *b, uint32_t which, float *size)
{
    struct awq_how how = {.kern = &c->m->kern,
                          .n_threads = c->y.n_threads,
                          .progress = awq_progress,
                          .user = c};
    float *moment = c->moments.h[which], *factor = c->fold.factor[which];
    struct awq_input x = {
        .n = quantize_input_width(c->m, b, which), .moment = moment, .size = size};
    for (int i = 0; i < LAYER_MATS; i++) {
        const struct tft_linear *l = layers_linear(b, i);
        uint32_t bits = quantize_bits(c->o, c->layers_done, i);
        if (l && bits < 8 && quantize_matrix_input(b, i) == which)
            x.reader[x.n_readers++] =
                (struct awq_matrix){layers_weights(l), l->w.rows, bits,
                                    quantize_group(c->o, c->layers_done, i)};
    }
    input_sizes(c, b, which, size);
    c->now = (int)which;
    if (!awq_choose(factor, &x, &how))
        fail_memory(c);
    for (size_t k = 0; k < x.n; k++)
        moment[k] /= factor[k] * factor[k];
}

/* Chooses the factors of all inputs, from moments and weights that are rotated already. */
static void choose_awq(struct conversion *c, struct tft_layer *b)
{
    size_t widest = 0;
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++)
        if (quantize_input_width(c->m, b, i) > widest)
            widest = quantize_input_width(c->m, b, i);
    float *size = malloc(widest * sizeof *size);
    if (!size)
        fail_memory(c);
    for (uint32_t i = 0; i < TFT_INPUT_KINDS && !failed(c); i++)
        if (c->moments.h[i] && can_scale(c, b, i))
            scale_input(c, b, i, size);
    size_t heads = b->mixer == TFT_MIX_ATTENTION ? quantize_input_width(c->m, b, TFT_IN_O) : 0;
    for (size_t k = 0; k < heads; k++)
        c->fold.values[value_channel(c->m, k)] = c->fold.factor[TFT_IN_O][k];
    free(size);
    c->steps++;
}

/* -------------------------------------------------------------------------------------- a layer */

/* Copies the weights, for the float model's stream after some of them are rounded. */
static void keep_floats(struct conversion *c)
{
    size_t bytes = c->y.n_weights * sizeof *c->floats;
    c->floats = tft_port_alloc(bytes, 64);
    if (c->floats)
        memcpy(c->floats, c->y.weights, bytes);
    else
        fail_memory(c);
}

/* Data of the file for the cache of layer l. */
static void finish_cache(struct conversion *c, uint32_t l)
{
    size_t at = prefix_at(c, l);
    copy_prefix(c, l);
    kv_calibrate_finish(&c->kv, c->m->layer[l].kv_layer, c->prefix_k + at, c->prefix_v + at);
    fold_prefix_order(&c->fold, c->prefix_v + at, c->o->n_prefix, c->m->layer[l].kv_layer);
}

/* All work on layer l before its weights are rounded. */
static void prepare_layer(struct conversion *c, uint32_t l)
{
    struct tft_layer *b = &c->m->layer[l];
    c->stages = stages_of(c, b);
    fold_reset(&c->fold);
    input_stats_begin(&c->stats, b);
    layers_load(&c->y, l);
    if (!c->o->blocks) /* where blocks_fit checks each matrix */
        write_check(&c->file, l);
    if (!failed(c))
        layers_rotate(&c->y, l);
    if (!failed(c))
        choose_smooth(c, b, l);
    if (!failed(c))
        measure(c, l);
    if (!failed(c))
        finish_inputs(c, l);
    if (!failed(c) && c->stages > 1)
        keep_floats(c);
    if (failed(c))
        return;
    fold_rotate(&c->fold, b);
    if (scales_moments(c))
        choose_awq(c, b);
    if (failed(c))
        return;
    if (has_cache(c, b))
        finish_cache(c, l);
    fold_scale(&c->fold, b);
    if (c->o->values)
        fold_keep(&c->fold, c->o->values, l);
}

/* ------------------------------------------------------------------------------------- few bits */

static bool round_progress(void *user, double done)
{
    struct conversion *c = user;
    return step_progress(c, (c->now + done) / LAYER_MATS);
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

/* Whether the input had numbers only: weights may be NaN, and keys beyond f16. */
static bool has_numbers(const struct conversion *c, const struct tft_layer *b, uint32_t which)
{
    size_t n = quantize_input_width(c->m, b, which);
    for (size_t k = 0; k < n; k++)
        if (!isfinite(c->moments.h[which][k * n + k]))
            return false;
    return true;
}

/* Rounds the matrices that read input `which`. Blocks that cannot be are left to plain.c. */
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
        fail_memory(c);
    for (int i = 0; i < LAYER_MATS && !failed(c); i++) {
        struct tft_linear *l = layers_linear(b, i);
        struct low_bits *q = &rounded_of(c, c->layers_done)[i];
        uint32_t bits = quantize_bits(c->o, c->layers_done, i),
                 group = quantize_group(c->o, c->layers_done, i);
        if (!l || bits == 8 || quantize_matrix_input(b, i) != which)
            continue;
        c->now = i;
        if (metric.group != group && !open_metric(c, b, which, &metric, map, group)) {
            fail_memory(c);
            break;
        }
        const struct tft_mat *from = &layers_linear(&c->y.original, i)->w;
        if (!(c->o->blocks ? round_to_blocks(c, b, which, l, from->tensor, &metric)
                           : round_to_codes(c, b, which, l, q, from, &how)))
            fail_memory(c);
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
        struct low_bits *q = &rounded_of(c, l)[i];
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
    run_moments(c, l, left);
    input_stats_clear(&c->stats);
    fold_rotate(&c->fold, b);
    fold_scale(&c->fold, b);
    c->steps++;
}

/* Rounds the layer's matrices that have few bits. */
static void round_layer(struct conversion *c, uint32_t l)
{
    struct tft_layer *b = &c->m->layer[l];
    uint32_t all = inputs_to_round(c, b), left = all;
    for (uint32_t which = 0; which < TFT_INPUT_KINDS && !failed(c); which++) {
        if (!(left >> which & 1))
            continue;
        if (c->moments.correlated && left != all)
            measure_again(c, l, left);
        if (!failed(c))
            round_readers(c, b, which);
        left &= left - 1;
        c->steps += c->moments.correlated || !left;
    }
}

/* The text goes on through the rounded layer; the layer's inputs give the ranges. */
static void run_rounded(struct conversion *c, uint32_t l)
{
    use_rounded(c, l);
    for (int i = 0; i < LAYER_MATS && !c->m->n_round; i++) /* later rounds use them again */
        low_bits_close(&rounded_of(c, l)[i]);
    layers_run_text(&c->y, l, false);
    if (!failed(c))
        finish_inputs(c, l);
}

static void put_layer(struct conversion *c, uint32_t l)
{
    bool data = c->file.pass == WRITE_DATA;
    const struct write_factors factors = {c->fold.factor[TFT_IN_ATTN], c->fold.factor[TFT_IN_FFN],
                                          c->fold.values};
    if (data)
        prepare_layer(c, l);
    if (data && !failed(c) && c->low_bits && has_own_weights(c->m, l))
        round_layer(c, l);
    if (data && !failed(c))
        give_outputs(c, l);
    if (!failed(c) && has_own_weights(c->m, l))
        write_layer(&c->file, l, &factors, rounded_of(c, l));
    if (!data)
        return;
    if (!failed(c) && c->low_bits)
        run_rounded(c, l);
    layers_unload(&c->y, l);
    tft_port_free(c->floats);
    c->floats = NULL;
    c->layers_done++;
    c->steps = 0;
}

static void put_head(struct conversion *c)
{
    if (c->file.pass == WRITE_DATA) {
        c->stats.untransformed = true; /* the head's input is neither smoothed nor rotated */
        input_stats_begin(&c->stats, NULL); /* the last layer may lack a half */
        layers_run_head(&c->y);
        if (!failed(c))
            finish_input(c, c->m->n_layer * TFT_LAYER_INPUTS);
    }
    if (!failed(c))
        write_head(&c->file);
}

/* ------------------------------------------------------------------------------------ the whole */

/* The last pass makes the layers, too. */
static void put_tensors(struct conversion *c, enum write_pass pass)
{
    write_start_pass(&c->file, pass);
    write_embedding(&c->file);
    for (uint32_t l = 0; l < c->m->n_layer && !failed(c); l++)
        put_layer(c, l);
    if (!failed(c) && c->m->encoder)
        write_others(&c->file);
    if (!failed(c) && !c->m->encoder)
        put_head(c);
    if (!failed(c) && !c->m->encoder)
        write_predictors(&c->file);
    if (!failed(c))
        write_prefix(&c->file, c->prefix_k, c->prefix_v);
    if (!failed(c) && pass == WRITE_DATA)
        key_importance_finish(&c->importance);
    if (!failed(c))
        write_importance(&c->file, c->m->n_kv_layer ? c->importance.importance : NULL);
    if (!failed(c))
        write_kv_calibration(&c->file, &c->kv);
}

static void convert(struct conversion *c)
{
    put_tensors(c, WRITE_COUNT);
    write_values(&c->file);
    put_tensors(c, WRITE_DESCRIPTIONS);
    put_tensors(c, WRITE_DATA);
    if (failed(c))
        return;
    if (c->m->encoder) /* no head: an input that nothing reads */
        c->result[c->m->n_layer * TFT_LAYER_INPUTS].affine.scale = 1;
    write_inputs(&c->file, c->result);
    progress(c, 1);
}

static bool alloc_low_bits(struct conversion *c)
{
    bool wanted[TFT_INPUT_KINDS] = {false};
    size_t text = c->y.n_windows * c->o->window * c->y.stride * sizeof *c->exact;
    for (uint32_t l = 0; l < c->m->n_layer; l++)
        for (int i = 0; i < LAYER_MATS; i++)
            wanted[quantize_matrix_input(&c->m->layer[l], i)] |=
                layers_linear(&c->m->layer[l], i) && quantize_bits(c->o, l, i) < 8;
    bool correlated = c->o->rounding == QUANTIZE_GPTQ;
    c->rounded = calloc(c->m->n_round ? c->m->n_round : 1, LAYER_MATS * sizeof *c->rounded);
    if (!c->rounded)
        return false;
    if (!moments_open(&c->moments, c->m, c->o->window, correlated, wanted, c->y.n_threads))
        return false;
    if (!correlated && !c->o->outputs)
        return true;
    c->exact = malloc(text);
    if (c->exact)
        memcpy(c->exact, c->y.text, text);
    return c->exact &&
           (c->m->encoder || shared_kv_open(&c->exact_shared, c->m, &c->y.s->kv, c->y.n_windows));
}

static bool alloc_all(struct conversion *c)
{
    const struct tft_model *m = c->m;
    c->prefix_k = array_alloc(sizeof *c->prefix_k, m->kv_numbers, c->o->n_prefix, 1);
    c->prefix_v = array_alloc(sizeof *c->prefix_v, m->kv_numbers, c->o->n_prefix, 1);
    c->w_max = malloc(m->n_embd * sizeof *c->w_max);
    c->x_max = malloc(m->n_embd * sizeof *c->x_max);
    return c->prefix_k && c->prefix_v && c->w_max && c->x_max &&
           key_importance_open(&c->importance, m) &&
           kv_calibrate_open(&c->kv, m, c->o, c->y.n_threads) &&
           fold_open(&c->fold, m, c->o, c->kv.value_order) && (!c->low_bits || alloc_low_bits(c)) &&
           input_stats_open(&c->stats, m, c->o, c->y.n_threads, c->fold.factor);
}

static void free_all(struct conversion *c)
{
    input_stats_close(&c->stats);
    key_importance_close(&c->importance);
    kv_calibrate_close(&c->kv);
    moments_close(&c->moments);
    uint32_t layers = c->m->n_round ? c->m->n_round : 1;
    for (uint32_t i = 0; c->rounded && i < layers * LAYER_MATS; i++)
        low_bits_close(&c->rounded[i]);
    free(c->rounded);
    free(c->exact);
    shared_kv_close(&c->exact_shared);
    free(c->prefix_k);
    free(c->prefix_v);
    free(c->w_max);
    free(c->x_max);
    fold_close(&c->fold);
}

/* Fails if o->kv is invalid, or needs calibration and the model cannot use it. */
static enum tft_status check_cache(const struct tft_model *m, const struct quantize_opts *o,
                                   struct tft_error *err)
{
    struct tft_kv_policy kv;
    enum tft_status status = tft_kv_parse(&kv, o->kv, err);
    bool odd = m->head_dim % TFT_QUAD || m->head_dim > TFT_CODED_DIM;
    bool latent = m->parts & TFT_BIT(TFT_PART_LATENT),
         shorter = m->parts & TFT_BIT(TFT_PART_SHORT_VALUES),
         norm = m->parts & (TFT_BIT(TFT_PART_SUB_NORM) | TFT_BIT(TFT_PART_VALUE_NORM)),
         gate = m->parts & (TFT_BIT(TFT_PART_OUTPUT_GATE) | TFT_BIT(TFT_PART_OWN_GATE));
    if (status == TFT_OK && kv.reorder && m->n_round)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: the channels of its values cannot be reordered, since the rounds of "
                        "its layers have the same weights: use a cache with reorder=none",
                        m->source.name);
    if (status == TFT_OK && tft_kv_quantizes(&kv) && !m->n_kv_layer)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: %s has no attention, and so no KV cache to quantize", m->source.name,
                        m->arch->name);
    if (status == TFT_OK && kv.reorder && (gate || norm || latent || shorter))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: the channels of its values cannot be reordered, since its attention "
                        "has a %s: use a cache with reorder=none",
                        m->source.name,
                        latent    ? "matrix for each head's values"
                        : norm    ? "norm within"
                        : shorter ? "key longer than its value"
                                  : "gate");
    if (status == TFT_OK && odd && (kv.reorder || kv.clip == TFT_KV_CALIBRATED))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: no quantized KV cache supports its heads of %u channels",
                        m->source.name, m->head_dim);
    return status;
}

/* Fails if an option fits weights to the inputs of each layer: rounds of layers have the same
   weights, but other inputs. GPTQ rounds them for the inputs of the first round. */
static enum tft_status check_rounds(const struct tft_model *m, const struct quantize_opts *o,
                                    struct tft_error *err)
{
    if (m->n_round && quantize_low_bits(o, 0, m->n_layer) && o->rounding == QUANTIZE_AWQ)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: AWQ does not support %s: its layers run several times, with other "
                        "inputs",
                        m->source.name, m->arch->name);
    for (uint32_t l = m->n_round; m->n_round && l < m->n_layer; l++)
        for (int i = 0; i < LAYER_MATS; i++)
            if (quantize_bits(o, l, i) != quantize_bits(o, l % m->n_round, i))
                return tft_fail(err, TFT_ERR_ARG,
                                "%s: layers %u and %u have the same weights, but other bits",
                                m->source.name, l % m->n_round, l);
    if (m->n_round && o->smooth > 0)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot smooth %s: its layers run several times, with other inputs",
                        m->source.name, m->arch->name);
    return TFT_OK;
}

enum tft_status quantize_check(const struct tft_model *m, const struct quantize_opts *o,
                               struct tft_error *err)
{
    if (m->embed.format->takes_bytes)
        return tft_fail(err, TFT_ERR_ARG, "%s: is already quantized: give the float model",
                        m->source.name);
    const char *part = tft_parts_unknown(m, ~TFT_BIT(TFT_PART_RWKV));
    if (part)
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: quantize does not support %s yet: %s",
                        m->source.name, m->arch->name, part);
    if (o->rotate == QUANTIZE_ROTATE_ALL && !quantize_rotate_all_possible(m))
        return tft_fail(
            err, TFT_ERR_UNSUPPORTED,
            "%s: cannot rotate the residual stream of %s (all): its norms are %s",
            m->source.name, m->arch->name,
            m->out_norm.b || m->pos_embed.data ? "not RMSNorm"
            : m->n_expert                      ? "inputs of its experts' router"
            : m->n_round                       ? "the same in all rounds of its layers"
                                               : "after attention and feed-forward");
    if (o->rotate == QUANTIZE_ROTATE_O && !quantize_rotate_o_possible(m))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot rotate attention's output in %s, whose layers have %s: use "
                        "none, o+down or all",
                        m->source.name, m->arch->name,
                        tft_model_has_states(m)                   ? "gates"
                        : m->parts & TFT_BIT(TFT_PART_OWN_GATE)   ? "gates"
                        : m->parts & TFT_BIT(TFT_PART_LATENT)     ? "matrices of heads for values"
                        : m->parts & TFT_BIT(TFT_PART_SHORT_VALUES) ? "values shorter than keys"
                        : m->qkv_bound > 0                        ? "bounded values"
                        : m->parts & TFT_BIT(TFT_PART_VALUE_NORM) ? "keys for values"
                                                                  : "a norm after attention");
    if (o->smooth > 0 && m->parts & TFT_BIT(TFT_PART_NO_PRE_NORM))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot smooth %s: it has no norms before attention and feed-forward",
                        m->source.name, m->arch->name);
    if (m->altup.n && o->smooth > 0)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot smooth %s: its norms are inputs of matrices that stay floats",
                        m->source.name, m->arch->name);
    if (m->n_expert && o->smooth > 0)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: cannot smooth %s: its norms are inputs of its experts' router",
                        m->source.name, m->arch->name);
    if (o->n_text < o->window || !o->window)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a calibration text of %zu tokens is too short for a window of %u",
                        m->source.name, o->n_text, o->window);
    if (m->n_embd > TFT_PANEL_MAX_K ||
        quantize_input_width(m, NULL, TFT_IN_DOWN) > TFT_PANEL_MAX_K ||
        m->mixed_width > TFT_PANEL_MAX_K)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: a weight matrix has rows longer than %d, which panels do not support",
                        m->source.name, TFT_PANEL_MAX_K);
    enum tft_status status = check_rounds(m, o, err);
    if (status == TFT_OK)
        status = check_cache(m, o, err);
    return status == TFT_OK && o->n_prefix ? prefix_check_type(m, o->prefix_type, err) : status;
}

enum tft_status quantize_temp(struct tft_model *m, const char *path, const struct quantize_opts *o,
                              struct quantize_input *result, struct tft_new_file **temp,
                              bool *stopped, struct tft_error *err)
{
    struct conversion c = {
        .m = m, .o = o, .result = result, .low_bits = quantize_low_bits(o, 0, m->n_layer)};
    enum tft_status status = quantize_check(m, o, err);
    *stopped = false;
    *temp = NULL;
    if (status == TFT_OK)
        status = layers_open(&c.y, m, o, err);
    if (status != TFT_OK)
        return status;
    c.y.tap = (struct tft_tap){input_stats_tap, &c.stats};
    c.y.on_window = on_window;
    c.y.on_window_user = &c;
    memset(result, 0, tft_model_inputs(m) * sizeof *result);
    if (alloc_all(&c))
        write_open(&c.file, &c.y, c.kv.value_order, path, &c.bad);
    else
        tft_fail(&c.bad, TFT_ERR_NOMEM, "%s: out of memory to quantize", m->source.name);
    if (!failed(&c))
        convert(&c);
    write_close(&c.file, failed(&c) ? NULL : temp);
    free_all(&c);
    layers_close(&c.y);
    *stopped = c.stopped;
    if (c.bad.code != TFT_OK && err)
        *err = c.bad;
    return c.bad.code;
}

/* ---------------------------------------------------------------------------- a plain GGUF file */

/* Whether a matrix of the layer becomes blocks, all of its tensor. */
static bool blocks_fit(const struct tft_model *m, const struct mix *mix, const struct tft_mat *w)
{
    const struct tft_tensor *t = w->tensor;
    if (!t || t->ne[0] != w->cols || t->ne[1] * t->ne[2] * t->ne[3] != tft_mat_all_rows(w))
        return false;
    enum tft_dtype type = mix_type(mix, &m->source, t);
    return type != t->type && blocks_levels(type);
}

static void round_layers(struct conversion *c)
{
    for (uint32_t l = 0; l < c->m->n_layer && !failed(c); l++) {
        prepare_layer(c, l);
        if (!failed(c) && has_own_weights(c->m, l))
            round_layer(c, l);
        if (!failed(c))
            run_rounded(c, l);
        layers_unload(&c->y, l);
        tft_port_free(c->floats);
        c->floats = NULL;
        c->layers_done++;
        c->steps = 0;
    }
}

/* bits: [n_layer, LAYER_MATS] of the copy *o. */
static enum tft_status to_blocks(struct tft_model *m, struct quantize_opts *o, uint8_t *bits,
                                 bool *stopped, struct tft_error *err)
{
    struct conversion c = {.m = m, .o = o, .low_bits = true};
    for (uint32_t i = 0; i < m->n_layer * LAYER_MATS; i++) {
        struct tft_layer *b = &m->layer[i / LAYER_MATS];
        const struct tft_linear *l = layers_linear(b, (int)(i % LAYER_MATS));
        bool fits = l && blocks_fit(m, o->blocks->mix, &l->w);
        bits[i] = fits ? 4 : 8; /* a matrix of fewer than 8 is rounded */
    }
    enum tft_status status = layers_open(&c.y, m, o, err);
    if (status != TFT_OK)
        return status;
    c.y.tap = (struct tft_tap){input_stats_tap, &c.stats};
    c.y.on_window = on_window;
    c.y.on_window_user = &c;
    c.result = calloc(tft_model_inputs(m), sizeof *c.result);
    if (!c.result || !alloc_all(&c))
        tft_fail(&c.bad, TFT_ERR_NOMEM, "%s: out of memory to quantize", m->source.name);
    if (!failed(&c) && quantize_low_bits(o, 0, m->n_layer))
        round_layers(&c);
    free_all(&c);
    free(c.result);
    layers_close(&c.y);
    *stopped = c.stopped;
    if (c.bad.code != TFT_OK && err)
        *err = c.bad;
    return c.bad.code;
}

enum tft_status quantize_to_blocks(struct tft_model *m, const struct quantize_opts *from,
                                   bool *stopped, struct tft_error *err)
{
    struct quantize_opts o = *from;
    uint8_t *bits = calloc(m->n_layer, LAYER_MATS);
    enum tft_range *range = calloc(tft_model_inputs(m), sizeof *range);
    enum tft_status status =
        bits && range ? TFT_OK
                      : tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", m->source.name);
    *stopped = false;
    for (uint32_t i = 0; range && i < tft_model_inputs(m); i++)
        range[i] = TFT_RANGE_TOKEN; /* no static range is chosen */
    o.bits = bits;
    o.range = range;
    o.group = GRID_GROUP;
    if (status == TFT_OK)
        status = to_blocks(m, &o, bits, stopped, err);
    free(bits);
    free(range);
    return status;
}

enum tft_status quantize(struct tft_model *m, const char *path, const struct quantize_opts *o,
                         struct quantize_input *result, bool *stopped, struct tft_error *err)
{
    struct tft_new_file *temp;
    enum tft_status status = quantize_temp(m, path, o, result, &temp, stopped, err);
    return temp ? tft_new_file_end(temp, true, err) : status;
}
