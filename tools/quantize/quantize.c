#include "tools/quantize/quantize.h"

#include <stdlib.h>
#include <string.h>

#include "tools/quantize/measure/kv_calibrate.h"
#include "base/error.h"
#include "tools/quantize/measure/key_importance.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/round/prefix_pack.h"
#include "tools/quantize/round/rotate.h"
#include "tools/quantize/round/smooth.h"
#include "tools/quantize/measure/input_stats.h"
#include "tools/quantize/write/write_model.h"

struct work {
    struct tft_model *m;
    const struct quantize_opts *o;
    struct quantize_input *result;
    struct layers y;
    struct input_stats watch;
    struct key_importance keys;
    struct kv_calibration cache;
    struct model_writer file;
    bool stopped;
    uint32_t layers_done, runs; /* and runs of the next layer over the text */
    struct tft_error bad; /* the first problem */

    float *smooth[2];     /* [D] what the inputs of attention and of the FFN are divided by */
    float *w_max, *x_max; /* [D] largest weight and input of each channel */
    uint16_t *prefix_k, *prefix_v; /* [n_layer, n_prefix, G, E] */
};

static bool failed(const struct work *k)
{
    return k->bad.code != TFT_OK || k->stopped;
}

/* -------------------------------------------------------------------------------------- folding */

static void smooth_input(struct work *k, struct tft_block *b, uint32_t which)
{
    struct tft_linear *l[3];
    size_t n = layers_readers(b, which, l), d = k->m->n_embd;
    memset(k->w_max, 0, d * sizeof *k->w_max);
    for (size_t i = 0; i < n; i++)
        smooth_columns_max(k->w_max, layers_weights(l[i]), d, l[i]->w.rows, d);
    histogram_absmax(input_stats_of(&k->watch, which), k->x_max);
    smooth_factors(k->smooth[which == TFT_IN_FFN], k->x_max, k->w_max, d, k->o->smooth);
}

/* The layer runs once more, to see what its inputs are before they are smoothed. */
static void choose_smooth(struct work *k, struct tft_block *b, uint32_t l)
{
    if (k->o->smooth == 0)
        return;
    k->watch.plain = true;
    layers_run(&k->y, l, true);
    k->watch.plain = false;
    k->runs = 1;
    smooth_input(k, b, TFT_IN_ATTN);
    smooth_input(k, b, TFT_IN_FFN);
    input_stats_clear(&k->watch);
}

/* The order that a cache wants values in becomes that of the rows of v and of the columns of o,
   which reads channel for channel what attention mixed: SKVQ, eq. 1 and algorithm 1. Keys cannot be
   treated so: RoPE comes between their rows and the cache, and turns pairs of channels. */
static void reorder_values(struct work *k, struct tft_block *b)
{
    const struct tft_model *m = k->m;
    uint32_t dim = m->head_dim;
    const int32_t *order = k->cache.value_order;
    for (uint32_t h = 0; order && h < m->n_head_kv; h++)
        channel_order_rows(layers_weights(&b->v) + (size_t)h * dim * b->v.w.cols, b->v.w.cols, dim,
                   b->v.w.cols, order + h * dim);
    for (uint32_t h = 0; order && h < m->n_head; h++)
        channel_order_columns(layers_weights(&b->o) + h * dim, b->o.w.cols, b->o.w.rows, dim,
                      order + h / (m->n_head / m->n_head_kv) * dim);
}

/* Changes the layer's matrices so that they undo what happens to their inputs. */
static void fold(struct work *k, struct tft_block *b)
{
    static const uint32_t from_norm[] = {TFT_IN_ATTN, TFT_IN_FFN};
    uint32_t head = quantize_head_block(k->m, k->o), down = quantize_down_block(k->m, k->o);
    struct tft_linear *l[3];
    for (int i = 0; i < 2 && k->o->smooth > 0; i++)
        for (size_t j = 0, n = layers_readers(b, from_norm[i], l); j < n; j++)
            smooth_columns(layers_weights(l[j]), l[j]->w.cols, l[j]->w.rows, l[j]->w.cols,
                           k->smooth[i]);
    if (head) {
        rotate_rows(layers_weights(&b->v), b->v.w.cols, b->v.w.rows, b->v.w.cols, head);
        rotate_columns(layers_weights(&b->o), b->o.w.cols, b->o.w.rows, b->o.w.cols, head);
    }
    reorder_values(k, b);
    if (down)
        rotate_columns_online(layers_weights(&b->down), b->down.w.cols, b->down.w.rows,
                              b->down.w.cols, down);
}

/* Keys and values that the layer has for the prefix; values as its rotated weights would make
   them. */
static void take_prefix(struct work *k, uint32_t l)
{
    size_t n = (size_t)k->o->n_prefix * k->m->n_head_kv * k->m->head_dim,
           block = quantize_head_block(k->m, k->o);
    uint16_t *v = k->prefix_v + l * n;
    layers_prefix_kv(&k->y, l, k->prefix_k + l * n, v);
    for (size_t i = 0; block && i < n; i += block) {
        float part[ROTATE_MAX];
        k->m->kern.widen[TFT_NUM_F16](part, v + i, block);
        rotate_columns(part, block, 1, block, block);
        k->m->kern.narrow[TFT_NUM_F16](v + i, part, block);
    }
}

static void reorder_prefix(struct work *k, uint32_t l)
{
    size_t width = (size_t)k->m->n_head_kv * k->m->head_dim, n = k->o->n_prefix * width,
           dim = k->m->head_dim;
    uint16_t *v = k->prefix_v + l * n, old[CHANNEL_ORDER_MAX];
    for (size_t i = 0; k->cache.value_order && i < n; i += dim) {
        memcpy(old, v + i, dim * sizeof *old);
        for (size_t d = 0; d < dim; d++)
            v[i + d] = old[k->cache.value_order[i % width + d]];
    }
}

/* -------------------------------------------------------------------------------------- a layer */

static void progress(struct work *k, double done)
{
    if (k->o->progress && !k->o->progress(k->o->user, done))
        k->stopped = true;
}

/* A window of a layer, which smoothing takes two runs over all of them, or of the head, which
   counts as one. */
static bool step(void *user, double done)
{
    struct work *k = user;
    if (!k->watch.plain) { /* a layer's only run, or its second */
        key_importance_add(&k->keys, k->y.s, k->layers_done, k->o->window);
        kv_calibrate_add(&k->cache, k->y.s);
    }
    double runs = k->o->smooth > 0 && k->layers_done < k->m->n_layer ? 2 : 1;
    progress(k, (k->layers_done + (k->runs + done) / runs) / (k->m->n_layer + 1.0));
    return !k->stopped;
}

static void settle(struct work *k, uint32_t index)
{
    input_stats_finish(&k->watch, index, &k->result[index], &k->bad);
}

/* Takes layer l through everything but the writing. */
static void work_layer(struct work *k, uint32_t l)
{
    struct tft_block *b = &k->m->block[l];
    layers_load(&k->y, l);
    write_check(&k->file, l);
    if (!failed(k))
        layers_rotate(&k->y, l);
    if (!failed(k))
        choose_smooth(k, b, l);
    if (!failed(k))
        layers_run(&k->y, l, false);
    for (uint32_t i = 0; i < TFT_LAYER_INPUTS && !failed(k); i++)
        settle(k, l * TFT_LAYER_INPUTS + i);
    input_stats_clear(&k->watch);
    if (failed(k))
        return;
    if (k->o->outputs)
        k->o->outputs(k->o->outputs_user, l, k->y.text, k->y.stride);
    take_prefix(k, l);
    size_t prefix = (size_t)l * k->o->n_prefix * k->m->n_head_kv * k->m->head_dim;
    kv_calibrate_finish(&k->cache, l, k->prefix_k + prefix, k->prefix_v + prefix);
    reorder_prefix(k, l);
    fold(k, b);
}

static void put_layer(struct work *k, uint32_t l)
{
    bool smooth = k->o->smooth > 0;
    if (!k->file.describe)
        work_layer(k, l);
    if (!failed(k))
        write_layer(&k->file, l, smooth ? k->smooth[0] : NULL, smooth ? k->smooth[1] : NULL);
    if (k->file.describe)
        return;
    layers_unload(&k->y, l);
    k->layers_done++;
    k->runs = 0;
}

static void put_head(struct work *k)
{
    if (!k->file.describe) {
        k->watch.plain = true; /* nothing is done to its input */
        layers_run_head(&k->y);
        if (!failed(k))
            settle(k, k->m->n_layer * TFT_LAYER_INPUTS);
    }
    if (!failed(k))
        write_head(&k->file);
}

/* ------------------------------------------------------------------------------------ the whole */

/* Run once to name the tensors, and once to make and write them. */
static void put_tensors(struct work *k, bool describe)
{
    k->file.describe = describe;
    write_embedding(&k->file);
    for (uint32_t l = 0; l < k->m->n_layer && !failed(k); l++)
        put_layer(k, l);
    if (!failed(k))
        put_head(k);
    if (!failed(k))
        write_prefix(&k->file, k->prefix_k, k->prefix_v);
    if (!failed(k) && !describe)
        key_importance_finish(&k->keys);
    if (!failed(k))
        write_importance(&k->file, k->keys.importance);
    if (!failed(k))
        write_kv_calibration(&k->file, &k->cache);
}

static void convert(struct work *k)
{
    write_values(&k->file);
    put_tensors(k, true);
    put_tensors(k, false);
    if (failed(k))
        return;
    write_inputs(&k->file, k->result);
    progress(k, 1);
}

static bool take(struct work *k)
{
    const struct tft_model *m = k->m;
    size_t prefix = (size_t)m->n_layer * k->o->n_prefix * m->n_head_kv * m->head_dim + 1;
    k->prefix_k = malloc(prefix * sizeof *k->prefix_k);
    k->prefix_v = malloc(prefix * sizeof *k->prefix_v);
    k->w_max = malloc(m->n_embd * sizeof *k->w_max);
    k->x_max = malloc(m->n_embd * sizeof *k->x_max);
    for (int i = 0; i < 2; i++) {
        k->smooth[i] = malloc(m->n_embd * sizeof *k->smooth[i]);
        for (uint32_t j = 0; k->smooth[i] && j < m->n_embd; j++)
            k->smooth[i][j] = 1;
    }
    return k->prefix_k && k->prefix_v && k->w_max && k->x_max && k->smooth[0] && k->smooth[1] &&
           key_importance_open(&k->keys, m) &&
           kv_calibrate_open(&k->cache, m, k->o, k->y.s->n_threads) &&
           input_stats_open(&k->watch, m, k->o, k->y.s->n_threads, k->smooth);
}

static void give_back(struct work *k)
{
    input_stats_close(&k->watch);
    key_importance_close(&k->keys);
    kv_calibrate_close(&k->cache);
    free(k->prefix_k);
    free(k->prefix_v);
    free(k->w_max);
    free(k->x_max);
    free(k->smooth[0]);
    free(k->smooth[1]);
}

/* What is calibrated for a cache is calibrated for one that the model can have. */
static enum tft_status refuse_cache(const struct tft_model *m, const struct quantize_opts *o,
                                    struct tft_error *err)
{
    struct tft_kv_policy kv;
    enum tft_status status = tft_kv_parse(&kv, o->kv, err);
    bool odd = m->head_dim % TFT_QUAD || m->head_dim > TFT_CODED_SPAN;
    if (status == TFT_OK && odd && (kv.reorder || kv.clip == TFT_KV_CALIBRATED))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: heads of %u, which no quantized cache is for", m->source.name,
                        m->head_dim);
    return status;
}

static enum tft_status refuse(const struct tft_model *m, const struct quantize_opts *o,
                              struct tft_error *err)
{
    if (m->output.w.format->takes_bytes)
        return tft_fail(err, TFT_ERR_ARG, "%s: is quantized already", m->source.name);
    if (o->rotate == QUANTIZE_ROTATE_ALL && !quantize_rotate_all_possible(m))
        return tft_fail(
            err, TFT_ERR_UNSUPPORTED,
            "%s: the residual stream of %s cannot be rotated (all): its norms are not RMSNorm",
            m->source.name, m->arch->name);
    if (o->n_text < o->window || !o->window)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a calibration text of %zu tokens is too short for a window of %u",
                        m->source.name, o->n_text, o->window);
    if (m->n_embd > TFT_PANEL_MAX_K || m->n_ff > TFT_PANEL_MAX_K ||
        (uint64_t)m->n_head * m->head_dim > TFT_PANEL_MAX_K)
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: rows longer than %d", m->source.name,
                        TFT_PANEL_MAX_K);
    enum tft_status status = refuse_cache(m, o, err);
    return status == TFT_OK && o->n_prefix ? prefix_check_type(m, o->prefix_type, err) : status;
}

enum tft_status quantize(struct tft_model *m, const char *path, const struct quantize_opts *o,
                         struct quantize_input *result, bool *stopped, struct tft_error *err)
{
    struct work k = {.m = m, .o = o, .result = result};
    enum tft_status status = refuse(m, o, err);
    *stopped = false;
    if (status == TFT_OK)
        status = layers_open(&k.y, m, o, err);
    if (status != TFT_OK)
        return status;
    k.y.s->tap = input_stats_tap;
    k.y.s->tap_user = &k.watch;
    k.y.on_window = step;
    k.y.on_window_user = &k;
    memset(result, 0, quantize_inputs(m) * sizeof *result);
    if (take(&k))
        write_open(&k.file, &k.y, k.cache.value_order, path, &k.bad);
    else
        tft_fail(&k.bad, TFT_ERR_NOMEM, "%s: no memory", m->source.name);
    if (!failed(&k))
        convert(&k);
    write_close(&k.file, !failed(&k));
    give_back(&k);
    layers_close(&k.y);
    *stopped = k.stopped;
    if (k.bad.code != TFT_OK && err)
        *err = k.bad;
    return k.bad.code;
}
