/*
 * Attention on blocks of FISHER keys and values (kv/fisher.h). For a query q, with the steps and
 * means of the channels, and the gain of token j:
 *
 *   m = sum of q * mean, one after the other in the order of the places
 *   s[j] = (the score of score_codes with scales `step` and mids 0) * gain[j] + m * factor
 *
 * with both roundings of a product and a sum, not one: this file is compiled for every CPU, and fma
 * is a call where a CPU may lack it. Values are mixed by mix_widths, in the order of the places.
 */
#include "span.h"

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

/* o: [rows, E], the channels of coded: [rows, end] in the order of the places */
static void order(const struct tft_tile *t, const struct tft_fisher_head *h, const float *coded,
                  float *o)
{
    for (uint32_t i = 0; i < tft_tile_rows(t); i++, coded += h->end, o += t->dim)
        for (uint32_t d = 0; d < t->dim; d++)
            o[h->channel[d]] = coded[h->pad + d];
}

void tft_mix_fisher(const struct tft_pass *p, const struct tft_tile *t, struct tft_code_span span,
                    const float *weights, float *o)
{
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
    p->m->kern.mix_widths(&mix);
    order(t, h, w->coded_o, o);
}
