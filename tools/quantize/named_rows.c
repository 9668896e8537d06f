#include "tools/quantize/named_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/quantize/fold.h"
#include "tools/quantize/measure/layers.h"

enum { BATCH = 512 }; /* tokens per pass */

struct work {
    struct tft_model *m;
    const struct tft_model *made;
    const struct quantize_opts *o;
    struct named_prefix *p;
    uint32_t n;
    struct quantize_opts shape;
    struct layers y; /* y.text: [all tokens, stride], one prefix after another */
    struct fold fold;
    int32_t *value_order; /* [G, E] */
    uint16_t *row;        /* [G, E] of the widest layer */
};

/* Numbers of a token's keys in the widest layer. */
static size_t width(const struct work *w)
{
    return (size_t)w->m->n_head_kv * w->m->head_dim;
}

/* Puts rows of a file, [n, G, E] from position `first` on, into the slots of layer l, with the
   float model's values. */
static void put_rows(struct work *w, uint32_t l, uint32_t first, uint32_t n, const uint16_t *k,
                     const uint16_t *v)
{
    uint32_t kv_layer = w->m->layer[l].kv_layer;
    size_t width = tft_model_kv_width(w->m, kv_layer);
    for (uint32_t i = 0; i < n; i++, k += width, v += width) {
        memcpy(w->row, v, width * sizeof *w->row);
        fold_prefix_restore(&w->fold, w->row, 1, kv_layer);
        layers_put_kv(&w->y, l, first + i, k, w->row);
    }
}

static void copy_state(float *to, const float *from, const struct tft_layer *b)
{
    memcpy(to + b->state, from + b->state, b->state_size * sizeof *to);
}

/* A prefix begins with the state of layer b after the file's own. Without one, it is at position 0,
   and begins with zeros. */
static void begin_state(struct work *w, const struct tft_layer *b)
{
    if (b->state_size && w->made->n_prefix)
        copy_state(w->y.prefix_state, w->made->prefix_state, b);
}

/* Passes go on where the one before ended. */
static void run_pass(struct work *w, const struct layers_pass *pass)
{
    const struct tft_layer *b = &w->m->layer[pass->layer];
    layers_run_pass(&w->y, pass);
    if (pass->part == LAYERS_LAYER && b->state_size)
        copy_state(w->y.prefix_state, w->y.s->states.now, b);
}

/* Before a prefix runs through layer l, which may share the rows of an earlier layer. */
static void begin(struct work *w, const struct named_prefix *p, uint32_t l)
{
    const struct tft_layer *b = &w->m->layer[l];
    begin_state(w, b);
    if (b->mixer != TFT_MIX_ATTENTION || tft_layer_has_kv(b))
        return;
    size_t rows = p->n * tft_model_kv_before(w->m, b->kv_layer);
    put_rows(w, l, w->made->n_prefix, p->n, p->k + rows, p->v + rows);
}

/* After that: the prefix gets its rows and its state of layer l. */
static void end(struct work *w, struct named_prefix *p, uint32_t l)
{
    const struct tft_layer *b = &w->m->layer[l];
    if (b->state_size)
        copy_state(p->state, w->y.prefix_state, b);
    if (!tft_layer_has_kv(b))
        return;
    size_t rows = p->n * tft_model_kv_before(w->m, b->kv_layer);
    layers_kv(&w->y, l, w->made->n_prefix, p->n, p->k + rows, p->v + rows);
    fold_prefix(&w->fold, p->v + rows, p->n, b->kv_layer);
    fold_prefix_order(&w->fold, p->v + rows, p->n, b->kv_layer);
}

/* Runs all prefixes through one part of the model, in passes, each prefix after the file's own.
   After a prefix, its rows and its state of the layer are copied: the next prefix overwrites them.
   A layer that shares rows gets them back. */
static void run(struct work *w, struct layers_pass pass)
{
    bool layer = pass.part == LAYERS_LAYER;
    float *x = w->y.text;
    for (uint32_t i = 0; i < w->n; i++) {
        struct named_prefix *p = &w->p[i];
        if (layer)
            begin(w, p, pass.layer);
        for (uint32_t at = 0; at < p->n; at += pass.n, x += pass.n * w->y.stride) {
            pass.n = p->n - at < BATCH ? p->n - at : BATCH;
            pass.pos = w->made->n_prefix + at;
            pass.tokens = p->tokens + at;
            pass.x = x;
            run_pass(w, &pass);
        }
        if (layer)
            end(w, p, pass.layer);
    }
}

/* Puts the rows of the file's prefix into the first slots of layer l. */
static void put_prefix(struct work *w, uint32_t l)
{
    const struct tft_model *made = w->made;
    const struct tft_layer *b = &w->m->layer[l];
    if (!made->n_prefix || b->mixer != TFT_MIX_ATTENTION)
        return;
    size_t at = made->n_prefix * tft_model_kv_before(w->m, b->kv_layer);
    put_rows(w, l, 0, made->n_prefix, made->prefix_k + at, made->prefix_v + at);
}

/* The residual stream after the last layer, rotated like the file's. */
static bool copy_residual(struct work *w)
{
    struct residual_rotation q = {0};
    bool rotated = w->o->rotate == QUANTIZE_ROTATE_ALL,
         good = !rotated || rotate_residual_open(&q, w->m->n_embd, w->y.s->n_threads);
    const float *x = w->y.text;
    for (uint32_t i = 0; i < w->n && good; i++) {
        x += w->p[i].n * w->y.stride;
        memcpy(w->p[i].x, x - w->y.stride, w->m->n_embd * sizeof *x);
        if (rotated)
            rotate_residual_rows(&q, w->p[i].x, w->m->n_embd, 1, NULL);
    }
    rotate_residual_close(&q);
    return good;
}

static bool run_all(struct work *w, bool *stopped)
{
    run(w, (struct layers_pass){.part = LAYERS_EMBED});
    for (uint32_t l = 0; l < w->m->n_layer && !*stopped; l++) {
        fold_recall(&w->fold, w->o->values, l, w->value_order);
        layers_load(&w->y, l);
        put_prefix(w, l);
        run(w, (struct layers_pass){.part = LAYERS_LAYER, .layer = l});
        layers_unload(&w->y, l);
        *stopped = w->o->progress && !w->o->progress(w->o->user, (l + 1.0) / w->m->n_layer);
    }
    return copy_residual(w);
}

static bool alloc(struct work *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct named_prefix *p = &w->p[i];
        size_t numbers = (size_t)(p->n * w->m->kv_numbers) + 1; /* there may be no cache */
        p->k = malloc(numbers * sizeof *p->k);
        p->v = malloc(numbers * sizeof *p->v);
        p->x = malloc(w->m->n_embd * sizeof *p->x);
        p->state = malloc((w->m->state_size + 1) * sizeof *p->state);
        if (!p->k || !p->v || !p->x || !p->state)
            return false;
    }
    w->value_order = malloc(width(w) * sizeof *w->value_order);
    w->row = malloc(width(w) * sizeof *w->row);
    return w->value_order && w->row && fold_open(&w->fold, w->m, w->o, w->value_order);
}

enum tft_status named_rows(struct tft_model *m, const struct tft_model *made,
                           const struct quantize_opts *o, struct named_prefix *p, uint32_t n,
                           bool *stopped, struct tft_error *err)
{
    struct work w = {.m = m, .made = made, .o = o, .p = p, .n = n,
                     .shape = {.n_threads = o->n_threads}};
    struct layers_capacity capacity = {0};
    uint32_t longest = 0;
    *stopped = false;
    for (uint32_t i = 0; i < n; i++) {
        longest = p[i].n > longest ? p[i].n : longest;
        capacity.rows += p[i].n;
    }
    capacity.slots = made->n_prefix + longest;
    capacity.batch = longest < BATCH ? longest : BATCH;
    enum tft_status status = layers_open_empty(&w.y, m, &w.shape, &capacity, err);
    if (status != TFT_OK)
        return status;
    if (!alloc(&w) || !run_all(&w, stopped))
        status = tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory for the named prefixes",
                          m->source.name);
    fold_close(&w.fold);
    free(w.value_order);
    free(w.row);
    layers_close(&w.y);
    return status;
}

void named_rows_free(struct named_prefix *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free(p[i].k);
        free(p[i].v);
        free(p[i].x);
        free(p[i].state);
        p[i].k = p[i].v = NULL;
        p[i].x = p[i].state = NULL;
    }
}
