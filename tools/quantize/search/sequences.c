#include "tools/quantize/search/sequences.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "kv/kv.h"
#include "tools/quantize/round/affine.h"

/* |X - q(X)|^2, x: [n, width], rows `stride` apart */
static double rounding(const struct tft_kernels *kern, const float *x, size_t stride, size_t n,
                       size_t width)
{
    float min = 0, max = 0;
    double sum = 0;
    for (size_t t = 0; t < n; t++) {
        float row_min, row_max;
        kern->range(x + t * stride, width, &row_min, &row_max);
        min = fminf(min, row_min);
        max = fmaxf(max, row_max);
    }
    struct tft_affine q = affine_cover(min, max);
    for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < width; j++) {
            double e = affine_error(x[t * stride + j], &q);
            sum += e * e;
        }
    return sum;
}

/* Adds a block's part of L_q, from its output, to the loss of each sequence. */
static void add_losses(void *arg, int tid, int n_threads)
{
    const struct sequences *q = arg;
    size_t stride = q->y.stride;
    for (uint32_t i = (uint32_t)tid; i < q->n; i += (uint32_t)n_threads)
        q->loss[i] += rounding(&q->m->kern, q->y.text + ((size_t)i * q->len + q->skip) * stride,
                               stride, q->len - q->skip, q->m->n_embd);
}

float sequences_peak(const struct sequences *q, size_t t)
{
    float min, max;
    q->m->kern.range(q->y.text + t * q->y.stride, q->m->n_embd, &min, &max);
    return fmaxf(-min, max);
}

/* Copies the prefix's keys and values of layer l to all sequences. */
static void share_prefix(const struct sequences *q, uint32_t l, uint32_t n_prefix)
{
    const struct tft_kv *from = &q->y.s->kv;
    const struct tft_layer *b = &q->m->layer[l];
    size_t panels = (n_prefix + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL;
    if (!tft_layer_has_kv(b))
        return;
    uint32_t in = b->kv_layer;
    size_t row = b->kv.dim * tft_num_bytes(from->num);
    for (uint32_t i = 0; i < q->y.n_seq; i++)
        for (uint32_t h = 0; h < b->kv.n; h++) {
            const struct tft_kv *to = &q->y.seq[i]->kv;
            memcpy(tft_kv_keys(to, in, h, 0), tft_kv_keys(from, in, h, 0),
                   panels * TFT_KEY_PANEL * row);
            memcpy(tft_kv_values(to, in, h, 0), tft_kv_values(from, in, h, 0), n_prefix * row);
        }
}

/* Runs a pass of the sequences from `first` on. Their caches are those of other sequences before
   and after, so keys and values that later layers share are kept beside them. */
static void run_group(struct sequences *q, const struct layers_pass *pass, uint32_t first)
{
    const struct tft_layer *b = &q->m->layer[pass->layer];
    uint32_t n = pass->part == LAYERS_LAYER ? pass->n_seq : 0;
    for (uint32_t i = 0; i < n; i++)
        shared_kv_restore(&q->shared, &q->y.seq[i]->kv, b, first + i);
    layers_run_pass(&q->y, pass);
    for (uint32_t i = 0; i < n; i++)
        shared_kv_keep(&q->shared, &q->y.seq[i]->kv, b, first + i);
}

/* Runs a part of the model over all sequences, as many at a time as are open. */
static void run_all(struct sequences *q, struct layers_pass pass, bool report)
{
    for (uint32_t i = 0; i < q->n && !q->stopped; i += pass.n_seq) {
        pass.n_seq = q->n - i < q->y.n_seq ? q->n - i : q->y.n_seq;
        pass.n = pass.n_seq * q->len;
        pass.x = q->y.text + (size_t)i * q->len * q->y.stride;
        pass.tokens = q->tokens + (size_t)i * q->len;
        run_group(q, &pass, i);
        q->stopped = report && q->progress && !q->progress(q->user, pass.n);
    }
}

static void run_layer(struct sequences *q, uint32_t l, bool int8, const int32_t *prefix,
                      uint32_t n_prefix)
{
    struct layers_pass pass = {.part = LAYERS_LAYER, .layer = l};
    layers_load(&q->y, l);
    if (n_prefix) {
        pass.x = q->y.prefix;
        pass.tokens = prefix;
        pass.n = n_prefix;
        layers_run_pass(&q->y, &pass);
    }
    if (int8)
        layers_pack(&q->y, l); /* if that fails, the layer stays float */
    share_prefix(q, l, n_prefix);
    pass.pos = n_prefix;
    run_all(q, pass, true);
    layers_unload(&q->y, l);
}

static void run(struct sequences *q, const int32_t *prefix, uint32_t n_prefix,
                struct sequences_depth depth)
{
    struct layers_pass embed = {
        .part = LAYERS_EMBED, .x = q->y.prefix, .tokens = prefix, .n = n_prefix};
    if (n_prefix)
        layers_run_pass(&q->y, &embed);
    embed.pos = n_prefix;
    run_all(q, embed, false);
    for (uint32_t l = 0; l < depth.layers && !q->stopped; l++) {
        run_layer(q, l, depth.int8, prefix, n_prefix);
        tft_port_team(q->y.s->n_threads, add_losses, q);
        if (q->after_layer)
            q->after_layer(q->user, l);
    }
}

void sequences_run(struct sequences *q, const int32_t *prefix, uint32_t n_prefix,
                   struct sequences_depth depth)
{
    uint32_t fit = q->capacity.batch / q->len;
    memset(q->loss, 0, q->n * sizeof *q->loss);
    enum tft_status status =
        layers_open_sequences(&q->y, fit < q->n ? fit : q->n, n_prefix + q->len, &q->bad);
    if (status == TFT_OK && q->n && q->m->n_shared &&
        !shared_kv_open(&q->shared, q->m, &q->y.seq[0]->kv, q->n))
        status = tft_fail(&q->bad, TFT_ERR_NOMEM,
                          "%s: out of memory for keys and values of %u "
                          "sequences",
                          q->m->source.name, q->n);
    if (status == TFT_OK)
        run(q, prefix, n_prefix, depth);
    else
        q->stopped = true;
    shared_kv_close(&q->shared);
    layers_close_sequences(&q->y);
}

enum tft_status sequences_status(const struct sequences *q, struct tft_error *err)
{
    if (q->bad.code != TFT_OK && err)
        *err = q->bad;
    return q->bad.code;
}

enum tft_status sequences_open(struct sequences *q, struct tft_model *m, uint32_t prefix,
                               int n_threads, const struct layers_capacity *capacity,
                               struct tft_error *err)
{
    *q = (struct sequences){.m = m, .capacity = *capacity};
    q->capacity.slots = prefix; /* sequences have caches of their own */
    q->shape = (struct quantize_opts){.n_prefix = prefix, .n_threads = n_threads};
    enum tft_status status = layers_open_empty(&q->y, m, &q->shape, &q->capacity, err);
    if (status != TFT_OK)
        return status;
    q->tokens = malloc(capacity->rows * sizeof *q->tokens);
    q->loss = malloc(capacity->rows * sizeof *q->loss);
    return q->tokens && q->loss ? TFT_OK
                                : tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to search for a "
                                                               "cushion", m->source.name);
}

void sequences_close(struct sequences *q)
{
    layers_close(&q->y);
    free(q->tokens);
    free(q->loss);
}
