/* score_codes of kernels.h. Parameters: codes_attention.h. */
#ifndef TFT_TEMPLATE_CODES_SCORE_H
#define TFT_TEMPLATE_CODES_SCORE_H

#include "codes_dot.h"
#include "codes_fold.h"

/* s: 16 scores of one query, for the tokens from `token` on. Adds the span of channels from d on,
   with factors folded as f; the last span also multiplies by factor. */
FORCE_INLINE void score_finish(float *s, const int32_t *sum, const struct coded_fold *f,
                               const struct tft_coded *k, size_t d, size_t token, float factor)
{
    v16 a;
    size_t at = k->group ? d / k->group * k->tokens + token : 0;
    if (k->group)
        a = coded_rows(d ? v_load(s) : v_set(0), sum, f, v_load(k->scale + at),
                       v_load(k->mid + at));
    else
        a = v_fma(v_doubled(sum, f->shift), v_set(f->half), v_set(f->base));
    v_store(s, !k->group || d + k->group >= k->dim ? v_mul(a, v_set(factor)) : a);
}

/* Queries i .. i + nt - 1 of the batch by the tokens from `token` on: the tokens of the panel
   unpacked in b; or, if direct, all tokens of a coded_sum array. */
FORCE_INLINE void score_tokens(const struct tft_score_codes *a, const struct coded_batch *b,
                               size_t token, size_t i, size_t nt, bool i16)
{
    coded_sum sum[TFT_CODED_SPAN / TFT_PANEL];
    const struct tft_coded *k = a->k;
    float *s = a->s + i * a->lds + token;
    size_t span = k->group ? k->group : k->dim, panels = 1;
    if (b->direct)
        panels = min_size((k->tokens - token) / TFT_PANEL, sizeof sum / sizeof *sum);
    for (size_t d = 0, g = 0; d < k->dim; d += span, g++) {
        size_t n = min_size(span, k->dim - d);
        if (b->direct)
            coded_sums_direct(sum,
                              (struct coded_span){
                                  .b = k,
                                  .from = k->codes + token / TFT_PANEL * coded_panel_bytes(k),
                                  .panels = panels,
                                  .first = d / TFT_QUAD,
                                  .n = n / TFT_QUAD,
                                  .x = b->x[i] + d,
                              },
                              nt, false);
        else
            coded_sums(sum[0], b, i, nt, d, n, i16);
        for (size_t p = 0; p < panels; p++)
            for (size_t j = 0; j < nt; j++)
                score_finish(s + j * a->lds + p * TFT_PANEL, sum[p][j], &b->fold[i + j][g], k, d,
                             token + p * TFT_PANEL, a->factor);
    }
}

/* Folds the queries of a batch: with the scales of channels, or by groups of channels. */
FORCE_INLINE void score_fold(struct coded_batch *b, const struct tft_score_codes *a, bool i16)
{
    const struct tft_coded *k = a->k;
    struct coded_factors c = {a->q,      a->ldq, k->scale,         k->mid,
                              b->weight, k->dim, tft_fold_limit(k)};
    if (!k->group)
        ISA(fold_batch_scaled)(b, &c, a->nq, i16);
    for (size_t d = 0, g = 0; k->group && d < k->dim; d += k->group, g++) {
        c = (struct coded_factors){.f = a->q + d,
                                   .ldf = a->ldq,
                                   .weight = b->weight + d,
                                   .n = min_size(k->group, k->dim - d),
                                   .limit = c.limit};
        ISA(fold_batch_plain)(b, g, d, &c, a->nq, i16);
    }
}

/* a->nq is at most CODED_BATCH. */
FORCE_INLINE void score_batch(struct coded_batch *b, const struct tft_score_codes *a, bool i16)
{
    const struct tft_coded *k = a->k;
    b->direct = coded_direct(k, a->nq);
    size_t tokens = b->direct ? TFT_CODED_SPAN : TFT_PANEL,
           queries = b->direct ? CODED_QUERIES : CODED_TILE;
    score_fold(b, a, i16);
    coded_clear_rest(b, a->nq);
    const uint8_t *from = k->codes;
    for (size_t token = 0; token < k->tokens; token += tokens, from += coded_panel_bytes(k)) {
        if (!b->direct)
            ISA(unpack_panel)(b->codes, from, k);
        for (size_t i = 0; i < a->nq; i += queries)
            score_tokens(a, b, token, i, min_size(queries, a->nq - i), i16);
    }
}

static void ISA(score_codes)(const struct tft_score_codes *all)
{
    struct tft_score_codes a = *all;
    struct coded_batch b;
    ISA(coded_columns)(&b, a.k, 1);
    for (size_t i = 0; i < all->nq; i += CODED_BATCH) {
        a.nq = min_size(CODED_BATCH, all->nq - i);
        a.q = all->q + i * a.ldq;
        a.s = all->s + i * a.lds;
        if (CODED_I8 && tft_fold_limit(a.k) == TFT_FOLD_I8)
            score_batch(&b, &a, false);
        else
            score_batch(&b, &a, true);
    }
}

#endif
