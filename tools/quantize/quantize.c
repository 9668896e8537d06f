#include "tools/quantize/quantize.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/quantize/measure/input_stats.h"
#include "tools/quantize/measure/key_importance.h"
#include "tools/quantize/measure/kv_calibrate.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/round/prefix_pack.h"
#include "tools/quantize/round/rotate.h"
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
    uint32_t runs; /* of the current layer over the text: 1 while smoothing has had its run */
    struct tft_error bad; /* the first failure */

    float *smooth[2];     /* [D] factors that the inputs of attention and FFN are divided by */
    float *w_max, *x_max; /* [D] largest weight and input of each channel */
    uint16_t *prefix_k, *prefix_v; /* [n_layer, n_prefix, G, E] */
};

static bool failed(const struct conversion *c) { return c->bad.code != TFT_OK || c->stopped; }

/* -------------------------------------------------------------------------------------- folding */

/* Chooses the smoothing factors of a norm's output. */
static void smooth_input(struct conversion *c, struct tft_block *b, uint32_t which)
{
    struct tft_linear *l[3];
    size_t n = layers_readers(b, which, l), d = c->m->n_embd;
    memset(c->w_max, 0, d * sizeof *c->w_max);
    for (size_t i = 0; i < n; i++)
        smooth_columns_max(c->w_max, layers_weights(l[i]), d, l[i]->w.rows, d);
    histogram_absmax(input_stats_of(&c->stats, which), c->x_max);
    smooth_factors(c->smooth[which == TFT_IN_FFN], c->x_max, c->w_max, d, c->o->smooth);
}

/* Runs the layer once without smoothing, to choose the factors. */
static void choose_smooth(struct conversion *c, struct tft_block *b, uint32_t l)
{
    if (c->o->smooth == 0)
        return;
    c->stats.untransformed = true;
    layers_run(&c->y, l, true);
    c->stats.untransformed = false;
    c->runs = 1;
    smooth_input(c, b, TFT_IN_ATTN);
    smooth_input(c, b, TFT_IN_FFN);
    input_stats_clear(&c->stats);
}

/* Gives the rows of v and the columns of o the channel order that the KV cache wants for values, as
   attention mixes values channel by channel: SKVQ, eq. 1 and algorithm 1. The order of keys cannot
   be fused: RoPE, between their rows and the cache, rotates pairs of channels. */
static void reorder_values(struct conversion *c, struct tft_block *b)
{
    const struct tft_model *m = c->m;
    uint32_t dim = m->head_dim;
    const int32_t *order = c->kv.value_order;
    for (uint32_t h = 0; order && h < m->n_head_kv; h++)
        channel_order_rows(layers_weights(&b->v) + (size_t)h * dim * b->v.w.cols, b->v.w.cols, dim,
                   b->v.w.cols, order + h * dim);
    for (uint32_t h = 0; order && h < m->n_head; h++)
        channel_order_columns(layers_weights(&b->o) + h * dim, b->o.w.cols, b->o.w.rows, dim,
                      order + h / (m->n_head / m->n_head_kv) * dim);
}

/* Fuses smoothing, rotation and order into the layer's matrices, so that its output stays the same.
   */
static void fold(struct conversion *c, struct tft_block *b)
{
    static const uint32_t from_norm[] = {TFT_IN_ATTN, TFT_IN_FFN};
    uint32_t head = quantize_head_block(c->m, c->o), down = quantize_down_block(c->m, c->o);
    struct tft_linear *l[3];
    for (int i = 0; i < 2 && c->o->smooth > 0; i++)
        for (size_t j = 0, n = layers_readers(b, from_norm[i], l); j < n; j++)
            smooth_columns(layers_weights(l[j]), l[j]->w.cols, l[j]->w.rows, l[j]->w.cols,
                           c->smooth[i]);
    if (head) {
        rotate_rows(layers_weights(&b->v), b->v.w.cols, b->v.w.rows, b->v.w.cols, head);
        rotate_columns(layers_weights(&b->o), b->o.w.cols, b->o.w.rows, b->o.w.cols, head);
    }
    reorder_values(c, b);
    if (down)
        rotate_columns_online(layers_weights(&b->down), b->down.w.cols, b->down.w.rows,
                              b->down.w.cols, down);
}

/* Copies the layer's keys and values of the prefix, the values as the rotated weights make them. */
static void copy_prefix(struct conversion *c, uint32_t l)
{
    size_t n = (size_t)c->o->n_prefix * c->m->n_head_kv * c->m->head_dim,
           block = quantize_head_block(c->m, c->o);
    uint16_t *v = c->prefix_v + l * n;
    layers_prefix_kv(&c->y, l, c->prefix_k + l * n, v);
    for (size_t i = 0; block && i < n; i += block) {
        float part[ROTATE_MAX];
        c->m->kern.widen[TFT_NUM_F16](part, v + i, block);
        rotate_columns(part, block, 1, block, block);
        c->m->kern.narrow[TFT_NUM_F16](v + i, part, block);
    }
}

static void reorder_prefix(struct conversion *c, uint32_t l)
{
    size_t width = (size_t)c->m->n_head_kv * c->m->head_dim, n = c->o->n_prefix * width,
           dim = c->m->head_dim;
    uint16_t *v = c->prefix_v + l * n, old[CHANNEL_ORDER_MAX];
    for (size_t i = 0; c->kv.value_order && i < n; i += dim) {
        memcpy(old, v + i, dim * sizeof *old);
        for (size_t d = 0; d < dim; d++)
            v[i + d] = old[c->kv.value_order[i % width + d]];
    }
}

/* -------------------------------------------------------------------------------------- a layer */

static void progress(struct conversion *c, double done)
{
    if (c->o->progress && !c->o->progress(c->o->user, done))
        c->stopped = true;
}

/* After each window. With smoothing, a layer has two runs over the windows; the head has one. */
static bool on_window(void *user, double done)
{
    struct conversion *c = user;
    if (!c->stats.untransformed) { /* the layer's last run */
        key_importance_add(&c->importance, c->y.s, c->layers_done, c->o->window);
        kv_calibrate_add(&c->kv, c->y.s);
    }
    double runs = c->o->smooth > 0 && c->layers_done < c->m->n_layer ? 2 : 1;
    progress(c, (c->layers_done + (c->runs + done) / runs) / (c->m->n_layer + 1.0));
    return !c->stopped;
}

static void finish_input(struct conversion *c, uint32_t index)
{
    input_stats_finish(&c->stats, index, &c->result[index], &c->bad);
}

/* Everything for layer l but writing it. */
static void prepare_layer(struct conversion *c, uint32_t l)
{
    struct tft_block *b = &c->m->block[l];
    layers_load(&c->y, l);
    write_check(&c->file, l);
    if (!failed(c))
        layers_rotate(&c->y, l);
    if (!failed(c))
        choose_smooth(c, b, l);
    if (!failed(c))
        layers_run(&c->y, l, false);
    for (uint32_t i = 0; i < TFT_LAYER_INPUTS && !failed(c); i++)
        finish_input(c, l * TFT_LAYER_INPUTS + i);
    input_stats_clear(&c->stats);
    if (failed(c))
        return;
    if (c->o->outputs)
        c->o->outputs(c->o->outputs_user, l, c->y.text, c->y.stride);
    copy_prefix(c, l);
    size_t prefix = (size_t)l * c->o->n_prefix * c->m->n_head_kv * c->m->head_dim;
    kv_calibrate_finish(&c->kv, l, c->prefix_k + prefix, c->prefix_v + prefix);
    reorder_prefix(c, l);
    fold(c, b);
}

static void put_layer(struct conversion *c, uint32_t l)
{
    bool smooth = c->o->smooth > 0;
    if (!c->file.describe)
        prepare_layer(c, l);
    if (!failed(c))
        write_layer(&c->file, l, smooth ? c->smooth[0] : NULL, smooth ? c->smooth[1] : NULL);
    if (c->file.describe)
        return;
    layers_unload(&c->y, l);
    c->layers_done++;
    c->runs = 0;
}

static void put_head(struct conversion *c)
{
    if (!c->file.describe) {
        c->stats.untransformed = true; /* the head's input is neither smoothed nor rotated */
        layers_run_head(&c->y);
        if (!failed(c))
            finish_input(c, c->m->n_layer * TFT_LAYER_INPUTS);
    }
    if (!failed(c))
        write_head(&c->file);
}

/* ------------------------------------------------------------------------------------ the whole */

/* Called twice: to describe the tensors, then to make and write them. */
static void put_tensors(struct conversion *c, bool describe)
{
    c->file.describe = describe;
    write_embedding(&c->file);
    for (uint32_t l = 0; l < c->m->n_layer && !failed(c); l++)
        put_layer(c, l);
    if (!failed(c))
        put_head(c);
    if (!failed(c))
        write_prefix(&c->file, c->prefix_k, c->prefix_v);
    if (!failed(c) && !describe)
        key_importance_finish(&c->importance);
    if (!failed(c))
        write_importance(&c->file, c->importance.importance);
    if (!failed(c))
        write_kv_calibration(&c->file, &c->kv);
}

static void convert(struct conversion *c)
{
    write_values(&c->file);
    put_tensors(c, true);
    put_tensors(c, false);
    if (failed(c))
        return;
    write_inputs(&c->file, c->result);
    progress(c, 1);
}

static bool alloc_all(struct conversion *c)
{
    const struct tft_model *m = c->m;
    size_t prefix = (size_t)m->n_layer * c->o->n_prefix * m->n_head_kv * m->head_dim + 1;
    c->prefix_k = malloc(prefix * sizeof *c->prefix_k);
    c->prefix_v = malloc(prefix * sizeof *c->prefix_v);
    c->w_max = malloc(m->n_embd * sizeof *c->w_max);
    c->x_max = malloc(m->n_embd * sizeof *c->x_max);
    for (int i = 0; i < 2; i++) {
        c->smooth[i] = malloc(m->n_embd * sizeof *c->smooth[i]);
        for (uint32_t j = 0; c->smooth[i] && j < m->n_embd; j++)
            c->smooth[i][j] = 1;
    }
    return c->prefix_k && c->prefix_v && c->w_max && c->x_max && c->smooth[0] && c->smooth[1] &&
           key_importance_open(&c->importance, m) &&
           kv_calibrate_open(&c->kv, m, c->o, c->y.s->n_threads) &&
           input_stats_open(&c->stats, m, c->o, c->y.s->n_threads, c->smooth);
}

static void free_all(struct conversion *c)
{
    input_stats_close(&c->stats);
    key_importance_close(&c->importance);
    kv_calibrate_close(&c->kv);
    free(c->prefix_k);
    free(c->prefix_v);
    free(c->w_max);
    free(c->x_max);
    free(c->smooth[0]);
    free(c->smooth[1]);
}

/* Fails if o->kv is invalid, or needs calibration and the model cannot use it. */
static enum tft_status check_cache(const struct tft_model *m, const struct quantize_opts *o,
                                   struct tft_error *err)
{
    struct tft_kv_policy kv;
    enum tft_status status = tft_kv_parse(&kv, o->kv, err);
    bool odd = m->head_dim % TFT_QUAD || m->head_dim > TFT_CODED_SPAN;
    if (status == TFT_OK && odd && (kv.reorder || kv.clip == TFT_KV_CALIBRATED))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: no quantized KV cache supports its heads of %u channels",
                        m->source.name, m->head_dim);
    return status;
}

static enum tft_status check_arguments(const struct tft_model *m, const struct quantize_opts *o,
                                       struct tft_error *err)
{
    if (m->output.w.format->takes_bytes)
        return tft_fail(err, TFT_ERR_ARG, "%s: is already quantized: give the float model",
                        m->source.name);
    if (o->rotate == QUANTIZE_ROTATE_ALL && !quantize_rotate_all_possible(m))
        return tft_fail(
            err, TFT_ERR_UNSUPPORTED,
            "%s: cannot rotate the residual stream of %s (all): its norms are not RMSNorm",
            m->source.name, m->arch->name);
    if (o->n_text < o->window || !o->window)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: a calibration text of %zu tokens is too short for a window of %u",
                        m->source.name, o->n_text, o->window);
    if (m->n_embd > TFT_PANEL_MAX_K || m->n_ff > TFT_PANEL_MAX_K ||
        (uint64_t)m->n_head * m->head_dim > TFT_PANEL_MAX_K)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: a weight matrix has rows longer than %d, which panels do not support",
                        m->source.name, TFT_PANEL_MAX_K);
    enum tft_status status = check_cache(m, o, err);
    return status == TFT_OK && o->n_prefix ? prefix_check_type(m, o->prefix_type, err) : status;
}

enum tft_status quantize(struct tft_model *m, const char *path, const struct quantize_opts *o,
                         struct quantize_input *result, bool *stopped, struct tft_error *err)
{
    struct conversion c = {.m = m, .o = o, .result = result};
    enum tft_status status = check_arguments(m, o, err);
    *stopped = false;
    if (status == TFT_OK)
        status = layers_open(&c.y, m, o, err);
    if (status != TFT_OK)
        return status;
    c.y.s->tap = input_stats_tap;
    c.y.s->tap_user = &c.stats;
    c.y.on_window = on_window;
    c.y.on_window_user = &c;
    memset(result, 0, quantize_inputs(m) * sizeof *result);
    if (alloc_all(&c))
        write_open(&c.file, &c.y, c.kv.value_order, path, &c.bad);
    else
        tft_fail(&c.bad, TFT_ERR_NOMEM, "%s: out of memory to quantize", m->source.name);
    if (!failed(&c))
        convert(&c);
    write_close(&c.file, !failed(&c));
    free_all(&c);
    layers_close(&c.y);
    *stopped = c.stopped;
    if (c.bad.code != TFT_OK && err)
        *err = c.bad;
    return c.bad.code;
}
