#include "run/pooled.h"

#include <math.h>
#include <string.h>

#include "simd/gelu_erf.h"

/* ---------------------------------------------------------------------------------------- sizes */

/* Numbers of a vector after the model's dense layers. */
static uint32_t dense_width(const struct tft_model *m)
{
    uint32_t n = m->n_embd;
    for (int i = 0; i < TFT_DENSE; i++)
        n = m->pooled.dense[i].rows ? m->pooled.dense[i].rows : n;
    return n;
}

uint32_t tft_pool_width(const struct tft_model *m, enum tft_pooling pooling)
{
    return pooling == TFT_POOLING_RANK ? m->pooled.n_labels : dense_width(m);
}

static uint32_t widest(const struct tft_model *m)
{
    const struct tft_pooled *x = &m->pooled;
    uint32_t n = m->n_embd > x->n_labels ? m->n_embd : x->n_labels;
    for (int i = 0; i < TFT_DENSE; i++)
        n = x->dense[i].rows > n ? x->dense[i].rows : n;
    return n;
}

void tft_pool_layout(struct tft_pool *p, struct tft_arena *a, const struct tft_model *m,
                     enum tft_pooling pooling, uint32_t width, bool raw)
{
    uint32_t all = tft_pool_width(m, pooling);
    *p = (struct tft_pool){.m = m,
                           .pooling = pooling,
                           .from = pooling == TFT_POOLING_RANK ? m->pooled.from : pooling,
                           .raw = raw,
                           .all = all,
                           .width = width ? width : all};
    p->sum = tft_arena_take(a, m->n_embd, sizeof *p->sum);
    p->x = tft_arena_take(a, widest(m), sizeof *p->x);
    p->y = tft_arena_take(a, widest(m), sizeof *p->y);
}

/* ------------------------------------------------------------------------------------- products */

/* x = W x + bias */
static void multiply(struct tft_pool *p, const struct tft_mat *w, const float *bias)
{
    struct tft_product product = {
        .y = p->y, .ldy = w->rows, .x = p->x, .ldx = w->cols, .bias = bias, .n = 1};
    float *x = p->x;
    w->format->product(&p->m->kern, w, &product, 0, w->rows);
    p->x = p->y;
    p->y = x;
}

static void dense(struct tft_pool *p)
{
    const struct tft_pooled *w = &p->m->pooled;
    for (int i = 0; i < TFT_DENSE; i++)
        if (w->dense[i].rows)
            multiply(p, &w->dense[i], NULL);
}

/* The activation after the dense layer of a classifier. */
static void activate(struct tft_pool *p, uint32_t n)
{
    const struct tft_model *m = p->m;
    if (!m->pooled.gelu)
        m->kern.softcap(p->x, n, 1, 1); /* tanh */
    else if (!m->gelu_erf)
        m->kern.gelu(p->x, p->x, n);
    else
        for (uint32_t i = 0; i < n; i++)
            p->x[i] = tft_gelu_erf(p->x[i]);
}

static void softmax(struct tft_pool *p, uint32_t n)
{
    float max, sum;
    p->m->kern.softmax(p->x, n, &max, &sum);
    for (uint32_t i = 0; i < n; i++)
        p->x[i] /= sum;
}

static void classify(struct tft_pool *p)
{
    const struct tft_model *m = p->m;
    const struct tft_pooled *w = &m->pooled;
    if (w->cls.rows) {
        multiply(p, &w->cls, w->cls_bias);
        activate(p, w->cls.rows);
    }
    if (w->cls_norm.w)
        m->kern.layernorm(p->x, p->x, w->cls_norm.w, w->cls_norm.b, m->n_embd, m->norm_eps);
    if (w->out.rows)
        multiply(p, &w->out, w->out_bias);
    if (w->softmax)
        softmax(p, w->n_labels);
}

/* --------------------------------------------------------------------------------------- a text */

void tft_pool_begin(struct tft_pool *p)
{
    p->seen = 0;
    memset(p->sum, 0, p->m->n_embd * sizeof *p->sum);
}

void tft_pool_add(struct tft_pool *p, const float *hidden)
{
    uint32_t n = p->m->n_embd;
    p->seen++;
    if (p->from == TFT_POOLING_MEAN)
        for (uint32_t i = 0; i < n; i++)
            p->sum[i] += (double)hidden[i];
    else if (p->from == TFT_POOLING_LAST || p->seen == 1)
        memcpy(p->x, hidden, n * sizeof *p->x);
}

/* The first `width` numbers get length 1 together. */
static void normalize(struct tft_pool *p)
{
    double squares = 0;
    for (uint32_t i = 0; i < p->width; i++)
        squares += (double)p->x[i] * (double)p->x[i];
    double length = sqrt(squares);
    for (uint32_t i = 0; i < p->width && length > 0; i++)
        p->x[i] = (float)((double)p->x[i] / length);
}

const float *tft_pool_end(struct tft_pool *p)
{
    if (p->from == TFT_POOLING_MEAN)
        for (uint32_t i = 0; i < p->m->n_embd; i++)
            p->x[i] = (float)(p->sum[i] / p->seen);
    if (p->pooling == TFT_POOLING_RANK) {
        classify(p);
        return p->x;
    }
    dense(p);
    if (!p->raw)
        normalize(p);
    return p->x;
}

const float *tft_pool_token(struct tft_pool *p, const float *hidden)
{
    memcpy(p->x, hidden, p->m->n_embd * sizeof *p->x);
    dense(p);
    return p->x;
}
