/*
 * The cache and attention over it. For a query q at position t (scaled dot product, Vaswani et al.
 * 2017, eq. 1), span by span as in FlashAttention (Dao et al. 2022, algorithm 1), with the order of
 * everything fixed:
 *
 *   span b holds 256 slots or 256 tokens of blocks; tokens behind t are left out
 *   m_b = max_j q.k_j / sqrt(E)    p_j = exp(q.k_j / sqrt(E) - m_b)
 *   l_b = sum p_j    o_b = sum p_j v_j
 *   spans merge in the order of b, those of slots first, then those of blocks:
 *       m' = max(m, m_b)   l' = l e^(m - m') + l_b e^(m_b - m')   o' likewise
 *   the result is o / l
 *
 * A token's result depends on its position alone: neither on the tokens computed with it, nor on
 * how spans and heads are spread over threads. Many tokens are spread by (head, tile of queries); a
 * single token also by span, because a model with few heads would leave threads idle.
 */
#include "cpu.h"

#include <math.h>
#include <string.h>

#include "simd/expf.h"

/* ------------------------------------------------------------------------------------ the cache */

/* Carries out the chunk's eviction and stores its tokens, by heads: a panel of keys belongs to 16
   tokens. */
static void store_chunk(struct tft_pass *p, uint32_t layer, const struct tft_kv_chunk *c)
{
    const struct tft_kv *kv = &p->s->kv;
    const struct tft_kernels *kern = &p->m->kern;
    size_t begin, end, dim = kv->head_dim;
    tft_pass_touch_heads(p, BIT(TFT_K) | BIT(TFT_V), BIT(TFT_KV), BIT(TFT_K));
    tft_pass_share(p, kv->n_head_kv, &begin, &end);
    for (uint32_t h = (uint32_t)begin; h < end; h++) {
        if (c->evicts)
            tft_kv_evict(kv, kern, layer, h, &c->eviction, p->tid);
        for (uint32_t t = c->from; t < c->to; t++) {
            uint32_t i = t - c->from, sequence = p->each ? i / p->each : 0;
            tft_kv_store(kv, kern, p->each ? sequence : layer, h, c->slot + i - sequence * p->each,
                         tft_pass_row(p, TFT_K, t) + h * dim, tft_pass_row(p, TFT_V, t) + h * dim);
        }
    }
}

void tft_cpu_kv_append(struct tft_pass *p, uint32_t layer)
{
    store_chunk(p, layer, &p->plan->chunk[0]);
}

/* ------------------------------------------------------------------------------------ attention */

struct softmax_part {
    float max, sum;
};

/* A tile of queries of one KV head: row i = token * group + query head, oldest token first. */
struct tile {
    uint32_t layer, head; /* KV head */
    uint32_t slot;        /* of the first token. Each token sees the slots up to its own */
    uint32_t blocks;      /* blocks of codes that all tokens see */
    uint32_t n_tokens, group;
};

/* How many slots of the span at `start` a row sees. */
static uint32_t visible(const struct tile *t, uint32_t row, uint32_t start)
{
    uint32_t end = t->slot + row / t->group + 1;
    return end <= start ? 0 : end - start < TFT_SPAN ? end - start : TFT_SPAN;
}

/* Attends to the span of slots at `start`, for rows from *first_row on; the rows before see none of
   it. scores: [rows, TFT_SPAN]; results o: [rows, E], part: [rows] */
static void attend_span(const struct tft_pass *p, const struct tile *t, uint32_t start,
                        const float *q, float *scores, float *o, struct softmax_part *part,
                        uint32_t *first_row)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = p->m->head_dim, rows = t->n_tokens * t->group, first = 0;
    while (visible(t, first, start) == 0)
        first++;
    *first_row = first;

    kern->score[kv->num](&(struct tft_score){
        .s = scores + first * TFT_SPAN,
        .lds = TFT_SPAN,
        .q = q + first * dim,
        .ldq = dim,
        .k = tft_kv_keys(kv, t->layer, t->head, start),
        .nq = rows - first,
        .n = visible(t, rows - 1, start),
        .head_dim = dim,
        .scale = 1.0f / sqrtf((float)dim),
    });
    for (uint32_t i = first; i < rows; i++)
        kern->softmax(scores + i * TFT_SPAN, visible(t, i, start), &part[i].max, &part[i].sum);

    /* All rows see what the first row sees. What later rows see besides comes after it, in
       order. */
    uint32_t common = visible(t, first, start);
    memset(o + first * dim, 0, (size_t)(rows - first) * dim * sizeof *o);
    kern->mix[kv->num](&(struct tft_mix){
        .o = o + first * dim,
        .ldo = dim,
        .p = scores + first * TFT_SPAN,
        .ldp = TFT_SPAN,
        .v = tft_kv_values(kv, t->layer, t->head, start),
        .nq = rows - first,
        .n = common,
        .head_dim = dim,
    });
    for (uint32_t i = first, n; i < rows; i += n) { /* the queries of one token see the same */
        n = t->group - i % t->group;
        kern->mix[kv->num](&(struct tft_mix){
            .o = o + i * dim,
            .ldo = dim,
            .p = scores + i * TFT_SPAN + common,
            .ldp = TFT_SPAN,
            .v = tft_kv_values(kv, t->layer, t->head, start + common),
            .nq = n,
            .n = visible(t, i, start) - common,
            .head_dim = dim,
        });
    }
}

static uint32_t span_blocks(const struct tft_kv *kv)
{
    return TFT_SPAN / kv->block;
}

/* The tile's queries with their channels in the order that keys have in blocks. */
static const float *ordered_queries(const struct tft_pass *p, const struct tile *t, const float *q)
{
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = kv->head_dim;
    if (!t->blocks || !kv->layer[t->layer].channel)
        return q;
    const uint8_t *channel = kv->layer[t->layer].channel + t->head * dim;
    float *ordered = p->s->scratch[p->tid].ordered_q;
    for (uint32_t i = 0; i < t->n_tokens * t->group; i++)
        for (uint32_t d = 0; d < dim; d++)
            ordered[i * dim + d] = q[i * dim + channel[d]];
    return ordered;
}

/* The block of codes that this thread reads after the span in hand; none if it is tile.blocks. */
struct next {
    uint32_t head, block;
};

static void prefetch(const char *record, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(record + i, 0, 2);
}

/* Records are too short for the hardware to see a stream. So, while the keys of block b are read,
   its values are prefetched, and the i-th block of keys of the next span. One block at a time: more
   of them would wait for each other. */
static void prefetch_codes(const struct tft_pass *p, const struct tile *t, uint32_t b, uint32_t i,
                           struct next next)
{
    const struct tft_kv *kv = &p->s->kv;
    const struct tft_kv_layer *y = &kv->layer[t->layer];
    prefetch(tft_kv_value_record(kv, t->layer, t->head, b), y->v_bytes);
    if (next.block + i < t->blocks)
        prefetch(tft_kv_key_record(kv, t->layer, next.head, next.block + i), y->k_bytes);
}

/* q: ordered_queries; scores: [rows, TFT_SPAN] of blocks first .. first + n - 1 */
static void score_blocks(const struct tft_pass *p, const struct tile *t, uint32_t first, uint32_t n,
                         const float *q, float *scores, struct next next)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = kv->head_dim, rows = t->n_tokens * t->group;
    float factor = 1.0f / sqrtf((float)dim), *key_scales = p->s->scratch[p->tid].key_scales;
    for (uint32_t b = 0; b < n; b++, scores += kv->block) {
        prefetch_codes(p, t, first + b, b, next);
        if (kv->layer[t->layer].k_bits == TFT_KV_BITS_F16) {
            kern->score[TFT_NUM_F16](&(struct tft_score){
                .s = scores,
                .lds = TFT_SPAN,
                .q = q,
                .ldq = dim,
                .k = tft_kv_f16_keys(kv, t->layer, t->head, first + b),
                .nq = rows,
                .n = kv->block,
                .head_dim = dim,
                .scale = factor,
            });
            continue;
        }
        struct tft_coded k = tft_kv_key_codes(kv, kern, t->layer, t->head, first + b, key_scales);
        kern->score_codes(&(struct tft_score_codes){scores, TFT_SPAN, q, dim, &k, rows, factor});
    }
}

static void mix_blocks(const struct tft_pass *p, const struct tile *t, uint32_t first, uint32_t n,
                       const float *scores, float *o)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = kv->head_dim, rows = t->n_tokens * t->group;
    struct tft_coded v[TFT_SPAN / TFT_PANEL];
    memset(o, 0, (size_t)rows * dim * sizeof *o);
    if (kv->layer[t->layer].v_bits == TFT_KV_BITS_F16) {
        for (uint32_t b = 0; b < n; b++, scores += kv->block)
            kern->mix[TFT_NUM_F16](&(struct tft_mix){
                .o = o,
                .ldo = dim,
                .p = scores,
                .ldp = TFT_SPAN,
                .v = tft_kv_f16_values(kv, t->layer, t->head, first + b),
                .nq = rows,
                .n = kv->block,
                .head_dim = dim,
            });
        return;
    }
    float *scales = p->s->scratch[p->tid].value_scales;
    size_t each = 2 * tft_kv_scales(kv, &kv->policy.v);
    for (uint32_t b = 0; b < n; b++)
        v[b] = tft_kv_value_codes(kv, kern, t->layer, t->head, first + b, scales + b * each);
    kern->mix_codes(&(struct tft_mix_codes){o, dim, scores, TFT_SPAN, v, n, rows});
}

/* attend_span for span b of the codes, which all rows see. */
static void attend_codes(const struct tft_pass *p, const struct tile *t, uint32_t b, const float *q,
                         float *scores, float *o, struct softmax_part *part, struct next next)
{
    const struct tft_kv *kv = &p->s->kv;
    uint32_t most = span_blocks(kv), first = b * most, left = t->blocks - first;
    uint32_t n = left < most ? left : most;
    score_blocks(p, t, first, n, q, scores, next);
    for (uint32_t i = 0; i < t->n_tokens * t->group; i++)
        p->m->kern.softmax(scores + i * TFT_SPAN, n * kv->block, &part[i].max, &part[i].sum);
    mix_blocks(p, t, first, n, scores, o);
}

static uint32_t code_spans(const struct tft_kv *kv, uint32_t blocks)
{
    return tft_spans(blocks * kv->block);
}

static void merge(const struct tft_kernels *kern, float *o, struct softmax_part *into,
                  const float *o_b, struct softmax_part b, uint32_t dim)
{
    float max = into->max > b.max ? into->max : b.max;
    float old = tft_expf(into->max - max), new = tft_expf(b.max - max);
    kern->blend(o, old, o_b, new, dim);
    into->sum = fmaf(b.sum, new, into->sum * old);
    into->max = max;
}

static void load_queries(const struct tft_pass *p, const struct tile *t, uint32_t token, float *q)
{
    uint32_t width = t->group * p->m->head_dim;
    for (uint32_t i = 0; i < t->n_tokens; i++)
        memcpy(q + i * width, tft_pass_row(p, TFT_Q, token + i) + t->head * width,
               width * sizeof *q);
}

/* A head's result [E], in the form that o takes; it is divided by `sum` in place first. */
static void put_head(const struct tft_pass *p, const struct tft_input *in, uint32_t token,
                     size_t head, float *result, float sum)
{
    const struct tft_kernels *kern = &p->m->kern;
    size_t dim = p->m->head_dim;
    kern->scale(result, 1.0f / sum, dim);
    if (in->range == TFT_RANGE_STATIC)
        kern->quantize(tft_pass_bytes(p, TFT_A, token) + head * dim, result, dim, &in->affine);
    else
        memcpy(tft_pass_row(p, TFT_A, token) + head * dim, result, dim * sizeof *result);
}

static void attend_tile(const struct tft_pass *p, const struct tile *t, uint32_t token,
                        const struct tft_attend_scratch *w, const struct tft_input *in)
{
    uint32_t dim = p->m->head_dim, rows = t->n_tokens * t->group, end = t->slot + t->n_tokens;
    uint32_t first;
    struct softmax_part total[TFT_TILE], part[TFT_TILE];

    load_queries(p, t, token, w->q);
    attend_span(p, t, 0, w->q, w->scores, w->o, total, &first);
    for (uint32_t start = TFT_SPAN; start < end; start += TFT_SPAN) {
        attend_span(p, t, start, w->q, w->scores, w->part, part, &first);
        for (uint32_t i = first; i < rows; i++)
            merge(&p->m->kern, w->o + i * dim, &total[i], w->part + i * dim, part[i], dim);
    }
    const float *q = ordered_queries(p, t, w->q);
    for (uint32_t b = 0; b < code_spans(&p->s->kv, t->blocks); b++) {
        attend_codes(p, t, b, q, w->scores, w->part, part,
                     (struct next){t->head, (b + 1) * span_blocks(&p->s->kv)});
        for (uint32_t i = 0; i < rows; i++)
            merge(&p->m->kern, w->o + i * dim, &total[i], w->part + i * dim, part[i], dim);
    }
    for (uint32_t i = 0; i < rows; i++)
        put_head(p, in, token + i / t->group, t->head * t->group + i % t->group, w->o + i * dim,
                 total[i].sum);
}

/* Tokens of a chunk that attend: n from token `first` of the pass on. */
struct queries {
    uint32_t first, n;
    uint32_t slot, blocks; /* as in struct tile */
};

static void attend_tiles(struct tft_pass *p, uint32_t layer, const struct queries *queries,
                         const struct tft_input *in)
{
    const struct tft_model *m = p->m;
    uint32_t group = m->n_head / m->n_head_kv, step = group >= TFT_TILE ? 1 : TFT_TILE / group;
    uint32_t n = queries->n, each = p->each ? p->each : n, sequences = p->each ? n / each : 1;
    uint32_t tiles = (each + step - 1) / step, all = sequences * tiles * m->n_head_kv;
    for (uint32_t i = (uint32_t)p->tid; i < all; i += (uint32_t)p->n_threads) {
        uint32_t sequence = i / m->n_head_kv / tiles, at = i / m->n_head_kv % tiles * step;
        struct tile t = {
            .layer = p->each ? sequence : layer,
            .head = i % m->n_head_kv,
            .slot = queries->slot + at,
            .blocks = queries->blocks,
            .n_tokens = each - at < step ? each - at : step,
            .group = group,
        };
        attend_tile(p, &t, queries->first + sequence * each + at, &p->s->scratch[p->tid], in);
    }
}

/* The codes of the i-th (head, span). */
static struct next next_codes(const struct tft_pass *p, const struct tile *t, uint32_t i,
                              uint32_t spans, uint32_t slot_spans)
{
    uint32_t head = i / spans, b = i % spans;
    bool codes = head < p->m->n_head_kv && b >= slot_spans;
    return (struct next){head, codes ? (b - slot_spans) * span_blocks(&p->s->kv) : t->blocks};
}

/* The spans of one token and all heads, [head][span], into the session's parts. */
static void attend_spans(struct tft_pass *p, struct tile t, uint32_t token, uint32_t slot_spans,
                         uint32_t spans)
{
    struct tft_session *s = p->s;
    const struct tft_attend_scratch *w = &s->scratch[p->tid];
    uint32_t dim = p->m->head_dim, unused;
    const float *q = NULL;
    for (uint32_t i = (uint32_t)p->tid; i < spans * p->m->n_head_kv; i += (uint32_t)p->n_threads) {
        struct softmax_part part[TFT_TILE];
        uint32_t b = i % spans;
        if (!q || t.head != i / spans) {
            t.head = i / spans;
            load_queries(p, &t, token, w->q);
            q = ordered_queries(p, &t, w->q);
        }
        if (b < slot_spans)
            attend_span(p, &t, b * TFT_SPAN, w->q, w->scores, w->part, part, &unused);
        else
            attend_codes(p, &t, b - slot_spans, q, w->scores, w->part, part,
                         next_codes(p, &t, i + (uint32_t)p->n_threads, spans, slot_spans));
        for (uint32_t r = 0; r < t.group; r++) {
            size_t at = (size_t)(t.head * t.group + r) * spans + b;
            memcpy(s->part_o + at * dim, w->part + r * dim, dim * sizeof *s->part_o);
            s->part_max[at] = part[r].max;
            s->part_sum[at] = part[r].sum;
        }
    }
}

/* One token: every (head, span) by itself, then the spans of each head are merged in order. */
static void attend_split(struct tft_pass *p, uint32_t layer, const struct queries *queries,
                         const struct tft_input *in)
{
    const struct tft_model *m = p->m;
    const struct tft_session *s = p->s;
    uint32_t slot_spans = tft_spans(queries->slot + 1), dim = m->head_dim;
    uint32_t spans = slot_spans + code_spans(&s->kv, queries->blocks);
    struct tile t = {.layer = layer,
                     .slot = queries->slot,
                     .blocks = queries->blocks,
                     .n_tokens = 1,
                     .group = m->n_head / m->n_head_kv};
    attend_spans(p, t, queries->first, slot_spans, spans);

    size_t begin, end;
    tft_pass_touch(p, BIT(TFT_PARTS), BIT(TFT_A));
    tft_pass_share(p, m->n_head, &begin, &end);
    for (size_t h = begin; h < end; h++) {
        size_t at = h * spans;
        float *o = s->part_o + at * dim;
        struct softmax_part total = {s->part_max[at], s->part_sum[at]};
        for (uint32_t b = 1; b < spans; b++) {
            struct softmax_part part = {s->part_max[at + b], s->part_sum[at + b]};
            merge(&m->kern, o, &total, s->part_o + (at + b) * dim, part, dim);
        }
        put_head(p, in, queries->first, h, o, total.sum);
    }
}

static void attend(struct tft_pass *p, uint32_t layer, const struct queries *queries,
                   const struct tft_input *in)
{
    uint32_t seen = queries->slot + queries->blocks * p->s->kv.block;
    bool split = queries->n == 1 && seen >= TFT_SPAN && !p->each;
    tft_pass_touch(p, BIT(TFT_Q) | BIT(TFT_KV), split ? BIT(TFT_PARTS) : BIT(TFT_A));
    if (split)
        attend_split(p, layer, queries, in);
    else
        attend_tiles(p, layer, queries, in);
}

/* Each chunk attends before the next one is stored: its tokens may see some that are evicted for
   the next chunk. */
void tft_cpu_attend(struct tft_pass *p, uint32_t layer, const struct tft_linear *o)
{
    for (uint32_t i = 0; i < p->plan->n_chunk; i++) {
        const struct tft_kv_chunk *c = &p->plan->chunk[i];
        uint32_t skip = p->first > c->from ? p->first - c->from : 0, first = c->from + skip;
        if (i) /* tft_cpu_kv_append has stored the first chunk */
            store_chunk(p, layer, c);
        if (first < c->to) {
            struct queries queries = {first, c->to - first, c->slot + skip, c->blocks};
            attend(p, layer, &queries, o->in);
        }
    }
    tft_cpu_quantize(p, TFT_A, o->in);
}
