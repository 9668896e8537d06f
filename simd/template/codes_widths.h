/* mix_widths of kernels.h. Parameters: codes_attention.h. */
#ifndef TFT_TEMPLATE_CODES_WIDTHS_H
#define TFT_TEMPLATE_CODES_WIDTHS_H

#include "codes_dot.h"
#include "codes_fold.h"

enum { WIDTHS_QUADS = TFT_WIDTHS_TOKENS / TFT_QUAD };

/* The panels of one width; `from`: the first panel of the first block. */
struct width_panels {
    const uint8_t *from;
    size_t panels, next, n_blocks;
    enum tft_bits bits;
};

#if CODED_DIRECT
/* One panel of all blocks, summed in registers. sum: [nt, 16]; x: [nt] rows of a batch */
FORCE_INLINE void width_panel(int32_t (*sum)[TFT_PANEL], const struct width_panels *c,
                              const uint8_t *from, enum tft_bits bits, const uint8_t *x, size_t nt)
{
    size_t ways = CODED_WAYS == 1 ? 1
                  : nt <= 2       ? 4
                  : nt <= 4       ? 2
                                  : 1,
           size = tft_codes_bytes(bits, 1),
           run = CODED_RUN == CODED_SPANS
                     ? TFT_CODED_SPAN
                     : CODED_RUN * 16 * (15 / (tft_bits_levels(bits) - 1)) / TFT_WIDTHS_TOKENS;
    _Static_assert(CODED_RUN * 16 >= TFT_WIDTHS_TOKENS, "a c_acc sums a block of any width");
    bool more = false;
    for (size_t left = c->n_blocks; left; more = true) {
        c_acc acc[CODED_DIRECT][4];
        UNROLL for (size_t i = 0; i < nt; i++)
            UNROLL for (size_t a = 0; a < ways; a++)
                acc[i][a] = c_zero();
        size_t n = min_size(run, left);
        left -= n;
        for (; n; n--, from += c->next, x += TFT_WIDTHS_TOKENS)
            UNROLL for (size_t q = 0; q < WIDTHS_QUADS; q += 4)
                direct_steps(acc, from + q * size, bits, x + q * TFT_QUAD, nt, ways, 4);
        UNROLL for (size_t i = 0; i < nt; i++) {
            UNROLL for (size_t a = 1; a < ways; a++)
                acc[i][0] = c_add(acc[i][0], acc[i][a]);
            c_store(sum[i], acc[i][0], false, more);
        }
    }
}

#define WIDTH_CASE(n)                                                                              \
    case n:                                                                                        \
        for (size_t k = 0; n <= CODED_DIRECT && k < c->panels; k++)                                \
            width_panel(sum[k], c, c->from + k * bytes, bits, x, n);                               \
        break

/* 5, 6 or 7 queries are computed as 8. */
FORCE_INLINE void width_cases(coded_sum *sum, const struct width_panels *c, enum tft_bits bits,
                              const uint8_t *x, size_t nt)
{
    size_t bytes = tft_codes_bytes(bits, WIDTHS_QUADS);
    switch (nt <= 4 ? nt : 8) {
        WIDTH_CASE(8);
        WIDTH_CASE(4);
        WIDTH_CASE(3);
        WIDTH_CASE(2);
        WIDTH_CASE(1);
    }
}

static void ISA(width_direct)(coded_sum *sum, const struct width_panels *c, const uint8_t *x,
                              size_t nt)
{
    switch (c->bits) {
    case TFT_BITS_1: width_cases(sum, c, TFT_BITS_1, x, nt); break;
    case TFT_BITS_3: width_cases(sum, c, TFT_BITS_3, x, nt); break;
    case TFT_BITS_4: width_cases(sum, c, TFT_BITS_4, x, nt); break;
    default: width_cases(sum, c, TFT_BITS_2, x, nt);
    }
}
#endif

/* Unpacks a panel of all blocks. */
static void ISA(width_unpack)(uint8_t *to, const struct width_panels *c, const uint8_t *from)
{
    for (size_t b = 0; b < c->n_blocks; b++, to += WIDTHS_QUADS * CODED_QUAD, from += c->next)
        switch (c->bits) {
        case TFT_BITS_1: unpack_quads(to, from, TFT_BITS_1, WIDTHS_QUADS); break;
        case TFT_BITS_3: unpack_quads(to, from, TFT_BITS_3, WIDTHS_QUADS); break;
        case TFT_BITS_4: unpack_quads(to, from, TFT_BITS_4, WIDTHS_QUADS); break;
        default: unpack_quads(to, from, TFT_BITS_2, WIDTHS_QUADS);
        }
}

/* The result of the panel from channel d on, for one query. */
FORCE_INLINE void width_finish(float *o, const int32_t *sum, const struct coded_fold *f,
                               enum tft_bits bits, const struct tft_mix_widths *a, size_t d)
{
    int32_t weight = (int32_t)tft_bits_levels(bits) - 1;
    v16 t = v_mul(v_doubled(sum, f->shift * weight), v_set(f->half));
    v_store(o + d, v_fma(t, v_load(a->steps + d), v_mul(v_set(f->base), v_load(a->mean + d))));
}

/* Queries i .. i + nt - 1 of the batch by the panel from channel d on, unpacked in b. */
FORCE_INLINE void width_tile(const struct tft_mix_widths *a, const struct coded_batch *b,
                             enum tft_bits bits, size_t d, size_t i, size_t nt, bool i16)
{
    coded_sum sum;
    coded_sums(sum, b, i, nt, 0, a->n_blocks * TFT_WIDTHS_TOKENS, i16);
    for (size_t j = 0; j < nt; j++)
        width_finish(a->o + (i + j) * a->ldo, sum[j], b->fold[i + j], bits, a, d);
}

/* The panels of one width from channel d on, for all queries of the batch. */
FORCE_INLINE void width_batch(struct coded_batch *b, const struct tft_mix_widths *a,
                              const struct width_panels *c, size_t d, bool i16)
{
#if CODED_DIRECT
    coded_sum sum[TFT_CODED_SPAN / TFT_PANEL];
    if (b->direct) {
        ISA(width_direct)(sum, c, b->x[0], a->nq);
        for (size_t k = 0; k < c->panels; k++)
            for (size_t j = 0; j < a->nq; j++)
                width_finish(a->o + j * a->ldo, sum[k][j], b->fold[j], c->bits, a,
                             d + k * TFT_PANEL);
        return;
    }
#endif
    for (size_t k = 0; k < c->panels; k++) {
        ISA(width_unpack)(b->codes, c, c->from + k * tft_codes_bytes(c->bits, WIDTHS_QUADS));
        for (size_t i = 0; i < a->nq; i += CODED_TILE)
            width_tile(a, b, c->bits, d + k * TFT_PANEL, i, min_size(CODED_TILE, a->nq - i), i16);
    }
}

/* Folds the probabilities of a batch: the base becomes their sum, the shift the sum of factors. */
FORCE_INLINE void widths_fold(struct coded_batch *b, const struct tft_mix_widths *a, bool i16)
{
    float one[TFT_CODED_SPAN];
    size_t n = a->n_blocks * TFT_WIDTHS_TOKENS;
    for (size_t j = 0; j < n; j++)
        one[j] = b->weight[j] = 1;
    struct coded_factors c = {a->p, a->ldp, a->gain, one, b->weight, n, TFT_FOLD_I8};
    ISA(fold_batch_scaled)(b, &c, a->nq, i16);
}

/* a->nq is at most CODED_BATCH. */
FORCE_INLINE void widths_batch(struct coded_batch *b, const struct tft_mix_widths *a, bool i16)
{
    size_t d = 0, empty = tft_widths_empty(a);
    struct width_panels c = {.from = a->codes, .next = a->next, .n_blocks = a->n_blocks};
    b->direct = a->nq <= CODED_DIRECT;
    coded_clear_rest(b, a->nq);
    widths_fold(b, a, i16);
    for (; d < empty; d += TFT_PANEL)
        for (size_t i = 0; i < a->nq; i++)
            v_store(a->o + i * a->ldo + d, v_mul(v_set(b->fold[i]->base), v_load(a->mean + d)));
    for (; c.bits < TFT_BITS_COUNT; c.bits++) {
        c.panels = a->panels[c.bits];
        if (c.panels)
            width_batch(b, a, &c, d, i16);
        c.from += c.panels * tft_codes_bytes(c.bits, WIDTHS_QUADS);
        d += c.panels * TFT_PANEL;
    }
}

static void ISA(mix_widths)(const struct tft_mix_widths *all)
{
    struct tft_mix_widths a = *all;
    struct coded_batch b;
    for (size_t i = 0; i < all->nq; i += CODED_BATCH) {
        a.nq = min_size(CODED_BATCH, all->nq - i);
        a.p = all->p + i * a.ldp;
        a.o = all->o + i * a.ldo;
        widths_batch(&b, &a, !CODED_I8);
    }
}

#endif
