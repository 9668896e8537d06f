#include "tools/quantize/measure/input_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static struct histogram *histogram_of(const struct input_stats *w, uint32_t which, int tid)
{
    return &w->stats[which * (uint32_t)w->n_threads + (uint32_t)tid];
}

static size_t input_width(const struct tft_model *m, uint32_t which)
{
    return which == TFT_IN_O      ? (size_t)m->n_head * m->head_dim
           : which == TFT_IN_DOWN ? m->n_ff
                                  : m->n_embd;
}

/* As the quantized model's linear layer will get it. */
static void transform(const struct input_stats *w, uint32_t which, float *x, size_t n)
{
    uint32_t block = which == TFT_IN_O      ? quantize_head_block(w->m, w->o)
                     : which == TFT_IN_DOWN ? quantize_down_block(w->m, w->o)
                                            : 0;
    if (which == TFT_IN_ATTN || which == TFT_IN_FFN) {
        const float *s = w->smooth[which == TFT_IN_FFN];
        for (size_t j = 0; j < n; j++)
            x[j] /= s[j];
    }
    if (block)
        w->m->kern.hadamard(x, n, block);
    if (which == TFT_IN_O && block)
        w->m->kern.scale(x, 1 / sqrtf((float)block), n);
}

void input_stats_tap(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                 const float *rows, size_t stride)
{
    (void)first;
    const struct input_stats *w = user;
    uint32_t which = in->index % TFT_LAYER_INPUTS;
    size_t width = input_width(w->m, which);
    float *x = w->row + (size_t)tid * w->widest;
    for (size_t i = 0; i < n; i++) {
        memcpy(x, rows + i * stride, width * sizeof *x);
        if (!w->plain)
            transform(w, which, x, width);
        histogram_add(histogram_of(w, which, tid), x, 1, width);
    }
}

/* The first thread's get those of the others, which are cleared. */
const struct histogram *input_stats_of(const struct input_stats *w, uint32_t which)
{
    struct histogram *s = histogram_of(w, which, 0);
    for (int i = 1; i < w->n_threads; i++) {
        histogram_merge(s, histogram_of(w, which, i));
        histogram_clear(histogram_of(w, which, i));
    }
    return s;
}

void input_stats_clear(const struct input_stats *w)
{
    for (uint32_t which = 0; which < TFT_LAYER_INPUTS; which++)
        for (int i = 0; i < w->n_threads; i++)
            histogram_clear(histogram_of(w, which, i));
}

void input_stats_finish(const struct input_stats *w, uint32_t index, struct quantize_input *r,
                  struct tft_error *err)
{
    char name[64];
    const struct histogram *s = input_stats_of(w, index % TFT_LAYER_INPUTS);
    if (!histogram_affine(s, w->o->method, w->o->param, &r->affine)) {
        tft_fail(err, TFT_ERR_FORMAT, "%s: NaN or infinity at the input of %s", w->m->source.name,
                 quantize_input_name(w->m->n_layer, index, name));
        return;
    }
    r->error = histogram_error(s, &r->affine);
    for (size_t j = 0; j < s->n_channel; j++) {
        r->min = s->min[j] < r->min ? s->min[j] : r->min;
        r->max = s->max[j] > r->max ? s->max[j] : r->max;
    }
}

static bool take_histograms(struct input_stats *w)
{
    w->stats = calloc((size_t)TFT_LAYER_INPUTS * (size_t)w->n_threads, sizeof *w->stats);
    for (uint32_t which = 0; w->stats && which < TFT_LAYER_INPUTS; which++)
        for (int i = 0; i < w->n_threads; i++)
            if (!histogram_init(histogram_of(w, which, i), input_width(w->m, which)))
                return false;
    return w->stats;
}

bool input_stats_open(struct input_stats *w, const struct tft_model *m,
                      const struct quantize_opts *o, int n_threads, float *const smooth[2])
{
    *w = (struct input_stats){
        .m = m, .o = o, .n_threads = n_threads, .smooth = {smooth[0], smooth[1]}};
    for (uint32_t which = 0; which < TFT_LAYER_INPUTS; which++)
        w->widest = input_width(m, which) > w->widest ? input_width(m, which) : w->widest;
    w->row = calloc((size_t)n_threads, w->widest * sizeof *w->row);
    return w->row && take_histograms(w);
}

void input_stats_close(struct input_stats *w)
{
    for (int i = 0; w->stats && i < TFT_LAYER_INPUTS * w->n_threads; i++)
        histogram_free(&w->stats[i]);
    free(w->stats);
    free(w->row);
    *w = (struct input_stats){0};
}
