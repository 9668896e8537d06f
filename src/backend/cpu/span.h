/*
 * Attention within one span of the cache, 256 slots or 256 tokens of blocks: the scores of its keys
 * and the mix of its values, for a tile of queries. attend.c and split.c put the spans together.
 */
#ifndef TFT_CPU_SPAN_H
#define TFT_CPU_SPAN_H

#include "cpu.h"

/* The keys, or the values, that the first token of a tile sees: the slots up to its own. The next
   token sees one slot more, and so on. All of them see the same blocks. */
struct tft_seen {
    uint32_t slot, blocks;
    const uint32_t *owner; /* of the slots, with split retention: struct tft_kv_place */
};

/* The keys, or the values, that a token sees n tokens later. */
static inline struct tft_seen tft_seen_from(const struct tft_seen *s, uint32_t n)
{
    return (struct tft_seen){s->slot + n, s->blocks, s->owner};
}

/* A tile of queries of one KV head: row i = token * group + query head, oldest token first. If more
   query heads share a KV head than a tile has rows, several tiles have a part of the heads each. */
struct tft_tile {
    uint32_t layer, head; /* layer of the cache; number of the group of query heads */
    uint32_t parts;       /* groups that share a KV head */
    uint32_t dim;         /* E of the layer */
    uint32_t n_tokens, group;
    struct tft_seen side[TFT_KV_SIDES];
    uint32_t window; /* window of the layer; 0: none. With a window, slots are positions, and there
                        are no blocks */
    const float *sinks; /* [H] of the layer, or NULL */
};

/* Query heads of a tile, if `share` heads share a KV head: all, or the largest equal part that
   fits. */
static inline uint32_t tft_tile_group(uint32_t share)
{
    uint32_t group = share < TFT_TILE ? share : TFT_TILE;
    while (share % group)
        group--;
    return group;
}

/* The KV head that a tile reads. */
static inline uint32_t tft_tile_kv_head(const struct tft_tile *t)
{
    return t->head / t->parts;
}

/* The most tokens of a tile of `group` query heads. */
static inline uint32_t tft_tile_tokens(uint32_t group)
{
    return group >= TFT_TILE ? 1 : TFT_TILE / group;
}

static inline uint32_t tft_tile_rows(const struct tft_tile *t)
{
    return t->n_tokens * t->group;
}

/* How many slots of the span at `start` a row sees. */
static inline uint32_t tft_visible(const struct tft_tile *t, enum tft_kv_which which, uint32_t row,
                                   uint32_t start)
{
    uint32_t end = t->side[which].slot + row / t->group + 1;
    return end <= start ? 0 : end - start < TFT_SPAN ? end - start : TFT_SPAN;
}

/* The first slot that a row sees. */
static inline uint32_t tft_first_slot(const struct tft_tile *t, uint32_t row)
{
    uint32_t end = t->side[TFT_KV_K].slot + row / t->group + 1;
    return t->window && end > t->window ? end - t->window : 0;
}

/* The span of slots in which a row begins to see. */
static inline uint32_t tft_first_span(const struct tft_tile *t, uint32_t row)
{
    return tft_first_slot(t, row) / TFT_SPAN;
}

/* The first row that sees any of the span; a tile is only given spans that a row sees. */
static inline uint32_t tft_first_row(const struct tft_tile *t, enum tft_kv_which which,
                                     uint32_t start)
{
    uint32_t first = 0;
    while (tft_visible(t, which, first, start) == 0)
        first++;
    return first;
}

/* Blocks of a span, and spans of blocks. */
static inline uint32_t tft_span_blocks(const struct tft_kv *kv)
{
    return TFT_SPAN / kv->block;
}

static inline uint32_t tft_code_spans(const struct tft_kv *kv, uint32_t blocks)
{
    return tft_spans(blocks * kv->block);
}

/* The blocks that are seen in span b of the blocks: n from block `from` on. */
struct tft_code_span {
    uint32_t from, n;
};

static inline struct tft_code_span tft_code_span(const struct tft_kv *kv,
                                                 const struct tft_seen *seen, uint32_t b)
{
    uint32_t most = tft_span_blocks(kv), from = b * most, left = seen->blocks - from;
    return (struct tft_code_span){from, left < most ? left : most};
}

/* q: [rows, E] gets the tile's queries; `token` is that of row 0 in the pass. */
void tft_load_queries(const struct tft_pass *p, const struct tft_tile *t, uint32_t token, float *q);

/* The queries with their channels in the order that keys have in blocks: q, or this thread's
   workspace. */
const float *tft_ordered_queries(const struct tft_pass *p, const struct tft_tile *t,
                                 const float *q);

/* Caps n scores, if the model does. */
void tft_cap_scores(const struct tft_model *m, float *scores, size_t n);

/* scores: [rows, TFT_SPAN] of the slots from `start` on, for rows first and on; q: [rows, E] */
void tft_score_slots(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                     uint32_t first, const float *q, float *scores);

/* o: [rows, E] = the values of the slots from `start` on, times their weights, summed; for rows
   first and on. weights: [rows, TFT_SPAN] */
void tft_mix_slots(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                   uint32_t first, const float *weights, float *o);

/* The block of keys that this thread reads after the span in hand; none if the tile does not see
   it. */
struct tft_next {
    uint32_t head, block;
};

/* tft_score_slots and tft_mix_slots for the blocks of a span, which all rows see. q:
   tft_ordered_queries. The next reads are prefetched: the keys of `next` and, if `values`, the
   values of the same blocks. The weights may change. */
void tft_score_blocks(const struct tft_pass *p, const struct tft_tile *t,
                      struct tft_code_span span, const float *q, float *scores,
                      struct tft_next next, bool values);
void tft_mix_blocks(const struct tft_pass *p, const struct tft_tile *t, struct tft_code_span span,
                    float *weights, float *o);

/* ---- fisher.c: blocks of FISHER keys and values */

/* Call before the first blocks of a head, with the tile's queries: turns the means of its keys, and
   scores its exact tokens. */
void tft_fisher_begin(const struct tft_pass *p, const struct tft_tile *t, const float *q);

/* For tft_score_blocks, all blocks of the span at once, and for tft_mix_blocks. */
void tft_score_fisher(const struct tft_pass *p, const struct tft_tile *t,
                      struct tft_code_span span, const float *q, float *scores);
void tft_mix_fisher(const struct tft_pass *p, const struct tft_tile *t, struct tft_code_span span,
                    float *weights, float *o);

/* The sum of a head's weights exp(score - max), and that of its sink, a score without a value. */
float tft_sum_with_sink(const float *sinks, size_t head, float max, float sum);

/* The buffer of attention's results. In latent attention they are not values yet. */
static inline enum tft_buf tft_attended(const struct tft_pass *p)
{
    return p->m->latent.rank ? TFT_M : TFT_A;
}

/* Stores a head's result [dim] in the form that `in` takes. First divides it by `sum` in place. */
void tft_put_head(const struct tft_pass *p, const struct tft_input *in, uint32_t token, size_t head,
                  uint32_t dim, float *result, float sum);

/* The softmax of a span: m_b and l_b of attend.c. */
struct tft_span_part {
    float max, sum;
};

/* Merges the result of a span, o_b and b, into that of the spans before it, o: [dim] and *into. */
void tft_merge_span(const struct tft_kernels *kern, float *o, struct tft_span_part *into,
                    const float *o_b, struct tft_span_part b, uint32_t dim);

/* ---- int8.c: slots of bytes */

/* Makes bytes of the tile's queries q, [rows, E], in this thread's workspace. */
void tft_byte_queries(const struct tft_pass *p, const struct tft_tile *t, const float *q);

/* Attends to the span of slots at `start`, for rows first and on. scores: [rows, TFT_SPAN], a
   workspace; o: [rows, E]; part: [rows] */
void tft_attend_int8(const struct tft_pass *p, const struct tft_tile *t, uint32_t start,
                     uint32_t first, float *scores, float *o, struct tft_span_part *part);

/* ---- split.c: attention with split retention */

/* Tokens of a chunk that attend: n from token `first` of the pass on. */
struct tft_queries {
    uint32_t first, n;
    struct tft_seen side[TFT_KV_SIDES];
};

/* split: there is one token, and threads share its spans. */
void tft_attend_split(struct tft_pass *p, uint32_t layer, const struct tft_queries *queries,
                      const struct tft_input *in, bool split);

#endif
