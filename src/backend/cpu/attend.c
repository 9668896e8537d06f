/*
 * Attention over the cache. For a query q at position t (scaled dot product, Vaswani et al. 2017,
 * eq. 1), span by span as in FlashAttention (Dao et al. 2022, algorithm 1), with the order of
 * everything fixed:
 *
 *   span b holds positions 256 b .. 256 b + 255, those beyond t left out
 *   m_b = max_j q.k_j / sqrt(E)    p_j = exp(q.k_j / sqrt(E) - m_b)    l_b = sum p_j    o_b = sum
 *                                  p_j v_j
 *   spans merge in the order of b:  m' = max(m, m_b)   l' = l e^(m - m') + l_b e^(m_b - m')   o'
 *                                   likewise
 *   the result is o / l
 *
 * Slots come first (retain.h), then blocks of codes, 256 tokens of them to a span.
 *
 * What a token gets depends on its position alone: not on the tokens computed with it, nor on how
 * spans and heads were spread over threads. Many tokens are spread by (head, tile of queries); a
 * single one also by span, or else a model with few heads would leave threads idle.
 */
#include <math.h>
#include <string.h>

#include "backend/device.h"
#include "simd/expf.h"

#define BIT(buf) (1u << (buf))

struct softmax_part {
    float max, sum;
};

/* A tile of queries of one KV head: rows i = token * group + query head, oldest token first. */
struct tile {
    uint32_t layer, head; /* KV head */
    uint32_t slot;        /* of the first token: its position, unless the cache is a quantized
                             one */
    uint32_t blocks;      /* of codes, that all of them see */
    uint32_t n_tokens, group;
};

/* Keys of the span of slots that row i may see. */
static uint32_t visible(const struct tile *t, uint32_t row, uint32_t start)
{
    uint32_t end = t->slot + row / t->group + 1;
    return end <= start ? 0 : end - start < TFT_SPAN ? end - start : TFT_SPAN;
}

/* o: [rows, E], part: [rows] from the span at `start`, for rows from *first_row on: those before
   see none of it. */
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

    /* what the first row sees, all see; what the later ones see besides comes after it, in order */
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
    for (uint32_t i = first, n; i < rows; i += n) { /* the queries of a token see the same */
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

/* Blocks of a span of codes. */
static uint32_t span_blocks(const struct tft_kv *kv)
{
    return TFT_CODED_SPAN / kv->block;
}

/* The tile's queries with their channels in the order of the keys in blocks. */
static const float *block_queries(const struct tft_pass *p, const struct tile *t, const float *q)
{
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = kv->head_dim;
    if (!t->blocks || !kv->layer[t->layer].channel)
        return q;
    const uint8_t *channel = kv->layer[t->layer].channel + t->head * dim;
    float *ordered = kv->scratch[p->tid].q;
    for (uint32_t i = 0; i < t->n_tokens * t->group; i++)
        for (uint32_t d = 0; d < dim; d++)
            ordered[i * dim + d] = q[i * dim + channel[d]];
    return ordered;
}

/* The block of codes where what is read next begins; nothing if it is tile.blocks. */
struct next {
    uint32_t head, block;
};

static void prefetch(const char *record, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(record + i, 0, 2);
}

/* Records are too short for the hardware to see a stream, so what comes after the keys of block b
   is asked for while they are read: its values, and the i-th block of keys of what is next. A block
   at a time, as more would wait for one another. */
static void prefetch_codes(const struct tft_pass *p, const struct tile *t, uint32_t b, uint32_t i,
                           struct next next)
{
    const struct tft_kv *kv = &p->s->kv;
    const struct tft_coded_layer *y = &kv->layer[t->layer];
    prefetch(tft_coded_value_record(kv, t->layer, t->head, b), y->v_bytes);
    if (next.block + i < t->blocks)
        prefetch(tft_coded_key_record(kv, t->layer, next.head, next.block + i), y->k_bytes);
}

/* q: block_queries; scores: [rows, TFT_SPAN] of blocks first .. first + n - 1 */
static void score_blocks(const struct tft_pass *p, const struct tile *t, uint32_t first, uint32_t n,
                         const float *q, float *scores, struct next next)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_kv *kv = &p->s->kv;
    const struct tft_coded_scratch *w = &kv->scratch[p->tid];
    uint32_t dim = kv->head_dim, rows = t->n_tokens * t->group;
    float factor = 1.0f / sqrtf((float)dim);
    for (uint32_t b = 0; b < n; b++, scores += kv->block) {
        prefetch_codes(p, t, first + b, b, next);
        if (kv->layer[t->layer].k_bits == TFT_KV_BITS_F16) {
            kern->score[TFT_NUM_F16](&(struct tft_score){
                .s = scores,
                .lds = TFT_SPAN,
                .q = q,
                .ldq = dim,
                .k = tft_coded_f16_keys(kv, t->layer, t->head, first + b),
                .nq = rows,
                .n = kv->block,
                .head_dim = dim,
                .scale = factor,
            });
            continue;
        }
        struct tft_coded k = tft_coded_keys(kv, kern, t->layer, t->head, first + b, w->scales[0]);
        kern->score_codes(&(struct tft_score_codes){scores, TFT_SPAN, q, dim, &k, rows, factor});
    }
}

static void mix_blocks(const struct tft_pass *p, const struct tile *t, uint32_t first, uint32_t n,
                       const float *scores, float *o)
{
    const struct tft_kernels *kern = &p->m->kern;
    const struct tft_kv *kv = &p->s->kv;
    uint32_t dim = kv->head_dim, rows = t->n_tokens * t->group;
    struct tft_coded v[TFT_CODED_SPAN / TFT_PANEL];
    memset(o, 0, (size_t)rows * dim * sizeof *o);
    if (kv->layer[t->layer].v_bits == TFT_KV_BITS_F16) {
        for (uint32_t b = 0; b < n; b++, scores += kv->block)
            kern->mix[TFT_NUM_F16](&(struct tft_mix){
                .o = o,
                .ldo = dim,
                .p = scores,
                .ldp = TFT_SPAN,
                .v = tft_coded_f16_values(kv, t->layer, t->head, first + b),
                .nq = rows,
                .n = kv->block,
                .head_dim = dim,
            });
        return;
    }
    for (uint32_t b = 0; b < n; b++)
        v[b] = tft_coded_values(kv, kern, t->layer, t->head, first + b,
                                kv->scratch[p->tid].scales[1] +
                                    b * tft_coded_scales(kv, &kv->policy.v));
    kern->mix_codes(&(struct tft_mix_codes){o, dim, scores, TFT_SPAN, v, n, rows});
}

/* attend_span for span b of the codes, which all rows see. */
static void attend_codes(const struct tft_pass *p, const struct tile *t, uint32_t b, const float *q,
                         float *scores, float *o, struct softmax_part *part, struct next next)
{
    const struct tft_kv *kv = &p->s->kv;
    uint32_t most = span_blocks(kv), first = b * most,
             n = t->blocks - first < most ? t->blocks - first : most;
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
    uint32_t dim = p->m->head_dim, rows = t->n_tokens * t->group, end = t->slot + t->n_tokens,
             first;
    struct softmax_part total[TFT_TILE], part[TFT_TILE];

    load_queries(p, t, token, w->q);
    attend_span(p, t, 0, w->q, w->scores, w->o, total, &first);
    for (uint32_t start = TFT_SPAN; start < end; start += TFT_SPAN) {
        attend_span(p, t, start, w->q, w->scores, w->part, part, &first);
        for (uint32_t i = first; i < rows; i++)
            merge(&p->m->kern, w->o + i * dim, &total[i], w->part + i * dim, part[i], dim);
    }
    const float *q = block_queries(p, t, w->q);
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

/* Some tokens of a pass, and where the first of them is. */
struct some {
    uint32_t first, n;
    uint32_t slot, blocks; /* as in struct tile */
};

static void attend_tiles(struct tft_pass *p, uint32_t layer, const struct some *some,
                         const struct tft_input *in)
{
    const struct tft_model *m = p->m;
    uint32_t group = m->n_head / m->n_head_kv, step = group >= TFT_TILE ? 1 : TFT_TILE / group;
    uint32_t n = some->n, each = p->each ? p->each : n, sequences = p->each ? n / each : 1,
             tiles = (each + step - 1) / step;
    for (uint32_t i = (uint32_t)p->tid; i < sequences * tiles * m->n_head_kv;
         i += (uint32_t)p->n_threads) {
        uint32_t sequence = i / m->n_head_kv / tiles, at = i / m->n_head_kv % tiles * step,
                 token = some->first + sequence * each + at;
        struct tile t = {
            .layer = p->each ? sequence : layer,
            .head = i % m->n_head_kv,
            .slot = some->slot + at,
            .blocks = some->blocks,
            .n_tokens = each - at < step ? each - at : step,
            .group = group,
        };
        attend_tile(p, &t, token, &p->s->scratch[p->tid], in);
    }
}

/* What the i-th (head, span) has of codes. */
static struct next next_codes(const struct tft_pass *p, const struct tile *t, uint32_t i,
                              uint32_t spans, uint32_t slot_spans)
{
    uint32_t head = i / spans, b = i % spans;
    return (struct next){head, head < p->m->n_head_kv && b >= slot_spans
                                   ? (b - slot_spans) * span_blocks(&p->s->kv)
                                   : t->blocks};
}

/* One token: every (head, span) by itself, then every head's spans in order. */
static void attend_split(struct tft_pass *p, uint32_t layer, const struct some *some,
                         const struct tft_input *in)
{
    const struct tft_model *m = p->m;
    struct tft_session *s = p->s;
    const struct tft_attend_scratch *w = &s->scratch[p->tid];
    uint32_t dim = m->head_dim, group = m->n_head / m->n_head_kv, token = some->first;
    uint32_t slot_spans = tft_spans(some->slot + 1),
             spans = slot_spans + code_spans(&s->kv, some->blocks), unused;
    struct tile t = {
        .layer = layer, .slot = some->slot, .blocks = some->blocks, .n_tokens = 1, .group = group};

    const float *q = NULL;
    for (uint32_t i = (uint32_t)p->tid; i < spans * m->n_head_kv; i += (uint32_t)p->n_threads) {
        struct softmax_part part[TFT_TILE];
        uint32_t b = i % spans;
        if (!q || t.head != i / spans) {
            t.head = i / spans;
            load_queries(p, &t, token, w->q);
            q = block_queries(p, &t, w->q);
        }
        if (b < slot_spans)
            attend_span(p, &t, b * TFT_SPAN, w->q, w->scores, w->part, part, &unused);
        else
            attend_codes(p, &t, b - slot_spans, q, w->scores, w->part, part,
                         next_codes(p, &t, i + (uint32_t)p->n_threads, spans, slot_spans));
        for (uint32_t r = 0; r < group; r++) {
            size_t at = (size_t)(t.head * group + r) * spans + b;
            memcpy(s->part_o + at * dim, w->part + r * dim, dim * sizeof *s->part_o);
            s->part_max[at] = part[r].max;
            s->part_sum[at] = part[r].sum;
        }
    }

    size_t begin, end;
    tft_pass_touch(p, BIT(TFT_PARTS), BIT(TFT_A));
    tft_pass_share(p, m->n_head, &begin, &end);
    for (size_t h = begin; h < end; h++) {
        size_t at = h * spans;
        float *o = s->part_o + at * dim;
        struct softmax_part total = {s->part_max[at], s->part_sum[at]};
        for (uint32_t b = 1; b < spans; b++)
            merge(&m->kern, o, &total, s->part_o + (at + b) * dim,
                  (struct softmax_part){s->part_max[at + b], s->part_sum[at + b]}, dim);
        put_head(p, in, token, h, o, total.sum);
    }
}

static void attend(struct tft_pass *p, uint32_t layer, const struct some *some,
                   const struct tft_input *in)
{
    if (some->n == 1 && some->slot + some->blocks * p->s->kv.block >= TFT_SPAN && !p->each) {
        tft_pass_touch(p, BIT(TFT_Q) | BIT(TFT_KV), BIT(TFT_PARTS));
        attend_split(p, layer, some, in);
    } else {
        tft_pass_touch(p, BIT(TFT_Q) | BIT(TFT_KV), BIT(TFT_A));
        attend_tiles(p, layer, some, in);
    }
}

/* A chunk of the pass attends before the next one comes, for which tokens that it sees may be
   quantized. */
static void attend_chunks(struct tft_pass *p, uint32_t layer, const struct tft_input *in)
{
    const struct tft_kv *kv = &p->s->kv;
    struct tft_retained at = kv->at;
    for (uint32_t from = 0; from < p->n;) {
        struct tft_chunk c = tft_retain_chunk(&kv->policy, &at, from, p->n);
        uint32_t skip = p->first > from ? p->first - from : 0;
        if (from) /* the first one has been stored by tft_kv_append */
            tft_kv_chunk(p, layer, &c);
        if (from + skip < c.to) {
            struct some some = {from + skip, c.to - from - skip, kv->n_prefix + c.slot + skip,
                                c.blocks};
            attend(p, layer, &some, in);
        }
        from = c.to;
    }
}

void tft_attend(struct tft_pass *p, uint32_t layer, const struct tft_linear *o)
{
    if (p->on) {
        p->on->attend(p, layer, o);
        return;
    }
    if (p->s->kv.policy.coded)
        attend_chunks(p, layer, o->in);
    else
        attend(p, layer,
               &(struct some){p->first, p->n - p->first,
                              tft_pass_position(p, p->first) - p->s->dropped, 0},
               o->in);
    tft_pass_quantize(p, TFT_A, o->in);
}
