/*
 * Attention within whole texts, of an encoder: as in attend.c, span by span of at most 256 tokens,
 * but a token sees the tokens after it, too. Keys and values of the pass lie in the workspace, as
 * floats, and nothing of them stays.
 *
 *   a token t of a layer with window w sees tokens t - w / 2 .. t + w / 2
 *   with slopes (ALiBi: Press et al. 2022, section 3), a score of head h falls by
 *   slope[h] * |t - j|
 *
 * A text's results depend on the text alone: spans and tiles of queries are counted from its first
 * token, wherever that is in the pass.
 */
#include "span.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------ keys and values */

static uint32_t panels_of(const struct tft_seq *seq)
{
    return (seq->n + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL;
}

static float *keys(const struct tft_pass *p, uint32_t head, uint32_t panel, uint32_t dim)
{
    const struct tft_texts_work *x = &p->work->texts;
    return x->keys + ((size_t)head * x->n_panels + panel) * TFT_KEY_PANEL * dim;
}

static float *values(const struct tft_pass *p, uint32_t head, uint32_t panel, uint32_t dim)
{
    const struct tft_texts_work *x = &p->work->texts;
    return x->values + ((size_t)head * x->n_panels + panel) * TFT_KEY_PANEL * dim;
}

/* One panel of a head: n tokens from token `at` of the pass on. */
static void store_panel(const struct tft_pass *p, uint32_t head, uint32_t panel, uint32_t at,
                        uint32_t n, uint32_t dim)
{
    float *k = keys(p, head, panel, dim), *v = values(p, head, panel, dim);
    if (n < TFT_KEY_PANEL)
        memset(k, 0, (size_t)dim * TFT_KEY_PANEL * sizeof *k);
    for (uint32_t i = 0; i < n; i++) {
        const float *from = tft_pass_row(p, TFT_K, at + i) + (size_t)head * dim;
        for (uint32_t d = 0; d < dim; d++)
            k[d * TFT_KEY_PANEL + i] = from[d];
        memcpy(v + (size_t)i * dim, tft_pass_row(p, TFT_V, at + i) + (size_t)head * dim,
               dim * sizeof *v);
    }
}

/* Threads share the panels of the pass. */
static void store(struct tft_pass *p, const struct tft_layer *b)
{
    size_t begin, end;
    const struct tft_seq *last = &p->seq[p->n_seq - 1], *seq = p->seq;
    tft_pass_touch(p, BIT(TFT_K) | BIT(TFT_V), BIT(TFT_KV));
    tft_pass_share(p, last->panel + panels_of(last), &begin, &end);
    for (size_t panel = begin; panel < end; panel++) {
        while (panel >= seq->panel + panels_of(seq))
            seq++;
        uint32_t from = ((uint32_t)panel - seq->panel) * TFT_KEY_PANEL, left = seq->n - from;
        for (uint32_t head = 0; head < b->kv.n; head++)
            store_panel(p, head, (uint32_t)panel, seq->at + from,
                        left < TFT_KEY_PANEL ? left : TFT_KEY_PANEL, b->kv.dim);
    }
}

/* --------------------------------------------------------------------------------------- a tile */

/* Queries of one text that share a KV head: row i = token * group + query head, as in span.h. */
struct tile {
    const struct tft_seq *seq;
    uint32_t head, group; /* number of the group of query heads; its heads */
    uint32_t kv_head;
    uint32_t first, n; /* tokens of the text */
    uint32_t reach;    /* tokens that a token sees on each side */
    uint32_t dim;
};

/* Tokens of the text: begin .. end - 1. */
struct range {
    uint32_t begin, end;
};

static struct range seen_by(const struct tile *t, uint32_t row)
{
    uint32_t at = t->first + row / t->group, n = t->seq->n;
    return (struct range){at > t->reach ? at - t->reach : 0,
                          n - at > t->reach ? at + t->reach + 1 : n};
}

static void load_queries(const struct tft_pass *p, const struct tile *t, float *q)
{
    size_t width = (size_t)t->group * t->dim;
    for (uint32_t i = 0; i < t->n; i++)
        memcpy(q + i * width, tft_pass_row(p, TFT_Q, t->seq->at + t->first + i) + t->head * width,
               width * sizeof *q);
}

/* Scores of the row, of tokens `from` on, fall with their distance. */
static void slope(const struct tft_pass *p, const struct tile *t, uint32_t row, uint32_t from,
                  float *scores, uint32_t n)
{
    float by = p->m->slopes[t->head * t->group + row % t->group];
    int32_t at = (int32_t)(t->first + row / t->group) - (int32_t)from;
    for (int32_t j = 0; j < (int32_t)n; j++)
        scores[j] -= by * (float)(j < at ? at - j : j - at);
}

/* The weights of a row of scores, of the tokens of `span`: 0 for tokens that the row does not see.
   False: it sees none of them. */
static bool weigh(const struct tft_pass *p, const struct tile *t, uint32_t row, struct range span,
                  float *scores, struct tft_span_part *part)
{
    struct range seen = seen_by(t, row);
    uint32_t all = span.end - span.begin,
             n = seen.end < span.end ? seen.end > span.begin ? seen.end - span.begin : 0 : all;
    bool sees = n && seen.begin < span.begin + n;
    if (!sees)
        n = 0;
    memset(scores + n, 0, (all - n) * sizeof *scores);
    if (!sees)
        return false;
    if (p->m->slopes)
        slope(p, t, row, span.begin, scores, n);
    tft_cap_scores(p->m, scores, n);
    for (uint32_t j = 0; span.begin + j < seen.begin; j++)
        scores[j] = -INFINITY;
    p->m->kern.softmax(scores, n, &part->max, &part->sum);
    return true;
}

/* Attends to the tokens of `span`, which begins with a panel, into o: [rows, E]. sees: [rows] */
static void attend_span(const struct tft_pass *p, const struct tile *t, struct range span,
                        const struct tft_attend_scratch *w, float *o, struct tft_span_part *part,
                        bool *sees)
{
    uint32_t rows = t->n * t->group, panel = t->seq->panel + span.begin / TFT_KEY_PANEL;
    p->m->kern.score[TFT_NUM_F32](&(struct tft_score){
        .s = w->scores,
        .lds = TFT_SPAN,
        .q = w->q,
        .ldq = t->dim,
        .k = keys(p, t->kv_head, panel, t->dim),
        .nq = rows,
        .n = span.end - span.begin,
        .head_dim = t->dim,
        .scale = p->m->attn_scale,
    });
    for (uint32_t i = 0; i < rows; i++)
        sees[i] = weigh(p, t, i, span, w->scores + i * TFT_SPAN, &part[i]);
    memset(o, 0, (size_t)rows * t->dim * sizeof *o);
    p->m->kern.mix[TFT_NUM_F32](&(struct tft_mix){
        .o = o,
        .ldo = t->dim,
        .p = w->scores,
        .ldp = TFT_SPAN,
        .v = values(p, t->kv_head, panel, t->dim),
        .nq = rows,
        .n = span.end - span.begin,
        .head_dim = t->dim,
    });
}

/* Adds a span to what a row has seen before it. */
static void add_span(const struct tft_pass *p, float *o, struct tft_span_part *total,
                     const float *part_o, struct tft_span_part part, uint32_t dim)
{
    if (total->sum != 0) {
        tft_merge_span(&p->m->kern, o, total, part_o, part, dim);
        return;
    }
    memcpy(o, part_o, dim * sizeof *o);
    *total = part;
}

static void attend_tile(const struct tft_pass *p, const struct tile *t, const struct tft_input *in)
{
    const struct tft_attend_scratch *w = &p->work->texts.scratch[p->tid];
    struct tft_span_part total[TFT_TILE] = {{0}}, part[TFT_TILE];
    bool sees[TFT_TILE];
    uint32_t rows = t->n * t->group, begin = seen_by(t, 0).begin / TFT_KEY_PANEL * TFT_KEY_PANEL,
             end = seen_by(t, rows - 1).end;
    load_queries(p, t, w->q);
    for (uint32_t next; begin < end; begin = next) {
        next = (begin / TFT_SPAN + 1) * TFT_SPAN;
        struct range span = {begin, next < end ? next : end};
        attend_span(p, t, span, w, w->part, part, sees);
        for (uint32_t i = 0; i < rows; i++)
            if (sees[i])
                add_span(p, w->o + (size_t)i * t->dim, &total[i], w->part + (size_t)i * t->dim,
                         part[i], t->dim);
    }
    for (uint32_t i = 0; i < rows; i++)
        tft_put_head(p, in, t->seq->at + t->first + i / t->group, t->head * t->group + i % t->group,
                     t->dim, w->o + (size_t)i * t->dim, total[i].sum);
}

/* ------------------------------------------------------------------------------------ the whole */

/* Tiles of all texts go round the threads. A text's tiles of one head follow one another: they read
   the same keys. */
static void attend(struct tft_pass *p, const struct tft_layer *b)
{
    uint32_t share = p->m->n_head / b->kv.n, group = tft_tile_group(share),
             step = tft_tile_tokens(group), threads = (uint32_t)p->n_threads, turn = 0;
    tft_pass_touch(p, BIT(TFT_Q) | BIT(TFT_KV), BIT(TFT_A));
    for (uint32_t s = 0; s < p->n_seq; s++)
        for (uint32_t head = 0; head < p->m->n_head / group; head++)
            for (uint32_t at = 0, n = p->seq[s].n; at < n; at += step) {
                if (turn++ % threads != (uint32_t)p->tid)
                    continue;
                struct tile t = {.seq = &p->seq[s],
                                 .head = head,
                                 .group = group,
                                 .kv_head = head / (share / group),
                                 .first = at,
                                 .n = n - at < step ? n - at : step,
                                 .reach = b->window ? b->window / 2 : n,
                                 .dim = b->kv.dim};
                attend_tile(p, &t, b->o.in);
            }
}

void tft_cpu_attend_texts(struct tft_pass *p, const struct tft_layer *b)
{
    store(p, b);
    attend(p, b);
    p->ops->quantize(p, TFT_A, &b->o);
}
