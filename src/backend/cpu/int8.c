/*
 * Attention within a span of slots that are bytes (kv.h, struct tft_kv_int8). Both products are
 * gemm_i8 (kernels.h), with exact sums. For a query q, and bytes k_j and v_j with scales:
 *
 *   q is about s_q (x - 128), with bytes x; s_q is the largest |q[d]| / 127
 *   a q.k_j = (x - 128).k_j * (a s_q * scale_k[j])
 *   p_j = exp(a q.k_j - m_b), l_b = sum p_j, as with floats
 *   y_j are bytes for the weights p_j scale_v[j], by softmax_u8; `step` is the weight of one
 *   o_b[d] = (sum over j of y_j v_j[d]) * step
 *
 * The weights get one step for the span, so the scales of the values are part of them. Each query
 * has its own steps, and a weight of 0 adds nothing to a sum, so the queries of a tile do not
 * depend on each other.
 */
#include "span.h"

#include <math.h>
#include <string.h>

/* The bytes of queries and of weights, of this thread. */
static struct tft_affine *query_steps(const struct tft_attend_scratch *w) { return w->affine; }
static struct tft_affine *weight_steps(const struct tft_attend_scratch *w)
{
    return w->affine + TFT_TILE;
}

/* The number that the scores of a query with the keys of slots lack, where blocks have others. */
static float lacking(const struct tft_pass *p, const struct tft_tile *t, const float *q)
{
    const float *offset = tft_kv_key_offset(&p->s->kv, t->layer, tft_tile_kv_head(t));
    float sum = 0;
    for (uint32_t d = 0; offset && t->side[TFT_KV_K].blocks && d < t->dim; d++)
        sum += q[d] * offset[d];
    return sum * p->m->attn_scale;
}

void tft_byte_queries(const struct tft_pass *p, const struct tft_tile *t, const float *q)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    size_t cols = tft_panel_cols(t->dim);
    for (uint32_t i = 0; i < tft_tile_rows(t); i++, q += t->dim) {
        struct tft_affine step = tft_kv_affine(kern, q, t->dim);
        kern->quantize(w->bytes + i * cols, q, t->dim, &step);
        memset(w->bytes + i * cols + t->dim, step.zero, cols - t->dim);
        step.scale =
            tft_kv_has_nan(w->bytes + i * cols, t->dim) ? NAN : step.scale * p->m->attn_scale;
        query_steps(w)[i] = step;
        w->lacking[i] = lacking(p, t, q);
    }
}

static void score(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                  uint32_t first, float *scores)
{
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    struct tft_kv_int8 k = tft_kv_int8(&p->s->kv, t->layer, tft_tile_kv_head(t), TFT_KV_K, start);
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

/* At most CHANNELS channels at a time: as many scales of 1 as there are. No row sees
   slots of the span from `seen` on: their weights are 0. */
static void mix(const struct tft_pass *p, const struct tft_tile *t, uint32_t start, uint32_t first,
                uint32_t seen, float *o)
{
    enum { CHANNELS = 64 };
    static const float ones[CHANNELS] = {ONES, ONES, ONES, ONES};
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    struct tft_kv_int8 v = tft_kv_int8(&p->s->kv, t->layer, tft_tile_kv_head(t), TFT_KV_V, start);
    size_t slots = tft_kv_span_slots(&p->s->kv, start);
    for (uint32_t d = 0; d < t->dim; d += CHANNELS) {
        struct tft_panels values = {.data = v.data + d * slots,
                                    .scale = ones,
                                    .rowsum = v.sum + d,
                                    .cols = slots};
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
            .cols = seen,
        });
    }
}

void tft_attend_int8(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                     uint32_t first, float *scores, float *o, struct tft_span_part *part)
{
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    struct tft_affine *steps = weight_steps(w);
    uint32_t rows = tft_tile_rows(t), seen[TFT_TILE];
    float max[TFT_TILE], sum[TFT_TILE], step[TFT_TILE];
    score(p, t, start, first, scores);
    for (uint32_t i = first; i < rows; i++) {
        seen[i] = tft_visible(t, TFT_KV_K, i, start);
        tft_cap_scores(p->m, scores + i * TFT_SPAN, seen[i]);
    }
    p->m->kern.softmax_u8(&(struct tft_softmax_u8){
        .y = w->weights + first * TFT_SPAN,
        .ldy = TFT_SPAN,
        .p = scores + first * TFT_SPAN,
        .ldp = TFT_SPAN,
        .scale = tft_kv_int8(&p->s->kv, t->layer, tft_tile_kv_head(t), TFT_KV_V, start).scale,
        .n = seen + first,
        .rows = rows - first,
        .max = max + first,
        .sum = sum + first,
        .step = step + first,
    });
    for (uint32_t i = first; i < rows; i++) {
        uint32_t padded = tft_kv_panels(seen[i]);
        memset(w->weights + i * TFT_SPAN + padded, 0, TFT_SPAN - padded);
        steps[i] = (struct tft_affine){.scale = step[i]};
        part[i] = (struct tft_span_part){.max = max[i] + w->lacking[i], .sum = sum[i]};
    }
    mix(p, t, start, first, tft_kv_panels(seen[rows - 1]), o);
}
