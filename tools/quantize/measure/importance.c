#include "tools/quantize/measure/importance.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/measure/moments.h"

/* Part of the mean that a column without input has still: other text may use it. */
#define FLOOR 0.01

struct measuring {
    struct importance *im;
    struct tft_model *m;
    const struct quantize_opts *o;
    struct layers y;
    struct moments moments;
    uint32_t done; /* layers */
    bool stopped;
};

static void see(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                const float *rows, size_t stride)
{
    const struct measuring *c = user;
    (void)tid;
    if (in->index == TFT_NO_INDEX)
        return;
    for (size_t i = 0; i < n; i++)
        moments_put(&c->moments, quantize_input_kind(c->m->n_layer, in->index), first + i,
                    rows + i * stride);
}

static bool on_window(void *user, double done)
{
    struct measuring *c = user;
    moments_add(&c->moments);
    if (c->o->progress && !c->o->progress(c->o->user, (c->done + done) / (c->m->n_layer + 1.0)))
        c->stopped = true;
    return !c->stopped;
}

/* A copy of the sums of an input, over their mean. NULL: there is no input, or memory is short. */
static const float *weights_of(struct measuring *c, const struct tft_layer *b, uint32_t which)
{
    struct importance *im = c->im;
    size_t n = quantize_input_width(c->m, b, which);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)c->moments.h[which][i];
    float *own = n && sum > 0 && isfinite(sum) ? malloc(n * sizeof *own) : NULL;
    for (size_t i = 0; own && i < n; i++)
        own[i] = (float)((double)c->moments.h[which][i] * (double)n / sum + FLOOR);
    if (own)
        im->own[im->n_own++] = own;
    return own;
}

static void give(struct importance *im, const struct tft_mat *w, const float *weights)
{
    if (w->tensor && w->tensor->ne[0] == w->cols)
        im->of[w->tensor - im->s->tensor] = weights;
}

/* Gives the matrices of an unloaded layer their weights. */
static void take_layer(struct measuring *c, struct tft_layer *b)
{
    for (uint32_t which = 0; which < TFT_INPUT_KINDS; which++) {
        const float *weights = weights_of(c, b, which);
        for (int i = 0; i < LAYER_MATS && weights; i++)
            if (layers_linear(b, i) && quantize_matrix_input(b, i) == which)
                give(c->im, &layers_linear(b, i)->w, weights);
    }
}

static void run_layer(struct measuring *c, uint32_t l)
{
    moments_begin(&c->moments, &c->m->layer[l], UINT32_MAX);
    layers_load(&c->y, l);
    layers_run(&c->y, l, false);
    layers_unload(&c->y, l);
    if (!c->stopped)
        take_layer(c, &c->m->layer[l]);
    c->done++;
}

/* The head's input counts as a layer's first. */
static void run_head(struct measuring *c)
{
    const struct tft_layer *b = &c->m->layer[c->m->n_layer - 1];
    if (quantize_input_width(c->m, b, TFT_IN_ATTN) != c->m->output.w.cols)
        return;
    moments_begin(&c->moments, b, UINT32_MAX);
    layers_run_head(&c->y);
    const float *weights = c->stopped ? NULL : weights_of(c, b, TFT_IN_ATTN);
    if (weights)
        give(c->im, &c->m->output.w, weights);
}

static bool alloc(struct measuring *c)
{
    const bool wanted[TFT_INPUT_KINDS] = {true, true, true, true, true, true};
    struct importance *im = c->im;
    im->of = calloc(im->s->n_tensor, sizeof *im->of);
    im->own = calloc((size_t)c->m->n_layer * TFT_INPUT_KINDS + 1, sizeof *im->own);
    return im->of && im->own &&
           moments_open(&c->moments, c->m, c->o->window, false, wanted, c->y.n_threads);
}

enum tft_status importance_measure(struct importance *im, struct tft_model *m,
                                   const struct quantize_opts *o, bool *stopped,
                                   struct tft_error *err)
{
    struct measuring c = {.im = im, .m = m, .o = o};
    *stopped = false;
    *im = (struct importance){.s = &m->source};
    enum tft_status status = layers_open(&c.y, m, o, err);
    if (status != TFT_OK)
        return status;
    c.y.tap = (struct tft_tap){see, &c};
    c.y.on_window = on_window;
    c.y.on_window_user = &c;
    if (!alloc(&c))
        status =
            tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to measure inputs", m->source.name);
    for (uint32_t l = 0; l < m->n_layer && status == TFT_OK && !c.stopped; l++)
        run_layer(&c, l);
    if (status == TFT_OK && !c.stopped)
        run_head(&c);
    moments_close(&c.moments);
    layers_close(&c.y);
    *stopped = c.stopped;
    return status;
}

void importance_close(struct importance *im)
{
    for (size_t i = 0; i < im->n_own; i++)
        free(im->own[i]);
    free(im->own);
    free(im->of);
    *im = (struct importance){0};
}
