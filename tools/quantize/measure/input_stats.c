#include "tools/quantize/measure/input_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/keys.h"
#include "tools/quantize/round/smooth.h"

static struct histogram *histogram_of(const struct input_stats *st, uint32_t which, int tid)
{
    return &st->histogram[which * (uint32_t)st->n_threads + (uint32_t)tid];
}

/* Applies to x: [n] the transforms that the quantized model's linear layer reads through. */
static void transform(const struct input_stats *st, uint32_t which, float *x, size_t n)
{
    bool hidden = which == TFT_IN_DOWN || (which == TFT_IN_SHARED && !st->m->mamba_beside);
    uint32_t block = which == TFT_IN_O ? quantize_head_block(st->m, st->o)
                     : hidden          ? quantize_down_block(st->m, st->o)
                                       : 0;
    if (block)
        st->m->kern.hadamard(x, n, block);
    if (which == TFT_IN_O && block)
        st->m->kern.scale(x, 1 / sqrtf((float)block), n);
    smooth_divide(x, st->factor[which], n);
}

void input_stats_tap(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                 const float *rows, size_t stride)
{
    const struct input_stats *st = user;
    if (in->index == TFT_NO_INDEX) /* of a matrix that is not rounded */
        return;
    uint32_t which = quantize_input_kind(st->m->n_layer, in->index);
    size_t width = histogram_of(st, which, tid)->n_channel;
    float *x = st->row + (size_t)tid * st->widest;
    for (size_t i = 0; i < n; i++) {
        memcpy(x, rows + i * stride, width * sizeof *x);
        if (!st->untransformed)
            transform(st, which, x, width);
        if (st->exact) {
            if (st->moments)
                moments_put_exact(st->moments, which, first + i, x);
            continue;
        }
        histogram_add(histogram_of(st, which, tid), x, 1, width);
        if (st->moments)
            moments_put(st->moments, which, first + i, x);
    }
}

/* Moves the counts of all threads into the histogram of thread 0. */
const struct histogram *input_stats_of(const struct input_stats *st, uint32_t which)
{
    struct histogram *h = histogram_of(st, which, 0);
    for (int i = 1; i < st->n_threads; i++) {
        histogram_merge(h, histogram_of(st, which, i));
        histogram_clear(histogram_of(st, which, i));
    }
    return h;
}

void input_stats_begin(const struct input_stats *st, const struct tft_layer *layer)
{
    for (uint32_t which = 0; which < TFT_INPUT_KINDS; which++)
        for (int i = 0; i < st->n_threads; i++)
            histogram_of(st, which, i)->n_channel = quantize_input_width(st->m, layer, which);
}

void input_stats_clear(const struct input_stats *st)
{
    for (uint32_t which = 0; which < TFT_INPUT_KINDS; which++)
        for (int i = 0; i < st->n_threads; i++)
            histogram_clear(histogram_of(st, which, i));
}

void input_stats_finish(const struct input_stats *st, uint32_t index, struct quantize_input *r,
                        struct tft_error *err)
{
    char name[64];
    const struct histogram *h =
        input_stats_of(st, quantize_input_kind(st->m->n_layer, index));
    if (!histogram_affine(h, st->o->method, st->o->param, &r->affine)) {
        tft_fail(err, TFT_ERR_FORMAT,
                 "%s: NaN or infinity at the input of %s on the calibration text",
                 st->m->source.name, quantize_input_name(st->m->n_layer, index, name));
        return;
    }
    if ((double)r->affine.scale > TFT_INPUT_SCALE_MAX) {
        tft_fail(err, TFT_ERR_UNSUPPORTED,
                 "%s: numbers beyond %g at the input of %s on the calibration text: bytes have no "
                 "scale for them",
                 st->m->source.name, 255 * TFT_INPUT_SCALE_MAX,
                 quantize_input_name(st->m->n_layer, index, name));
        return;
    }
    r->error = histogram_error(h, &r->affine);
    r->ends = histogram_ends(h, &r->affine);
    for (size_t j = 0; j < h->n_channel; j++) {
        r->min = h->min[j] < r->min ? h->min[j] : r->min;
        r->max = h->max[j] > r->max ? h->max[j] : r->max;
    }
}

static bool take_histograms(struct input_stats *st)
{
    st->histogram = calloc((size_t)TFT_INPUT_KINDS * (size_t)st->n_threads, sizeof *st->histogram);
    for (uint32_t which = 0; st->histogram && which < TFT_INPUT_KINDS; which++)
        for (int i = 0; i < st->n_threads; i++)
            if (!histogram_init(histogram_of(st, which, i),
                                quantize_input_width(st->m, NULL, which)))
                return false;
    return st->histogram;
}

bool input_stats_open(struct input_stats *st, const struct tft_model *m,
                      const struct quantize_opts *o, int n_threads,
                      float *const factor[TFT_INPUT_KINDS])
{
    *st = (struct input_stats){.m = m, .o = o, .n_threads = n_threads, .factor = factor};
    for (uint32_t which = 0; which < TFT_INPUT_KINDS; which++) {
        size_t n = quantize_input_width(m, NULL, which);
        st->widest = n > st->widest ? n : st->widest;
    }
    st->row = calloc((size_t)n_threads, st->widest * sizeof *st->row);
    return st->row && take_histograms(st);
}

void input_stats_close(struct input_stats *st)
{
    for (int i = 0; st->histogram && i < TFT_INPUT_KINDS * st->n_threads; i++)
        histogram_free(&st->histogram[i]);
    free(st->histogram);
    free(st->row);
    *st = (struct input_stats){0};
}
