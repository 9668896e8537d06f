/*
 * The cache and attention over it. For a query q at position t (scaled dot product, Vaswani et al.
 * 2017, eq. 1), span by span as in FlashAttention (Dao et al. 2022, algorithm 1), in a fixed order:
 *
 *   a is the scale of attention, 1 / sqrt(E) in most models
 *   span b holds 256 slots or 256 tokens of blocks; tokens after t and tokens before the layer's
 *   window are left out
 *   m_b = max_j a q.k_j    p_j = exp(a q.k_j - m_b)
 *   l_b = sum p_j    o_b = sum p_j v_j
 *   spans merge in the order of b, slots first, then blocks:
 *       m' = max(m, m_b)   l' = l e^(m - m') + l_b e^(m_b - m')   o' likewise
 *   a layer with sinks has one more score for each head, s, without a value (Xiao et al. 2023,
 *   arXiv 2309.17453, section 3.3): after the last span, l = l + e^(s - m)
 *   the result is o / l
 *
 * Slots of bytes use two integer products instead: int8.c. With split retention (kv.h), split.c
 * attends instead.
 *
 * A token's result depends on its position alone: neither on the tokens computed with it, nor on
 * how spans and heads are spread over threads. Many tokens are spread by (head, tile of queries); a
 * single token also by span, because a model with few heads would leave threads idle.
 */
#include "span.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------------ the cache */

/* Carries out the chunk's quantizations and stores its tokens, by heads: a panel of keys belongs
   to 16 tokens. */
static void store_chunk(struct tft_pass *p, uint32_t layer, const struct tft_kv_chunk *c)
{
    const struct tft_kv *kv = &p->s->kv;
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_layer *b = &p->m->layer[layer];
    size_t begin, end, dim = b->kv.dim;
    uint32_t own = b->kv_layer;
    struct tft_kv_place side[] = {tft_kv_place_in(kv, own, c, TFT_KV_K),
                                  tft_kv_place_in(kv, own, c, TFT_KV_V)};
    tft_pass_touch_heads(p, BIT(TFT_K) | BIT(TFT_V), BIT(TFT_KV), BIT(TFT_K));
    tft_pass_share(p, b->kv.n, &begin, &end);
    for (uint32_t h = (uint32_t)begin; h < end; h++) {
        for (enum tft_kv_which i = 0; i < TFT_KV_SIDES; i++)
            if (side[i].quantizes)
                tft_kv_quantize(kv, kern, own, h, i, &side[i].quantization, p->tid);
        for (uint32_t t = c->from; t < c->to; t++) {
            uint32_t i = t - c->from;
            tft_kv_store_key(kv, kern, own, h, side[TFT_KV_K].slot + i,
                             tft_pass_row(p, TFT_K, t) + h * dim);
            tft_kv_store_value(kv, kern, own, h, side[TFT_KV_V].slot + i,
                               tft_pass_row(p, TFT_V, t) + h * dim);
        }
    }
}

static void store_first(struct tft_pass *p, const struct tft_layer *b)
{
    store_chunk(p, (uint32_t)(b - p->m->layer), &p->plan->chunk[0]);
}

void tft_cpu_kv_append(struct tft_pass *p, uint32_t layer)
{
    tft_pass_by_seq(p, store_first, &p->m->layer[layer]);
}

/* ---------------------------------------------------------------------------------------- spans */

/* Attends to the span of slots at `start`, for rows from *first_row on; the rows before see none of
   it, nor do the last ones where the window of the layer has left it: their results mean nothing.
   scores: [rows, TFT_SPAN]; results o: [rows, E], part: [rows] */
static void attend_span(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                        const float *q, float *scores, float *o, struct tft_span_part *part,
                        uint32_t *first_row)
{
    uint32_t first = *first_row = tft_first_row(t, TFT_KV_K, start);
    if (tft_kv_in_bytes(&p->s->kv, t->layer)) {
        tft_attend_int8(p, t, start, first, scores, o, part);
        return;
    }
    tft_score_slots(p, t, start, first, q, scores);
    for (uint32_t i = first; i < tft_tile_rows(t); i++) {
        uint32_t n = tft_visible(t, TFT_KV_K, i, start), begin = tft_first_slot(t, i);
        for (uint32_t j = 0; start + j < begin && j < n; j++)
            scores[i * TFT_SPAN + j] = -INFINITY; /* the weight is 0 */
        p->m->kern.softmax(scores + i * TFT_SPAN, n, &part[i].max, &part[i].sum);
    }
    tft_mix_slots(p, t, start, first, scores, o);
}

/* attend_span for span b of the codes, which all rows see. */
static void attend_codes(const struct tft_pass *p, const struct tft_tile *t, uint32_t b,
                         const float *q, float *scores, float *o, struct tft_span_part *part,
                         struct tft_next next)
{
    const struct tft_kv *kv = &p->s->kv;
    struct tft_code_span span = tft_code_span(kv, &t->side[TFT_KV_K], b);
    tft_score_blocks(p, t, span, q, scores, next, true);
    for (uint32_t i = 0; i < tft_tile_rows(t); i++)
        p->m->kern.softmax(scores + i * TFT_SPAN, span.n * kv->block, &part[i].max, &part[i].sum);
    tft_mix_blocks(p, t, span, scores, o);
}

/* ---------------------------------------------------------------------------------- many tokens */

static void attend_tile(const struct tft_pass *p, const struct tft_tile *t, uint32_t token,
                        const struct tft_attend_scratch *w, const struct tft_input *in)
{
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = t->dim, rows = tft_tile_rows(t), first,
             end = t->side[TFT_KV_K].slot + t->n_tokens;
    struct tft_span_part total[TFT_TILE], part[TFT_TILE];

    uint32_t begin = tft_first_span(t, 0);
    tft_load_queries(p, t, token, w->q);
    attend_span(p, t, begin * TFT_SPAN, w->q, w->scores, w->o, total, &first);
    for (uint32_t b = begin + 1; b * TFT_SPAN < end; b++) {
        attend_span(p, t, b * TFT_SPAN, w->q, w->scores, w->part, part, &first);
        for (uint32_t i = first; i < rows; i++)
            if (tft_first_span(t, i) < b) {
                tft_merge_span(&p->m->kern, w->o + i * dim, &total[i], w->part + i * dim, part[i],
                               dim);
            } else if (tft_first_span(t, i) == b) { /* a window that begins here */
                memcpy(w->o + i * dim, w->part + i * dim, dim * sizeof *w->o);
                total[i] = part[i];
            }
    }
    const float *q = tft_ordered_queries(p, t, w->q);
    for (uint32_t b = 0; b < tft_code_spans(kv, t->side[TFT_KV_K].blocks); b++) {
        attend_codes(p, t, b, q, w->scores, w->part, part,
                     (struct tft_next){tft_tile_kv_head(t), (b + 1) * tft_span_blocks(kv)});
        for (uint32_t i = 0; i < rows; i++)
            tft_merge_span(&p->m->kern, w->o + i * dim, &total[i], w->part + i * dim, part[i], dim);
    }
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t head = t->head * t->group + i % t->group;
        tft_put_head(p, in, token + i / t->group, head, dim, w->o + i * dim,
                     tft_sum_with_sink(t->sinks, head, total[i].max, total[i].sum));
    }
}

static void attend_tiles(struct tft_pass *p, uint32_t layer, const struct tft_queries *queries,
                         const struct tft_input *in)
{
    const struct tft_layer *b = &p->m->layer[layer];
    uint32_t n = queries->n, share = p->m->n_head / b->kv.n, group = tft_tile_group(share),
             heads = p->m->n_head / group, step = tft_tile_tokens(group),
             tiles = (n + step - 1) / step;
    for (uint32_t i = (uint32_t)p->tid; i < tiles * heads; i += (uint32_t)p->n_threads) {
        uint32_t at = i / heads * step;
        struct tft_tile t = {
            .layer = b->kv_layer,
            .head = i % heads,
            .parts = share / group,
            .dim = b->kv.dim,
            .n_tokens = n - at < step ? n - at : step,
            .group = group,
            .window = b->window,
            .sinks = b->sinks,
            .side = {tft_seen_from(&queries->side[TFT_KV_K], at),
                     tft_seen_from(&queries->side[TFT_KV_V], at)},
        };
        attend_tile(p, &t, queries->first + at, &p->s->attend.scratch[p->tid], in);
    }
}

/* ------------------------------------------------------------------------------------ one token */

/* The codes of the i-th (head, span). */
static struct tft_next next_codes(const struct tft_pass *p, const struct tft_tile *t, uint32_t i,
                                  uint32_t spans, uint32_t slot_spans)
{
    uint32_t head = i / spans, b = i % spans;
    bool codes = head < p->m->n_head / t->group && b >= slot_spans;
    return (struct tft_next){head / t->parts, codes ? (b - slot_spans) * tft_span_blocks(&p->s->kv)
                                         : t->side[TFT_KV_K].blocks};
}

/* The spans of one token and all heads, [head][span], into the session's parts. */
static void attend_spans(struct tft_pass *p, struct tft_tile t, uint32_t token, uint32_t slot_spans,
                         uint32_t spans)
{
    struct tft_session *s = p->s;
    const struct tft_attend_scratch *w = &s->attend.scratch[p->tid];
    uint32_t dim = t.dim, heads = p->m->n_head / t.group, first = tft_first_span(&t, 0), unused;
    const float *q = NULL;
    for (uint32_t i = (uint32_t)p->tid; i < spans * heads; i += (uint32_t)p->n_threads) {
        struct tft_span_part part[TFT_TILE];
        uint32_t b = i % spans;
        if (!q || t.head != i / spans) {
            t.head = i / spans;
            tft_load_queries(p, &t, token, w->q);
            q = tft_ordered_queries(p, &t, w->q);
        }
        if (b < slot_spans)
            attend_span(p, &t, (first + b) * TFT_SPAN, w->q, w->scores, w->part, part, &unused);
        else
            attend_codes(p, &t, b - slot_spans, q, w->scores, w->part, part,
                         next_codes(p, &t, i + (uint32_t)p->n_threads, spans, slot_spans));
        for (uint32_t r = 0; r < t.group; r++) {
            size_t at = (size_t)(t.head * t.group + r) * spans + b;
            memcpy(s->attend.part_o + at * dim, w->part + r * dim, dim * sizeof *s->attend.part_o);
            s->attend.part_max[at] = part[r].max;
            s->attend.part_sum[at] = part[r].sum;
        }
    }
}

/* One token: every (head, span) by itself, then the spans of each head are merged in order. */
static void attend_split(struct tft_pass *p, uint32_t layer, const struct tft_queries *queries,
                         const struct tft_input *in)
{
    const struct tft_model *m = p->m;
    const struct tft_session *s = p->s;
    const struct tft_seen *seen = &queries->side[TFT_KV_K];
    const struct tft_layer *block = &m->layer[layer];
    uint32_t share = m->n_head / block->kv.n, group = tft_tile_group(share);
    struct tft_tile t = {.layer = block->kv_layer,
                         .parts = share / group,
                         .dim = block->kv.dim,
                         .n_tokens = 1,
                         .group = group,
                         .side = {queries->side[TFT_KV_K], queries->side[TFT_KV_V]},
                         .window = block->window};
    uint32_t slot_spans = tft_spans(seen->slot + 1) - tft_first_span(&t, 0), dim = t.dim;
    uint32_t spans = slot_spans + tft_code_spans(&s->kv, seen->blocks);
    attend_spans(p, t, queries->first, slot_spans, spans);

    size_t begin, end;
    tft_pass_touch(p, BIT(TFT_PARTS), BIT(tft_attended(p)));
    tft_pass_share(p, m->n_head, &begin, &end);
    for (size_t h = begin; h < end; h++) {
        size_t at = h * spans;
        float *o = s->attend.part_o + at * dim;
        struct tft_span_part total = {s->attend.part_max[at], s->attend.part_sum[at]};
        for (uint32_t b = 1; b < spans; b++) {
            struct tft_span_part part = {s->attend.part_max[at + b], s->attend.part_sum[at + b]};
            tft_merge_span(&m->kern, o, &total, s->attend.part_o + (at + b) * dim, part, dim);
        }
        tft_put_head(p, in, queries->first, h, dim, o,
                     tft_sum_with_sink(block->sinks, h, total.max, total.sum));
    }
}

/* ------------------------------------------------------------------------------------ the whole */

static void attend(struct tft_pass *p, uint32_t layer, const struct tft_queries *queries,
                   const struct tft_input *in)
{
    const struct tft_seen *k = &queries->side[TFT_KV_K];
    bool split = queries->n == 1 && k->slot + k->blocks * p->s->kv.block >= TFT_SPAN;
    bool ring = tft_kv_has_ring(&p->s->kv, p->m->layer[layer].kv_layer);
    if (tft_kv_split(&p->s->kv.policy) && !ring) {
        tft_attend_split(p, layer, queries, in, split);
        return;
    }
    tft_pass_touch(p, BIT(TFT_Q) | BIT(TFT_KV), BIT(split ? TFT_PARTS : tft_attended(p)));
    if (split)
        attend_split(p, layer, queries, in);
    else
        attend_tiles(p, layer, queries, in);
}

static struct tft_seen seen_of(const struct tft_pass *p, uint32_t layer,
                               const struct tft_kv_chunk *c, enum tft_kv_which which, uint32_t skip)
{
    struct tft_kv_place place = tft_kv_place_in(&p->s->kv, p->m->layer[layer].kv_layer, c, which);
    return (struct tft_seen){place.slot + skip, place.blocks, place.owner};
}

/* Each chunk attends before the next one is stored: its tokens may see some that are quantized for
   the next chunk. A layer that shares keys and values stores none, and finds the cache as the last
   chunk sees it. Then all tokens that attend are of the last chunk (feed.c, cut). */
static void attend_chunks(struct tft_pass *p, const struct tft_layer *b)
{
    uint32_t layer = (uint32_t)(b - p->m->layer);
    for (uint32_t i = 0; i < p->plan->n_chunk; i++) {
        const struct tft_kv_chunk *c = &p->plan->chunk[i];
        uint32_t skip = p->first > c->from ? p->first - c->from : 0, first = c->from + skip;
        if (i && b->k.w.rows) /* tft_cpu_kv_append has stored the first chunk */
            store_chunk(p, layer, c);
        if (first < c->to) {
            struct tft_queries queries = {
                .first = first,
                .n = c->to - first,
                .side = {seen_of(p, layer, c, TFT_KV_K, skip),
                         seen_of(p, layer, c, TFT_KV_V, skip)},
            };
            attend(p, layer, &queries, b->o.in);
        }
    }
}

void tft_cpu_attend(struct tft_pass *p, uint32_t layer)
{
    const struct tft_layer *b = &p->m->layer[layer];
    tft_pass_by_seq(p, attend_chunks, b);
    if (tft_attended(p) == TFT_A)
        p->ops->quantize(p, TFT_A, &b->o);
}
