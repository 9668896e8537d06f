/*
 * Attention on blocks of FISHER keys and values (kv/fisher.h, kv/turn.h). The keys of a block are
 * rebuilt for all queries of a tile, turned by the angles of their places (turn_keys). The queries
 * are turned back by the base of each stretch. Then their products are those of slots of floats.
 * Values are mixed by mix_widths, in the order of the places.
 */
#include "span.h"

#include <string.h>

#include "kv/fisher.h"
#include "simd/half.h"

static const struct tft_fisher_head *head_of(const struct tft_pass *p, const struct tft_tile *t,
                                             enum tft_kv_which which)
{
    return &p->s->kv.layer[t->layer].fisher[which][tft_tile_kv_head(t)];
}

/* The means x and y of a pair, turned by 16 places. */
static void turn_means(float *a, float *b, float x, float y, const float *cos, const float *sin)
{
    for (uint32_t j = 0; j < TFT_KEY_PANEL; j++) {
        a[j] = x * cos[j] - y * sin[j];
        b[j] = y * cos[j] + x * sin[j];
    }
}

/* The exact tokens of the head. */
static uint32_t exact_tokens(const struct tft_pass *p, const struct tft_tile *t,
                           const struct tft_fisher_exact **e)
{
    *e = tft_fisher_exact(&p->s->kv, head_of(p, t, TFT_KV_K));
    return (*e)->n < TFT_FISHER_EXACT ? (*e)->n : TFT_FISHER_EXACT;
}

static void score_exact(const struct tft_pass *p, const struct tft_tile *t, const float *q)
{
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    const struct tft_fisher_exact *e;
    uint32_t n = exact_tokens(p, t, &e);
    for (uint32_t i = 0; n && i < TFT_KEY_PANEL; i++)
        for (uint32_t d = 0; d < t->dim; d++)
            w->exact_keys[d * TFT_KEY_PANEL + i] =
                i < n ? tft_fisher_exact_row(e, TFT_KV_K, i, t->dim)[d] : 0;
    if (n)
        p->m->kern.score[TFT_NUM_F16](&(struct tft_score){
            .s = w->exact_scores,
            .lds = TFT_KEY_PANEL,
            .q = q,
            .ldq = t->dim,
            .k = w->exact_keys,
            .nq = tft_tile_rows(t),
            .n = n,
            .head_dim = t->dim,
            .scale = p->m->attn_scale,
        });
}

/* The place of exact token k in the span; at least TFT_SPAN: it is not in it. */
static uint32_t place_in(const struct tft_fisher_exact *e, uint32_t k, struct tft_code_span span)
{
    uint32_t place = e->place[k] - span.from * TFT_FISHER_BLOCK;
    return place < span.n * TFT_FISHER_BLOCK ? place : TFT_SPAN;
}

/* Puts the scores of exact tokens in their places. scores: of the span */
static void put_exact(const struct tft_pass *p, const struct tft_tile *t, struct tft_code_span span,
                      float *scores)
{
    const float *s = p->s->attend.scratch[p->tid].exact_scores;
    const struct tft_fisher_exact *e;
    uint32_t n = exact_tokens(p, t, &e);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t place = place_in(e, k, span);
        for (uint32_t i = 0; place < TFT_SPAN && i < tft_tile_rows(t); i++)
            scores[i * TFT_SPAN + place] = s[i * TFT_KEY_PANEL + k];
    }
}

/* Takes the weights of exact tokens, which are not mixed with the others, out of weights. taken:
   [rows, 16] */
static void take_exact(const struct tft_pass *p, const struct tft_tile *t,
                       struct tft_code_span span, float *weights, float *taken)
{
    const struct tft_fisher_exact *e;
    uint32_t n = exact_tokens(p, t, &e);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t place = place_in(e, k, span);
        for (uint32_t i = 0; place < TFT_SPAN && i < tft_tile_rows(t); i++) {
            taken[i * TFT_KEY_PANEL + k] = weights[i * TFT_SPAN + place];
            weights[i * TFT_SPAN + place] = 0;
        }
    }
}

/* o: [rows, E] plus the values of exact tokens, with their weights */
static void add_exact(const struct tft_pass *p, const struct tft_tile *t, struct tft_code_span span,
                      const float *taken, float *o)
{
    const struct tft_fisher_exact *e;
    uint32_t n = exact_tokens(p, t, &e);
    for (uint32_t k = 0; k < n; k++) {
        const uint16_t *v = tft_fisher_exact_row(e, TFT_KV_V, k, t->dim);
        for (uint32_t i = 0; place_in(e, k, span) < TFT_SPAN && i < tft_tile_rows(t); i++)
            for (uint32_t d = 0; d < t->dim; d++)
                o[i * t->dim + d] += taken[i * TFT_KEY_PANEL + k] * tft_f16_to_f32(v[d]);
    }
}

void tft_fisher_begin(const struct tft_pass *p, const struct tft_tile *t, const float *q)
{
    const struct tft_turns *turns = &p->s->kv.turns;
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    const struct tft_fisher_head *h = head_of(p, t, TFT_KV_K);
    static const float one[TFT_KEY_PANEL] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                       zero[TFT_KEY_PANEL];
    bool turned = tft_kv_turns(&p->s->kv, t->layer);
    for (uint32_t i = 0; i < t->dim / 2; i++)
        for (uint32_t j = 0; j < TFT_FISHER_BLOCK; j += TFT_KEY_PANEL) {
            size_t at = (size_t)h->pair[i] * TFT_FISHER_BLOCK + j;
            float *panel = w->turned_means + (size_t)j * t->dim;
            turn_means(panel + (size_t)h->channel[2 * i] * TFT_KEY_PANEL,
                       panel + (size_t)h->channel[2 * i + 1] * TFT_KEY_PANEL, h->mean[2 * i],
                       h->mean[2 * i + 1], turned ? turns->cos + at : one,
                       turned ? turns->sin + at : zero);
        }
    memcpy(w->turned_keys, w->turned_means,
           (size_t)TFT_FISHER_BLOCK * t->dim * sizeof *w->turned_keys);
    score_exact(p, t, q);
}

/* The keys of block b, to be rebuilt in this thread's workspace. gain: [32] */
static struct tft_turn_keys keys_of(const struct tft_pass *p, const struct tft_tile *t, uint32_t b,
                                    const float *gain)
{
    const struct tft_kv *kv = &p->s->kv;
    const struct tft_fisher_head *h = head_of(p, t, TFT_KV_K);
    struct tft_turn_keys k = tft_fisher_keys(h, tft_fisher_block(kv, h, b).codes);
    k.k = p->s->attend.scratch[p->tid].turned_keys;
    k.mean = p->s->attend.scratch[p->tid].turned_means;
    k.gain = gain;
    k.cos = tft_kv_turns(kv, t->layer) ? kv->turns.cos : NULL;
    k.sin = kv->turns.sin;
    return k;
}

/* Scores of the tile's queries q with the keys of a block, rows lds apart. */
static void score(const struct tft_pass *p, const struct tft_tile *t, const float *q,
                  const float *k, float *scores, size_t lds)
{
    p->m->kern.score[TFT_NUM_F32](&(struct tft_score){
        .s = scores,
        .lds = lds,
        .q = q,
        .ldq = t->dim,
        .k = k,
        .nq = tft_tile_rows(t),
        .n = TFT_FISHER_BLOCK,
        .head_dim = t->dim,
        .scale = p->m->attn_scale,
    });
}

/* The queries turned back by the base of a stretch, in this thread's workspace. */
static const float *turned_back(const struct tft_pass *p, const struct tft_tile *t, const float *q,
                                uint32_t stretch)
{
    float *to = p->s->attend.scratch[p->tid].turned_q;
    memcpy(to, q, (size_t)tft_tile_rows(t) * t->dim * sizeof *q);
    tft_turn_back(&p->s->kv.turns, &p->m->kern, stretch, to, tft_tile_rows(t), t->dim);
    return to;
}

/* Scores of a block, stretch by stretch: each replaces the scores from its first place on. */
static void score_block(const struct tft_pass *p, const struct tft_tile *t, uint32_t b,
                        const float *q, const float *k, float *scores)
{
    const struct tft_turns *turns = &p->s->kv.turns;
    float own[TFT_TILE * TFT_FISHER_BLOCK];
    if (!tft_kv_turns(&p->s->kv, t->layer)) {
        score(p, t, q, k, scores, TFT_SPAN);
        return;
    }
    uint32_t end, first = tft_turns_of(turns, b, &end);
    score(p, t, turned_back(p, t, q, first), k, scores, TFT_SPAN);
    for (uint32_t s = first + 1; s < end; s++) {
        uint32_t from = turns->stretch[s].from;
        score(p, t, turned_back(p, t, q, s), k, own, TFT_FISHER_BLOCK);
        for (uint32_t i = 0; i < tft_tile_rows(t); i++)
            memcpy(scores + i * TFT_SPAN + from, own + i * TFT_FISHER_BLOCK + from,
                   (TFT_FISHER_BLOCK - from) * sizeof *own);
    }
}

void tft_score_fisher(const struct tft_pass *p, const struct tft_tile *t, struct tft_code_span span,
                      const float *q, float *scores)
{
    const struct tft_fisher_head *h = head_of(p, t, TFT_KV_K);
    float gain[TFT_SPAN];
    tft_fisher_gains(tft_fisher_block(&p->s->kv, h, span.from).gains, span.n, gain);
    struct tft_turn_keys k = keys_of(p, t, span.from, gain);
    for (uint32_t b = 0; b < span.n; b++) {
        p->m->kern.turn_keys(&k);
        score_block(p, t, span.from + b, q, k.k, scores + (size_t)b * TFT_FISHER_BLOCK);
        k.codes += h->codes;
        k.gain += TFT_FISHER_BLOCK;
    }
    put_exact(p, t, span, scores);
}

/* o: [rows, E], the channels of coded: [rows, end] in the order of the places */
static void order(const struct tft_tile *t, const struct tft_fisher_head *h, const float *coded,
                  float *o)
{
    for (uint32_t i = 0; i < tft_tile_rows(t); i++, coded += h->end, o += t->dim)
        for (uint32_t d = 0; d < t->dim; d++)
            o[h->channel[d]] = coded[h->pad + d];
}

void tft_mix_fisher(const struct tft_pass *p, const struct tft_tile *t, struct tft_code_span span,
                    float *weights, float *o)
{
    float taken[TFT_TILE * TFT_KEY_PANEL];
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    const struct tft_fisher_head *h = head_of(p, t, TFT_KV_V);
    const struct tft_fisher_block first = tft_fisher_block(&p->s->kv, h, span.from);
    struct tft_mix_widths mix = tft_fisher_values(h, first.codes, span.n, w->value_scales);
    mix.o = w->coded_o;
    mix.ldo = h->end;
    mix.p = weights;
    mix.ldp = TFT_SPAN;
    mix.nq = tft_tile_rows(t);
    tft_fisher_gains(first.gains, span.n, w->value_scales);
    take_exact(p, t, span, weights, taken);
    p->m->kern.mix_widths(&mix);
    order(t, h, w->coded_o, o);
    add_exact(p, t, span, taken, o);
}
