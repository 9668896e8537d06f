#include "tools/quantize/convert/convert.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "port/port.h"
#include "tools/quantize/array.h"
#include "tools/quantize/convert/factors.h"
#include "tools/quantize/convert/runs.h"

/* ---- memory */

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

enum tft_status convert_open(struct conversion *c, struct tft_error *err)
{
    enum tft_status status = layers_open(&c->y, c->m, c->o, err);
    if (status != TFT_OK)
        return status;
    c->y.tap = (struct tft_tap){input_stats_tap, &c->stats};
    c->y.on_window = runs_on_window;
    c->y.on_window_user = c;
    if (alloc_all(c))
        return TFT_OK;
    free_all(c);
    layers_close(&c->y);
    return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to quantize", c->m->source.name);
}

enum tft_status convert_close(struct conversion *c, bool *stopped, struct tft_error *err)
{
    free_all(c);
    layers_close(&c->y);
    *stopped = c->stopped;
    if (c->bad.code != TFT_OK && err)
        *err = c->bad;
    return c->bad.code;
}

/* ---- a layer */

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

/* Copies the weights, for the float model's stream after some of them are rounded. */
static void keep_floats(struct conversion *c)
{
    size_t bytes = c->y.n_weights * sizeof *c->floats;
    c->floats = tft_port_alloc(bytes, 64);
    if (c->floats)
        memcpy(c->floats, c->y.weights, bytes);
    else
        conversion_fail_memory(c);
}

/* Data of the file for the cache of layer l. */
static void finish_cache(struct conversion *c, uint32_t l)
{
    size_t at = prefix_at(c, l);
    copy_prefix(c, l);
    kv_calibrate_finish(&c->kv, c->m->layer[l].kv_layer, c->prefix_k + at, c->prefix_v + at);
    fold_prefix_order(&c->fold, c->prefix_v + at, c->o->n_prefix, c->m->layer[l].kv_layer);
}

void convert_prepare(struct conversion *c, uint32_t l)
{
    struct tft_layer *b = &c->m->layer[l];
    c->stages = runs_stages(c, b);
    fold_reset(&c->fold);
    input_stats_begin(&c->stats, b);
    layers_load(&c->y, l);
    if (!c->o->blocks) /* where to_blocks.c checks each matrix */
        write_check(&c->file, l);
    if (!conversion_failed(c))
        layers_rotate(&c->y, l);
    if (!conversion_failed(c))
        factors_smooth(c, b, l);
    if (!conversion_failed(c))
        runs_measure(c, l);
    if (!conversion_failed(c))
        runs_finish_inputs(c, l);
    if (!conversion_failed(c) && c->stages > 1)
        keep_floats(c);
    if (conversion_failed(c))
        return;
    fold_rotate(&c->fold, b);
    if (conversion_scales_moments(c))
        factors_awq(c, b);
    if (conversion_failed(c))
        return;
    if (conversion_has_cache(c, b))
        finish_cache(c, l);
    fold_scale(&c->fold, b);
    if (c->o->values)
        fold_keep(&c->fold, c->o->values, l);
}

void convert_leave(struct conversion *c, uint32_t l)
{
    layers_unload(&c->y, l);
    tft_port_free(c->floats);
    c->floats = NULL;
    c->layers_done++;
    c->steps = 0;
}
