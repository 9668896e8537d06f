#include "span.h"

#include <math.h>
#include <string.h>

#include "simd/expf.h"

/* -------------------------------------------------------------------------------------- queries */

void tft_load_queries(const struct tft_pass *p, const struct tft_tile *t, uint32_t token, float *q)
{
    uint32_t width = t->group * t->dim;
    for (uint32_t i = 0; i < t->n_tokens; i++)
        memcpy(q + i * width, tft_pass_row(p, TFT_Q, token + i) + t->head * width,
               width * sizeof *q);
    if (tft_kv_in_bytes(&p->s->kv, t->layer))
        tft_byte_queries(p, t, q);
}

const float *tft_ordered_queries(const struct tft_pass *p, const struct tft_tile *t, const float *q)
{
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = t->dim;
    if (!t->side[TFT_KV_K].blocks)
        return q;
    if (kv->layer[t->layer].fisher[TFT_KV_K])
        tft_fisher_begin(p, t, q);
    if (!kv->layer[t->layer].channel)
        return q;
    const uint16_t *channel = kv->layer[t->layer].channel + tft_tile_kv_head(t) * dim;
    float *ordered = p->s->attend.scratch[p->tid].ordered_q;
    for (uint32_t i = 0; i < tft_tile_rows(t); i++)
        for (uint32_t d = 0; d < dim; d++)
            ordered[i * dim + d] = q[i * dim + channel[d]];
    return ordered;
}

/* ---------------------------------------------------------------------------------------- slots */

void tft_cap_scores(const struct tft_model *m, float *scores, size_t n)
{
    if (m->score_cap > 0)
        m->kern.softcap(scores, n, m->score_cap, 1 / m->score_cap);
}

void tft_score_slots(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                     uint32_t first, const float *q, float *scores)
{
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = t->dim, rows = tft_tile_rows(t);
    p->m->kern.score[kv->num](&(struct tft_score){
        .s = scores + first * TFT_SPAN,
        .lds = TFT_SPAN,
        .q = q + first * dim,
        .ldq = dim,
        .k = tft_kv_keys(kv, t->layer, tft_tile_kv_head(t), start),
        .nq = rows - first,
        .n = tft_visible(t, TFT_KV_K, rows - 1, start),
        .head_dim = dim,
        .scale = p->m->attn_scale,
    });
    for (uint32_t i = first; i < rows; i++)
        tft_cap_scores(p->m, scores + i * TFT_SPAN, tft_visible(t, TFT_KV_K, i, start));
}

/* All rows see the slots of the first row. The further slots of later rows come after them, in
   order. */
void tft_mix_slots(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                   uint32_t first, const float *weights, float *o)
{
    const struct tft_kv *kv = &p->s->kv;
    tft_mix_fn *mix = p->m->kern.mix[kv->num];
    uint32_t dim = t->dim, rows = tft_tile_rows(t),
             common = tft_visible(t, TFT_KV_V, first, start);
    memset(o + first * dim, 0, (size_t)(rows - first) * dim * sizeof *o);
    mix(&(struct tft_mix){
        .o = o + first * dim,
        .ldo = dim,
        .p = weights + first * TFT_SPAN,
        .ldp = TFT_SPAN,
        .v = tft_kv_values(kv, t->layer, tft_tile_kv_head(t), start),
        .nq = rows - first,
        .n = common,
        .head_dim = dim,
    });
    for (uint32_t i = first, n; i < rows; i += n) { /* the queries of one token see the same */
        n = t->group - i % t->group;
        mix(&(struct tft_mix){
            .o = o + i * dim,
            .ldo = dim,
            .p = weights + i * TFT_SPAN + common,
            .ldp = TFT_SPAN,
            .v = tft_kv_values(kv, t->layer, tft_tile_kv_head(t), start + common),
            .nq = n,
            .n = tft_visible(t, TFT_KV_V, i, start) - common,
            .head_dim = dim,
        });
    }
}

/* --------------------------------------------------------------------------------------- blocks */

static void prefetch(const char *record, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(record + i, 0, 2);
}

/* Records are too short for the hardware to see a stream. So, while the keys of block b are read,
   its values are prefetched, and the i-th block of keys of the next span. One block at a time: more
   of them would wait for each other. */
static void prefetch_codes(const struct tft_pass *p, const struct tft_tile *t, uint32_t b,
                           uint32_t i, struct tft_next next, bool values)
{
    const struct tft_kv *kv = &p->s->kv;
    if (values)
        prefetch(tft_kv_value_record(kv, t->layer, tft_tile_kv_head(t), b),
                 tft_kv_record_bytes(kv, t->layer, tft_tile_kv_head(t), TFT_KV_V));
    if (next.block + i < t->side[TFT_KV_K].blocks)
        prefetch(tft_kv_key_record(kv, t->layer, next.head, next.block + i),
                 tft_kv_record_bytes(kv, t->layer, next.head, TFT_KV_K));
}

/* The codes of a head follow each other: the hardware sees a stream. */
static void score_fisher(const struct tft_pass *p, const struct tft_tile *t,
                         struct tft_code_span span, const float *q, float *scores)
{
    tft_score_fisher(p, t, span, q, scores);
    for (uint32_t i = 0; i < tft_tile_rows(t); i++)
        tft_cap_scores(p->m, scores + i * TFT_SPAN, span.n * p->s->kv.block);
}

void tft_score_blocks(const struct tft_pass *p, const struct tft_tile *t,
                      struct tft_code_span span, const float *q, float *scores,
                      struct tft_next next, bool values)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = t->dim, rows = tft_tile_rows(t);
    float factor = p->m->attn_scale, *key_scales = p->s->attend.scratch[p->tid].key_scales;
    if (kv->layer[t->layer].fisher[TFT_KV_K]) {
        score_fisher(p, t, span, q, scores);
        return;
    }
    for (uint32_t b = 0; b < span.n; b++, scores += kv->block) {
        prefetch_codes(p, t, span.from + b, b, next, values);
        if (kv->layer[t->layer].k_bits == TFT_KV_BITS_F16) {
            kern->score[TFT_NUM_F16](&(struct tft_score){
                .s = scores,
                .lds = TFT_SPAN,
                .q = q,
                .ldq = dim,
                .k = tft_kv_f16_keys(kv, t->layer, tft_tile_kv_head(t), span.from + b),
                .nq = rows,
                .n = kv->block,
                .head_dim = dim,
                .scale = factor,
            });
        } else {
            struct tft_coded k = tft_kv_key_codes(kv, kern, t->layer, tft_tile_kv_head(t),
                                                  span.from + b, key_scales);
            kern->score_codes(
                &(struct tft_score_codes){scores, TFT_SPAN, q, dim, &k, rows, factor});
        }
        for (uint32_t i = 0; i < rows; i++)
            tft_cap_scores(p->m, scores + i * TFT_SPAN, kv->block);
    }
}

void tft_mix_blocks(const struct tft_pass *p, const struct tft_tile *t, struct tft_code_span span,
                    float *weights, float *o)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = t->dim, rows = tft_tile_rows(t);
    struct tft_coded v[TFT_SPAN / TFT_PANEL];
    if (kv->layer[t->layer].fisher[TFT_KV_V]) {
        tft_mix_fisher(p, t, span, weights, o);
        return;
    }
    memset(o, 0, (size_t)rows * dim * sizeof *o);
    if (kv->layer[t->layer].v_bits == TFT_KV_BITS_F16) {
        for (uint32_t b = 0; b < span.n; b++, weights += kv->block)
            kern->mix[TFT_NUM_F16](&(struct tft_mix){
                .o = o,
                .ldo = dim,
                .p = weights,
                .ldp = TFT_SPAN,
                .v = tft_kv_f16_values(kv, t->layer, tft_tile_kv_head(t), span.from + b),
                .nq = rows,
                .n = kv->block,
                .head_dim = dim,
            });
        return;
    }
    float *scales = p->s->attend.scratch[p->tid].value_scales;
    size_t each = 2 * tft_kv_scales(kv, &kv->policy.v, dim);
    for (uint32_t b = 0; b < span.n; b++)
        v[b] = tft_kv_value_codes(kv, kern, t->layer, tft_tile_kv_head(t), span.from + b,
                                  scales + b * each);
    kern->mix_codes(&(struct tft_mix_codes){o, dim, weights, TFT_SPAN, v, span.n, rows});
}

/* --------------------------------------------------------------------------------------- result */

/* e^x. A merge needs it for two numbers, of which one is always 0. */
static float weight(float x)
{
    return x == 0 ? 1 : tft_expf(x);
}

void tft_merge_span(const struct tft_kernels *kern, float *o, struct tft_span_part *into,
                    const float *o_b, struct tft_span_part b, uint32_t dim)
{
    float max = into->max > b.max ? into->max : b.max;
    float old = weight(into->max - max), new = weight(b.max - max);
    kern->blend(o, old, o_b, new, dim);
    into->sum = fmaf(b.sum, new, into->sum * old);
    into->max = max;
}

float tft_sum_with_sink(const float *sinks, size_t head, float max, float sum)
{
    return sinks ? sum + tft_expf(sinks[head] - max) : sum;
}

static float sigmoid(float x) { return 1 / (1 + tft_expf(-x)); }

void tft_put_head(const struct tft_pass *p, const struct tft_input *in, uint32_t token, size_t head,
                  uint32_t dim, float *result, float sum)
{
    const struct tft_kernels *kern = &p->m->kern;
    bool in_turns = p->m->parts & TFT_BIT(TFT_PART_OUTPUT_GATE),
         own = p->m->parts & TFT_BIT(TFT_PART_OWN_GATE);
    if (p->m->parts & TFT_BIT(TFT_PART_SHORT_VALUES))
        dim = p->m->v_dim;
    kern->scale(result, 1.0f / sum, dim);
    if (p->m->parts & TFT_BIT(TFT_PART_HEAD_GATE))
        kern->scale(result, sigmoid(tft_pass_row(p, TFT_M, token)[head]), dim);
    if (in_turns || own)
        kern->sigmoid_mul(result, result,
                          tft_pass_row(p, TFT_M, token) + (own ? head : 2 * head + 1) * dim, dim);
    if (in->range == TFT_RANGE_STATIC && !in->norm && tft_attended(p) == TFT_A)
        kern->quantize(tft_pass_bytes(p, TFT_A, token) + head * dim, result, dim, &in->affine);
    else
        memcpy(tft_pass_row(p, tft_attended(p), token) + head * dim, result, dim * sizeof *result);
}
