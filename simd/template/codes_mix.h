/* mix_codes of kernels.h. Parameters: codes_attention.h. */
#ifndef TFT_TEMPLATE_CODES_MIX_H
#define TFT_TEMPLATE_CODES_MIX_H

#include "codes_dot.h"
#include "codes_fold.h"

/* o: channels d .. d + 15 of one query, or the last n. Adds the tokens with factors folded as f:
   all tokens, or the tokens of block g if scales belong to channels. */
FORCE_INLINE void mix_finish(float *o, const int32_t *sum, const struct coded_fold *f,
                             const struct tft_coded *v, size_t g, size_t d, size_t n)
{
    v16 a = v_load_n(o, n);
    if (v->group)
        a = v_add(a, v_fma(v_doubled(sum, f->shift), v_set(f->half), v_set(f->base)));
    else
        a = coded_rows(a, sum, f, v_load_n(v[g].scale + d, n), v_load_n(v[g].mid + d, n));
    v_store_n(o, a, n);
}

/* Queries i .. i + nt - 1 of the batch by the channels of `panels` panels from channel d on.
   Without `direct`: one panel, unpacked in b. */
FORCE_INLINE void mix_panels(const struct tft_mix_codes *a, const struct coded_batch *b, size_t d,
                             size_t panels, size_t i, size_t nt, bool i16)
{
    coded_sum sum[TFT_CODED_SPAN / TFT_PANEL];
    const struct tft_coded *v = a->v;
    float *o = a->o + i * a->ldo + d;
    size_t tokens = v->tokens, all = a->n_blocks * tokens, span = v->group ? all : tokens;
    for (size_t first = 0, g = 0; first < all; first += span, g++) {
        if (!b->direct)
            coded_sums(sum[0], b, i, nt, first, span, i16);
        for (size_t j = first; b->direct && j < first + span; j += tokens)
            coded_sums_direct(sum,
                              (struct coded_span){
                                  .b = v,
                                  .from = v[j / tokens].codes +
                                          d / TFT_PANEL * coded_panel_bytes(v),
                                  .panels = panels,
                                  .n = tokens / TFT_QUAD,
                                  .x = b->x[i] + j,
                              },
                              nt, j > first);
        for (size_t p = 0; p < panels; p++)
            for (size_t j = 0; j < nt; j++)
                mix_finish(o + j * a->ldo + p * TFT_PANEL, sum[p][j], &b->fold[i + j][g], v, g,
                           d + p * TFT_PANEL, v->dim - d - p * TFT_PANEL);
    }
}

/* Folds the probabilities of a batch with the tokens' scales of channel group g. */
FORCE_INLINE void mix_fold_group(struct coded_batch *b, const struct tft_mix_codes *a, size_t g,
                                 bool i16)
{
    float scale[TFT_CODED_SPAN], mid[TFT_CODED_SPAN];
    const struct tft_coded *v = a->v;
    size_t tokens = v->tokens;
    for (size_t i = 0; i < a->n_blocks; i++) {
        memcpy(scale + i * tokens, v[i].scale + g * tokens, tokens * sizeof *scale);
        memcpy(mid + i * tokens, v[i].mid + g * tokens, tokens * sizeof *mid);
    }
    struct coded_factors c = {
        a->p, a->ldp, scale, mid, b->weight, a->n_blocks * tokens, tft_fold_limit(v)};
    ISA(fold_batch_scaled)(b, &c, a->nq, i16);
}

/* Folds the probabilities of each block separately. */
FORCE_INLINE void mix_fold_blocks(struct coded_batch *b, const struct tft_mix_codes *a, bool i16)
{
    const struct tft_coded *v = a->v;
    for (size_t j = 0, first = 0; j < a->n_blocks; j++, first += v->tokens) {
        struct coded_factors c = {.f = a->p + first,
                                  .ldf = a->ldp,
                                  .weight = b->weight,
                                  .n = v->tokens,
                                  .limit = tft_fold_limit(v)};
        ISA(fold_batch_plain)(b, j, first, &c, a->nq, i16);
    }
}

/* a->nq is at most CODED_BATCH. */
FORCE_INLINE void mix_batch(struct coded_batch *b, const struct tft_mix_codes *a, bool i16)
{
    const struct tft_coded *v = a->v;
    b->direct = coded_direct(v, a->nq);
    size_t queries = b->direct ? CODED_QUERIES : CODED_TILE, channels = TFT_PANEL;
    if (b->direct)
        channels = v->group ? v->group : TFT_CODED_SPAN;
    coded_clear_rest(b, a->nq);
    if (!v->group)
        mix_fold_blocks(b, a, i16);
    for (size_t d = 0; d < v->dim; d += channels) {
        size_t panels = (min_size(channels, v->dim - d) + TFT_PANEL - 1) / TFT_PANEL;
        if (v->group && d % v->group == 0)
            mix_fold_group(b, a, d / v->group, i16);
        for (size_t i = 0; i < a->n_blocks && !b->direct; i++)
            ISA(unpack_panel)
            (b->codes + i * v->tokens / TFT_QUAD * CODED_QUAD,
             v[i].codes + d / TFT_PANEL * coded_panel_bytes(v), &v[i]);
        for (size_t i = 0; i < a->nq; i += queries)
            mix_panels(a, b, d, panels, i, min_size(queries, a->nq - i), i16);
    }
}

static void ISA(mix_codes)(const struct tft_mix_codes *all)
{
    struct tft_mix_codes a = *all;
    struct coded_batch b;
    ISA(coded_columns)(&b, a.v, a.n_blocks);
    for (size_t i = 0; i < all->nq; i += CODED_BATCH) {
        a.nq = min_size(CODED_BATCH, all->nq - i);
        a.p = all->p + i * a.ldp;
        a.o = all->o + i * a.ldo;
        if (CODED_I8 && tft_fold_limit(a.v) == TFT_FOLD_I8)
            mix_batch(&b, &a, false);
        else
            mix_batch(&b, &a, true);
    }
}

#endif
