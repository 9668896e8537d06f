/*
 * Attention on blocks of FISHER keys and values (kv/fisher.h). For a query q, with the steps and
 * means of the channels, and the gain of token j:
 *
 *   m = sum of q * mean, one after the other in the order of the places
 *   s[j] = (the score of score_codes with scales `step` and mids 0) * gain[j] + m * factor
 *
 * and for the weights p of a span, by the panels of each width:
 *
 *   o[d] = mean[d] * total16(p) + (the mix of mix_codes with scales `gain` and mids 0) * step[d]
 *
 * Both roundings of a product and a sum, not one: this file is compiled for every CPU, and fma is
 * a call where a CPU may lack it.
 */
#include "span.h"

#include <string.h>

#include "kv/fisher.h"

static const struct tft_fisher_head *head_of(const struct tft_pass *p, const struct tft_tile *t,
                                             enum tft_kv_which which)
{
    return &p->s->kv.layer[t->layer].fisher[which][tft_tile_kv_head(t)];
}

const float *tft_fisher_queries(const struct tft_pass *p, const struct tft_tile *t, const float *q)
{
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    const struct tft_fisher_head *h = head_of(p, t, TFT_KV_K);
    for (uint32_t i = 0; i < tft_tile_rows(t); i++) {
        float *row = w->ordered_q + i * t->dim, mean = 0;
        for (uint32_t d = 0; d < t->dim; d++) {
            row[d] = q[i * t->dim + h->channel[d]];
            mean += row[d] * h->mean[d];
        }
        w->query_means[i] = mean;
    }
    return w->ordered_q;
}

void tft_score_fisher(const struct tft_pass *p, const struct tft_tile *t, struct tft_code_span span,
                      const float *q, float *scores)
{
    const struct tft_kv *kv = &p->s->kv;
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    const struct tft_fisher_head *h = head_of(p, t, TFT_KV_K);
    const struct tft_fisher_block first = tft_fisher_block(kv, h, span.from);
    struct tft_coded k = tft_fisher_keys(h, first.codes, span.n);
    uint32_t rows = tft_tile_rows(t);
    float factor = p->m->attn_scale, *gain = w->value_scales; /* not in use before the mix */
    tft_fisher_gains(first.gains, span.n, gain);
    if (k.dim)
        p->m->kern.score_codes(
            &(struct tft_score_codes){scores, TFT_SPAN, q + h->first, t->dim, &k, rows, factor});
    for (uint32_t i = 0; i < rows; i++) {
        float *s = scores + i * TFT_SPAN, mean = w->query_means[i] * factor;
        for (uint32_t j = 0; j < k.tokens; j++)
            s[j] = k.dim ? s[j] * gain[j] + mean : mean;
    }
}

/* total16 of n weights, a multiple of 16. */
static float total(const float *x, uint32_t n)
{
    float lane[16] = {0};
    for (uint32_t i = 0; i < n; i += 16)
        for (uint32_t l = 0; l < 16; l++)
            lane[l] += x[i + l];
    for (uint32_t half = 8; half; half /= 2)
        for (uint32_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

/* The part of the means: o = mean[d] times the sum of the weights. */
static void mix_means(const struct tft_tile *t, const struct tft_fisher_head *h, uint32_t tokens,
                      const float *weights, float *o)
{
    for (uint32_t i = 0; i < tft_tile_rows(t); i++) {
        float sum = total(weights + i * TFT_SPAN, tokens);
        for (uint32_t d = 0; d < t->dim; d++)
            o[i * t->dim + h->channel[d]] = h->mean[h->pad + d] * sum;
    }
}

/* Adds a mix of the codes of n places from `from` on, [rows, n]. */
static void add_places(const struct tft_tile *t, const struct tft_fisher_head *h, uint32_t from,
                       uint32_t n, const float *mix, float *o)
{
    for (uint32_t i = 0; i < tft_tile_rows(t); i++)
        for (uint32_t d = from < h->pad ? h->pad - from : 0; d < n; d++) {
            uint32_t channel = h->channel[from + d - h->pad];
            o[i * t->dim + channel] += mix[i * n + d] * h->step[from + d];
        }
}

void tft_mix_fisher(const struct tft_pass *p, const struct tft_tile *t, struct tft_code_span span,
                    const float *weights, float *o)
{
    const struct tft_kv *kv = &p->s->kv;
    const struct tft_attend_scratch *w = &p->s->attend.scratch[p->tid];
    const struct tft_fisher_head *h = head_of(p, t, TFT_KV_V);
    struct tft_coded v[TFT_SPAN / TFT_FISHER_BLOCK];
    uint32_t rows = tft_tile_rows(t), from = 0;
    tft_fisher_gains(tft_fisher_block(kv, h, span.from).gains, span.n, w->value_scales);
    mix_means(t, h, span.n * TFT_FISHER_BLOCK, weights, o);
    for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++) {
        uint32_t n = h->units[bits] * TFT_PANEL;
        if (!n)
            continue;
        for (uint32_t b = 0; b < span.n; b++)
            v[b] = tft_fisher_values(h, tft_fisher_block(kv, h, span.from + b).codes, bits,
                                     w->value_scales + b * TFT_FISHER_BLOCK, &from);
        memset(w->coded_o, 0, (size_t)rows * n * sizeof *w->coded_o);
        p->m->kern.mix_codes(
            &(struct tft_mix_codes){w->coded_o, n, weights, TFT_SPAN, v, span.n, rows});
        add_places(t, h, from, n, w->coded_o, o);
    }
}
