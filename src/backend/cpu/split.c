/*
 * Attention with split retention: the key of a token may be in a slot while its value is in a
 * block. kv.h names the token of each slot and each entry of a block, its owner. For a query q of
 * token t:
 *
 *   a is the scale of attention, 1 / sqrt(E) in most models
 *   s_j = a q.k_j, for all tokens j <= t, with keys in slots and in blocks
 *   m = max_j s_j    p_j = exp(s_j - m)    l = sum_j p_j, in the order of tokens (tft_softmax_fn)
 *   o_b = sum p_j v_j over the values in span b
 *   o = o_0 + o_1 + ..., in the order of spans: slots first, then blocks
 *   the result is o / l
 *
 * The order of all sums is fixed and depends on the token's position alone. The price of split
 * retention: scores of all tokens are held at once, in rows of kv->max_tokens.
 */
#include "span.h"

#include <string.h>

/* The functions below work on one span. all: [rows, max_tokens] has a number for each token: its
   score, and after the softmax its probability. */

/* Puts the scores of the slots from `start` on into `all`. */
static void score_slots(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                        const float *q, float *all)
{
    const struct tft_kv *kv = &p->s->kv;
    float *scores = p->s->attend.scratch[p->tid].scores;
    const uint32_t *owner = t->side[TFT_KV_K].owner + start;
    uint32_t first = tft_first_row(t, TFT_KV_K, start);
    tft_score_slots(p, t, start, first, q, scores);
    for (uint32_t i = first; i < tft_tile_rows(t); i++) {
        uint32_t n = tft_visible(t, TFT_KV_K, i, start);
        for (uint32_t j = 0; j < n; j++)
            all[(size_t)i * kv->max_tokens + owner[j]] = scores[i * TFT_SPAN + j];
    }
}

/* Puts the scores of span b of the blocks into `all`. q: tft_ordered_queries. next: the span that
   this thread takes after this one */
static void score_blocks(const struct tft_pass *p, const struct tft_tile *t, uint32_t b,
                         uint32_t next, const float *q, float *all)
{
    const struct tft_kv *kv = &p->s->kv;
    float *scores = p->s->attend.scratch[p->tid].scores;
    struct tft_code_span span = tft_code_span(kv, &t->side[TFT_KV_K], b);
    const uint32_t *owner = kv->block_owner[TFT_KV_K] + span.from * kv->block;
    tft_score_blocks(p, t, span, q, scores,
                     (struct tft_next){tft_tile_kv_head(t), next * tft_span_blocks(kv)}, false);
    for (uint32_t i = 0; i < tft_tile_rows(t); i++)
        for (uint32_t j = 0; j < span.n * kv->block; j++)
            all[(size_t)i * kv->max_tokens + owner[j]] = scores[i * TFT_SPAN + j];
}

/* o: [rows, E] = the values of the slots from `start` on, weighted by their tokens' probabilities.
   Rows before *first see none of these slots and are not written. */
static void mix_slots(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                      const float *all, float *o, uint32_t *first)
{
    const struct tft_kv *kv = &p->s->kv;
    float *weights = p->s->attend.scratch[p->tid].scores;
    const uint32_t *owner = t->side[TFT_KV_V].owner + start;
    *first = tft_first_row(t, TFT_KV_V, start);
    for (uint32_t i = *first; i < tft_tile_rows(t); i++) {
        uint32_t n = tft_visible(t, TFT_KV_V, i, start);
        for (uint32_t j = 0; j < n; j++)
            weights[i * TFT_SPAN + j] = all[(size_t)i * kv->max_tokens + owner[j]];
    }
    tft_mix_slots(p, t, start, *first, weights, o);
}

/* o: [rows, E] = the values of span b of the blocks, weighted in the same way. */
static void mix_blocks(const struct tft_pass *p, const struct tft_tile *t, uint32_t b,
                       const float *all, float *o)
{
    const struct tft_kv *kv = &p->s->kv;
    float *weights = p->s->attend.scratch[p->tid].scores;
    struct tft_code_span span = tft_code_span(kv, &t->side[TFT_KV_V], b);
    const uint32_t *owner = kv->block_owner[TFT_KV_V] + span.from * kv->block;
    for (uint32_t i = 0; i < tft_tile_rows(t); i++)
        for (uint32_t j = 0; j < span.n * kv->block; j++)
            weights[i * TFT_SPAN + j] = all[(size_t)i * kv->max_tokens + owner[j]];
    tft_mix_blocks(p, t, span, weights, o);
}

/* Spans of a side that the tile sees: of slots, then of blocks. */
struct spans {
    uint32_t slots, all;
};

static struct spans spans_of(const struct tft_kv *kv, const struct tft_tile *t,
                             enum tft_kv_which which)
{
    const struct tft_seen *seen = &t->side[which];
    uint32_t slots = tft_spans(seen->slot + t->n_tokens);
    return (struct spans){slots, slots + tft_code_spans(kv, seen->blocks)};
}

/* Scores span b. After it this thread takes span b + step. */
static void score_span(const struct tft_pass *p, const struct tft_tile *t, struct spans spans,
                       uint32_t b, uint32_t step, const float *q, const float *ordered_q,
                       float *all)
{
    if (b < spans.slots)
        score_slots(p, t, b * TFT_SPAN, q, all);
    else
        score_blocks(p, t, b - spans.slots, b - spans.slots + step, ordered_q, all);
}

static void mix_span(const struct tft_pass *p, const struct tft_tile *t, struct spans spans,
                     uint32_t b, const float *all, float *o, uint32_t *first)
{
    *first = 0;
    if (b < spans.slots)
        mix_slots(p, t, b * TFT_SPAN, all, o, first);
    else
        mix_blocks(p, t, b - spans.slots, all, o);
}

/* How many tokens the token of a row sees: all up to itself. */
static uint32_t tokens_seen(const struct tft_tile *t, uint32_t row)
{
    const struct tft_seen *k = &t->side[TFT_KV_K];
    return k->owner[k->slot + row / t->group] + 1;
}

/* ---------------------------------------------------------------------------------- many tokens */

static void attend_tile(const struct tft_pass *p, const struct tft_tile *t, uint32_t token,
                        const struct tft_input *in)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_kv *kv = &p->s->kv;
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    struct spans keys = spans_of(kv, t, TFT_KV_K), values = spans_of(kv, t, TFT_KV_V);
    uint32_t dim = t->dim, n = tft_tile_rows(t), first;
    float sum[TFT_TILE], max;

    tft_load_queries(p, t, token, w->q);
    const float *ordered_q = tft_ordered_queries(p, t, w->q);
    for (uint32_t b = 0; b < keys.all; b++)
        score_span(p, t, keys, b, 1, w->q, ordered_q, w->all_scores);
    for (uint32_t i = 0; i < n; i++) {
        kern->softmax(w->all_scores + (size_t)i * kv->max_tokens, tokens_seen(t, i), &max, &sum[i]);
        sum[i] = tft_sum_with_sink(t->sinks, t->head * t->group + i % t->group, max, sum[i]);
    }
    mix_span(p, t, values, 0, w->all_scores, w->o, &first); /* all rows see the first slot */
    for (uint32_t b = 1; b < values.all; b++) {
        mix_span(p, t, values, b, w->all_scores, w->part, &first);
        kern->blend(w->o + first * dim, 1, w->part + first * dim, 1, (n - first) * dim);
    }
    for (uint32_t i = 0; i < n; i++)
        tft_put_head(p, in, token + i / t->group, t->head * t->group + i % t->group, dim,
                     w->o + i * dim, sum[i]);
}

static void attend_tiles(struct tft_pass *p, uint32_t layer, const struct tft_queries *queries,
                         const struct tft_input *in)
{
    const struct tft_model *m = p->m;
    const struct tft_layer *block = &m->layer[layer];
    uint32_t share = m->n_head / block->kv.n, group = tft_tile_group(share),
             heads = m->n_head / group, step = tft_tile_tokens(group),
             tiles = (queries->n + step - 1) / step;
    tft_pass_touch(p, BIT(TFT_Q) | BIT(TFT_KV), BIT(tft_attended(p)));
    for (uint32_t i = (uint32_t)p->tid; i < tiles * heads; i += (uint32_t)p->n_threads) {
        uint32_t at = i / heads * step;
        struct tft_tile t = {
            .layer = block->kv_layer,
            .head = i % heads,
            .parts = share / group,
            .dim = block->kv.dim,
            .n_tokens = queries->n - at < step ? queries->n - at : step,
            .group = group,
            .side = {tft_seen_from(&queries->side[TFT_KV_K], at),
                     tft_seen_from(&queries->side[TFT_KV_V], at)},
            .sinks = block->sinks,
        };
        attend_tile(p, &t, queries->first + at, in);
    }
}

/* ------------------------------------------------------------------------------------ one token */

/* The scores of the KV head's queries, among the scores of all heads. */
static float *head_scores(const struct tft_session *s, const struct tft_tile *t)
{
    return s->attend.all_scores + (size_t)t->head * t->group * s->kv.max_tokens;
}

static void score_spans(struct tft_pass *p, struct tft_tile t, uint32_t token)
{
    struct spans spans = spans_of(&p->s->kv, &t, TFT_KV_K);
    float *q = p->s->attend.scratch[p->tid].q;
    const float *ordered_q = NULL;
    tft_pass_touch(p, BIT(TFT_Q) | BIT(TFT_KV), BIT(TFT_PARTS));
    uint32_t heads = p->m->n_head / t.group;
    for (uint32_t i = (uint32_t)p->tid; i < spans.all * heads; i += (uint32_t)p->n_threads) {
        if (!ordered_q || t.head != i / spans.all) {
            t.head = i / spans.all;
            tft_load_queries(p, &t, token, q);
            ordered_q = tft_ordered_queries(p, &t, q);
        }
        score_span(p, &t, spans, i % spans.all, (uint32_t)p->n_threads, q, ordered_q,
                   head_scores(p->s, &t));
    }
}

static void softmax_rows(struct tft_pass *p, const struct tft_tile *t)
{
    struct tft_session *s = p->s;
    size_t begin, end;
    float max;
    tft_pass_touch(p, BIT(TFT_PARTS), BIT(TFT_PARTS));
    tft_pass_share(p, p->m->n_head, &begin, &end);
    for (size_t h = begin; h < end; h++) {
        float *sum = &s->attend.part_sum[h];
        p->m->kern.softmax(s->attend.all_scores + h * s->kv.max_tokens, tokens_seen(t, 0), &max,
                           sum);
        *sum = tft_sum_with_sink(t->sinks, h, max, *sum);
    }
}

/* part_o: [H, spans, E] */
static void mix_spans(struct tft_pass *p, struct tft_tile t, struct spans spans)
{
    struct tft_session *s = p->s;
    float *part = s->attend.scratch[p->tid].part;
    uint32_t dim = t.dim, unused;
    tft_pass_touch(p, BIT(TFT_PARTS) | BIT(TFT_KV), BIT(TFT_PARTS));
    uint32_t heads = p->m->n_head / t.group;
    for (uint32_t i = (uint32_t)p->tid; i < spans.all * heads; i += (uint32_t)p->n_threads) {
        uint32_t b = i % spans.all;
        t.head = i / spans.all;
        mix_span(p, &t, spans, b, head_scores(s, &t), part, &unused);
        for (uint32_t r = 0; r < t.group; r++)
            memcpy(s->attend.part_o + ((size_t)(t.head * t.group + r) * spans.all + b) * dim,
                   part + r * dim, dim * sizeof *part);
    }
}

/* One token. The threads share out four steps, with a barrier between them: scores by (head, span
   of keys), softmax by head, weighted values by (head, span of values), and the sum by head. */
static void attend_split(struct tft_pass *p, uint32_t layer, const struct tft_queries *queries,
                         const struct tft_input *in)
{
    const struct tft_model *m = p->m;
    const struct tft_session *s = p->s;
    const struct tft_layer *block = &m->layer[layer];
    uint32_t share = m->n_head / block->kv.n, group = tft_tile_group(share);
    struct tft_tile t = {.layer = block->kv_layer,
                         .parts = share / group,
                         .dim = block->kv.dim,
                         .n_tokens = 1,
                         .group = group,
                         .side = {queries->side[TFT_KV_K], queries->side[TFT_KV_V]},
                         .sinks = block->sinks};
    struct spans spans = spans_of(&s->kv, &t, TFT_KV_V);
    size_t begin, end, dim = t.dim;
    score_spans(p, t, queries->first);
    softmax_rows(p, &t);
    mix_spans(p, t, spans);

    tft_pass_touch(p, BIT(TFT_PARTS), BIT(tft_attended(p)));
    tft_pass_share(p, m->n_head, &begin, &end);
    for (size_t h = begin; h < end; h++) {
        float *o = s->attend.part_o + h * spans.all * dim;
        for (uint32_t b = 1; b < spans.all; b++)
            m->kern.blend(o, 1, o + b * dim, 1, dim);
        tft_put_head(p, in, queries->first, h, t.dim, o, s->attend.part_sum[h]);
    }
}

void tft_attend_split(struct tft_pass *p, uint32_t layer, const struct tft_queries *queries,
                      const struct tft_input *in, bool split)
{
    if (split)
        attend_split(p, layer, queries, in);
    else
        attend_tiles(p, layer, queries, in);
}
