/*
 * Attention within a span of slots that are bytes (kv.h, struct tft_kv_int8). Both of its products
 * are gemm_i8 (kernels.h), whose sums are exact. For a query q, and bytes k_j and v_j with scales:
 *
 *   q is about s_q (x - 128), with bytes x; s_q is the largest |q[d]| / 127
 *   a q.k_j = (x - 128).k_j * (a s_q * scale_k[j])
 *   p_j = exp(a q.k_j - m_b), l_b = sum p_j, as with floats
 *   y_j are bytes for the weights p_j scale_v[j], by softmax_u8; `step` is what a byte stands for
 *   o_b[d] = (sum over j of y_j v_j[d]) * step
 *
 * The weights get one step for the span, so the scales of the values are part of them. Each query
 * has its own steps, and a weight of 0 adds nothing to a sum, so the queries of a tile do not
 * depend on each other.
 */
#include "span.h"

#include <string.h>

/* The bytes of queries and of weights, of this thread. */
static struct tft_affine *query_steps(const struct tft_attend_scratch *w) { return w->affine; }
static struct tft_affine *weight_steps(const struct tft_attend_scratch *w)
{
    return w->affine + TFT_TILE;
}

void tft_byte_queries(const struct tft_pass *p, const struct tft_tile *t, const float *q)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_attend_scratch *w = &p->s->scratch[p->tid];
    size_t cols = tft_panel_cols(t->dim);
    for (uint32_t i = 0; i < tft_tile_rows(t); i++, q += t->dim) {
        struct tft_affine step = tft_kv_affine(kern, q, t->dim);
        kern->quantize(w->bytes + i * cols, q, t->dim, &step);
        memset(w->bytes + i * cols + t->dim, step.zero, cols - t->dim);
        step.scale *= p->m->attn_scale;
        query_steps(w)[i] = step;
    }
}

static void score(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                  uint32_t first, float *scores)
{
    const struct tft_attend_scratch *w = &p->s->scratch[p->tid];
    struct tft_kv_int8 k = tft_kv_int8(&p->s->kv, t->layer, t->head, TFT_KV_K, start);
    uint32_t rows = tft_tile_rows(t);
    struct tft_panels keys = {.data = k.data,
                              .scale = k.scale,
                              .rowsum = k.sum,
                              .cols = tft_panel_cols(t->dim)};
    p->m->kern.gemm_i8(&(struct tft_gemm_i8){
        .y = scores + first * TFT_SPAN,
        .ldy = TFT_SPAN,
        .x = w->bytes + first * keys.cols,
        .ldx = keys.cols,
        .xq = query_steps(w) + first,
        .xq_step = 1,
        .w = &keys,
        .M = rows - first,
        .N = tft_kv_panels(tft_visible(t, TFT_KV_K, rows - 1, start)),
    });
}

#define ONES 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1

/* At most CHANNELS channels at a time: as many scales of 1 as there are. */
static void mix(const struct tft_pass *p, const struct tft_tile *t, uint32_t start, uint32_t first,
                float *o)
{
    enum { CHANNELS = 64 };
    static const float ones[CHANNELS] = {ONES, ONES, ONES, ONES};
    const struct tft_attend_scratch *w = &p->s->scratch[p->tid];
    struct tft_kv_int8 v = tft_kv_int8(&p->s->kv, t->layer, t->head, TFT_KV_V, start);
    for (uint32_t d = 0; d < t->dim; d += CHANNELS) {
        struct tft_panels values = {.data = v.data + d * TFT_SPAN,
                                    .scale = ones,
                                    .rowsum = v.sum + d,
                                    .cols = TFT_SPAN};
        p->m->kern.gemm_i8(&(struct tft_gemm_i8){
            .y = o + first * t->dim + d,
            .ldy = t->dim,
            .x = w->weights + first * TFT_SPAN,
            .ldx = TFT_SPAN,
            .xq = weight_steps(w) + first,
            .xq_step = 1,
            .w = &values,
            .M = tft_tile_rows(t) - first,
            .N = t->dim - d < CHANNELS ? t->dim - d : CHANNELS,
        });
    }
}

void tft_attend_int8(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                     uint32_t first, float *scores, float *o, struct tft_span_part *part)
{
    const struct tft_attend_scratch *w = &p->s->scratch[p->tid];
    struct tft_kv_int8 v = tft_kv_int8(&p->s->kv, t->layer, t->head, TFT_KV_V, start);
    score(p, t, start, first, scores);
    for (uint32_t i = first; i < tft_tile_rows(t); i++) {
        uint32_t n = tft_visible(t, TFT_KV_K, i, start), padded = tft_kv_panels(n);
        struct tft_affine *step = &weight_steps(w)[i];
        uint8_t *weights = w->weights + i * TFT_SPAN;
        *step = (struct tft_affine){0};
        tft_cap_scores(p->m, scores + i * TFT_SPAN, n);
        p->m->kern.softmax_u8(weights, scores + i * TFT_SPAN, v.scale, n, &part[i].max,
                              &part[i].sum, &step->scale);
        memset(weights + padded, 0, TFT_SPAN - padded);
    }
    mix(p, t, start, first, o);
}
