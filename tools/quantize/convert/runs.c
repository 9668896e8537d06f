#include "tools/quantize/convert/runs.h"

#include <string.h>

bool runs_on_window(void *user, double done)
{
    struct conversion *c = user;
    const struct tft_layer *b = &c->m->layer[c->layers_done];
    if (c->measuring && !c->m->encoder && b->mixer == TFT_MIX_ATTENTION)
        key_importance_add(&c->importance, c->y.s, c->layers_done, c->o->window);
    if (c->measuring && conversion_has_cache(c, b))
        kv_calibrate_add(&c->kv, c->y.s, b->kv_layer);
    if (c->stats.moments && moments_has_stream(&c->moments, TFT_IN_DOWN))
        moments_put_stream(&c->moments, TFT_IN_DOWN, c->y.work->buf[TFT_X], c->y.stride);
    if (c->stats.moments)
        moments_add(c->stats.moments);
    return conversion_step(c, done);
}

/* The input from which on a run for the moments of `inputs` may leave out products. A run for one
   input needs the matrices before it. The run for ffn_down's input needs all of them, because it
   also sums the residual stream at the end of the layer. */
static uint32_t end_of(const struct conversion *c, const struct tft_layer *b, uint32_t inputs)
{
    uint32_t which = TFT_IN_ATTN;
    if (!c->moments.correlated || tft_layer_has_experts(b) || b->side_out.w.rows)
        return TFT_INPUT_KINDS;
    while (which < TFT_IN_DOWN && inputs != 1u << which)
        which++;
    return which < TFT_IN_DOWN ? which : TFT_INPUT_KINDS;
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
    layers_compute_until(&c->y, c->layers_done, c->exact_end);
    layers_run_pass(&c->y, &(struct layers_pass){.part = LAYERS_LAYER,
                                                 .x = x,
                                                 .tokens = c->o->text + i * c->o->window,
                                                 .n = c->o->window,
                                                 .pos = c->o->n_prefix,
                                                 .layer = c->layers_done});
    layers_compute_until(&c->y, c->layers_done, c->end);
    if (c->floats)
        layers_swap(&c->y, c->layers_done, &c->floats);
    c->stats.exact = false;
    if (!c->m->encoder)
        shared_kv_keep(&c->exact_shared, &c->y.s->kv, b, i);
    if (moments_has_stream(&c->moments, TFT_IN_DOWN))
        moments_put_exact_stream(&c->moments, TFT_IN_DOWN, x, c->y.stride);
}

void runs_finish_input(struct conversion *c, uint32_t index)
{
    c->result[index] = (struct quantize_input){0};
    if (!c->o->blocks) /* which have no ranges, and leave numbers that are none to plain.c */
        input_stats_finish(&c->stats, index, &c->result[index], &c->bad);
}

uint32_t runs_to_round(const struct conversion *c, struct tft_layer *b)
{
    uint32_t inputs = 0;
    if (!conversion_has_own_weights(c->m, c->layers_done))
        return 0;
    for (int i = 0; i < LAYER_MATS; i++)
        if (layers_linear(b, i) && quantize_bits(c->o, c->layers_done, i) < 8)
            inputs |= 1u << quantize_matrix_input(b, i);
    return inputs;
}

uint32_t runs_stages(const struct conversion *c, struct tft_layer *b)
{
    uint32_t n = 1;
    for (uint32_t left = runs_to_round(c, b); c->moments.correlated && (left &= left - 1);)
        n++;
    return n;
}

void runs_moments(struct conversion *c, uint32_t l, uint32_t left)
{
    uint32_t next = c->moments.correlated ? left & -left : left;
    c->stats.moments = &c->moments;
    moments_begin(&c->moments, &c->m->layer[l], next);
    c->advances = next == left;
    uint32_t end = end_of(c, &c->m->layer[l], next);
    c->end = c->measuring ? TFT_INPUT_KINDS : end;
    c->exact_end = c->advances ? TFT_INPUT_KINDS : end;
    c->y.before_window = c->exact ? run_exact : NULL;
    layers_compute_until(&c->y, l, c->end);
    layers_run_text(&c->y, l, true);
    layers_compute_until(&c->y, l, TFT_INPUT_KINDS);
    c->y.before_window = NULL;
    c->stats.moments = NULL;
}

/* The prefix always goes on in floats, as its keys and values are the float model's (IntactKV,
   section 3). */
void runs_measure(struct conversion *c, uint32_t l)
{
    c->measuring = true;
    layers_run_prefix(&c->y, l, false);
    if (c->low_bits)
        runs_moments(c, l, runs_to_round(c, &c->m->layer[l]));
    else
        layers_run_text(&c->y, l, false);
    c->measuring = false;
    c->steps++;
}

void runs_finish_inputs(struct conversion *c, uint32_t l)
{
    for (uint32_t i = 0; i < TFT_INPUT_KINDS && !conversion_failed(c); i++)
        if (tft_model_has_input(c->m, i))
            runs_finish_input(c, tft_input_index(c->m, l, i));
    input_stats_clear(&c->stats);
}
