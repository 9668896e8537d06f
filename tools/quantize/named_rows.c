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
    uint16_t *row;        /* [G, E] */
};

static size_t width(const struct work *w)
{
    return (size_t)w->m->n_head_kv * w->m->head_dim;
}

/* Runs all prefixes through one part of the model, in passes, each prefix after the file's own.
   After a prefix, its rows of the layer are copied: the next prefix overwrites its slots. */
static void run(struct work *w, struct layers_pass pass)
{
    float *x = w->y.text;
    for (uint32_t i = 0; i < w->n; i++) {
        struct named_prefix *p = &w->p[i];
        for (uint32_t at = 0; at < p->n; at += pass.n, x += pass.n * w->y.stride) {
            pass.n = p->n - at < BATCH ? p->n - at : BATCH;
            pass.pos = w->made->n_prefix + at;
            pass.tokens = p->tokens + at;
            pass.x = x;
            layers_run_pass(&w->y, &pass);
        }
        if (pass.part != LAYERS_LAYER)
            continue;
        size_t rows = (size_t)pass.layer * p->n * width(w);
        layers_kv(&w->y, pass.layer, w->made->n_prefix, p->n, p->k + rows, p->v + rows);
        fold_prefix(&w->fold, p->v + rows, p->n);
        fold_prefix_order(&w->fold, p->v + rows, p->n);
    }
}

/* Puts the rows of the file's prefix into the first slots of layer l, with the float model's
   values. */
static void put_prefix(struct work *w, uint32_t l)
{
    for (uint32_t pos = 0; pos < w->made->n_prefix; pos++) {
        size_t at = ((size_t)l * w->made->n_prefix + pos) * width(w);
        memcpy(w->row, w->made->prefix_v + at, width(w) * sizeof *w->row);
        fold_prefix_restore(&w->fold, w->row, 1);
        layers_put_kv(&w->y, l, pos, w->made->prefix_k + at, w->row);
    }
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
        size_t numbers = (size_t)w->m->n_layer * p->n * width(w);
        p->k = malloc(numbers * sizeof *p->k);
        p->v = malloc(numbers * sizeof *p->v);
        p->x = malloc(w->m->n_embd * sizeof *p->x);
        if (!p->k || !p->v || !p->x)
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
        p[i].k = p[i].v = NULL;
        p[i].x = NULL;
    }
}
