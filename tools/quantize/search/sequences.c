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

/* Copies the prefix's keys and values of a layer from sequence 0 to all others. */
static void share_prefix(const struct sequences *q, uint32_t n_prefix, uint32_t n_seq)
{
    const struct tft_kv *kv = &q->y.s->kv;
    size_t row = kv->head_dim * tft_num_bytes(kv->num),
           panels = (n_prefix + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL;
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        for (uint32_t i = 1; i < n_seq; i++) {
            memcpy(tft_kv_keys(kv, i, h, 0), tft_kv_keys(kv, 0, h, 0),
                   panels * TFT_KEY_PANEL * row);
            memcpy(tft_kv_values(kv, i, h, 0), tft_kv_values(kv, 0, h, 0), n_prefix * row);
        }
}

/* How many sequences fit a pass, and the cache, which they share. */
static uint32_t sequences_that_fit(const struct sequences *q, uint32_t n_prefix)
{
    const struct tft_kv *kv = &q->y.s->kv;
    uint32_t slots = (n_prefix + q->len + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL * TFT_KEY_PANEL;
    uint32_t by_cache = kv->n_layer * kv->capacity[TFT_KV_K] / slots,
             by_rows = q->capacity.batch / q->len;
    return by_cache < by_rows ? by_cache : by_rows;
}

/* Runs a layer over all sequences, `most` at a time. */
static void run_layer(struct sequences *q, uint32_t l, bool int8, uint32_t n_prefix, uint32_t most)
{
    struct layers_pass pass = {.part = LAYERS_LAYER, .layer = l};
    layers_load(&q->y, l);
    if (n_prefix) {
        pass.x = q->y.prefix;
        pass.n = pass.seq_len = n_prefix;
        layers_run_pass(&q->y, &pass);
    }
    if (int8)
        layers_pack(&q->y, l); /* if that fails, the layer stays float */
    share_prefix(q, n_prefix, most);
    pass.pos = n_prefix;
    pass.seq_len = q->len;
    for (uint32_t i = 0, n_seq; i < q->n && !q->stopped; i += n_seq) {
        n_seq = q->n - i < most ? q->n - i : most;
        pass.x = q->y.text + (size_t)i * q->len * q->y.stride;
        pass.n = n_seq * q->len;
        layers_run_pass(&q->y, &pass);
        q->stopped = q->progress && !q->progress(q->user, pass.n);
    }
    layers_unload(&q->y, l);
}

void sequences_run(struct sequences *q, const int32_t *prefix, uint32_t n_prefix,
                   struct sequences_depth depth)
{
    struct tft_kv *kv = &q->y.s->kv;
    uint32_t capacity = kv->capacity[TFT_KV_K], most = sequences_that_fit(q, n_prefix);
    kv->capacity[TFT_KV_K] = kv->capacity[TFT_KV_V] =
        (n_prefix + q->len + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL * TFT_KEY_PANEL;
    memset(q->loss, 0, q->n * sizeof *q->loss);
    struct layers_pass embed = {
        .part = LAYERS_EMBED, .x = q->y.prefix, .tokens = prefix, .n = n_prefix};
    if (n_prefix)
        layers_run_pass(&q->y, &embed);
    embed.x = q->y.text;
    embed.tokens = q->tokens;
    embed.n = q->n * q->len;
    embed.pos = n_prefix;
    embed.seq_len = q->len;
    layers_run_pass(&q->y, &embed);
    for (uint32_t l = 0; l < depth.layers && !q->stopped; l++) {
        run_layer(q, l, depth.int8, n_prefix, most < q->n ? most : q->n);
        tft_port_team(q->y.s->n_threads, add_losses, q);
        if (q->after_layer)
            q->after_layer(q->user, l);
    }
    kv->capacity[TFT_KV_K] = kv->capacity[TFT_KV_V] = capacity;
}

enum tft_status sequences_open(struct sequences *q, struct tft_model *m, uint32_t prefix,
                               int n_threads, const struct layers_capacity *capacity,
                               struct tft_error *err)
{
    *q = (struct sequences){.m = m, .capacity = *capacity};
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
