/* Products of codes and folded factors: A of codes_attention.h. Parameters: codes_attention.h. */
#ifndef TFT_TEMPLATE_CODES_DOT_H
#define TFT_TEMPLATE_CODES_DOT_H

#include "codes_unpack.h"

/* ---------------------------------------------------------------------------- of unpacked codes */

/* sum: [nt, 16], x: [nt] rows of a batch. Takes `columns` rounded up to a multiple of 16. nt and
   i16 are constants after inlining. */
FORCE_INLINE void coded_tile(int32_t (*sum)[TFT_PANEL], const uint8_t *codes, const uint8_t *x,
                             size_t columns, size_t nt, bool i16)
{
    size_t ways = CODED_WAYS == 1 ? 1 : CODED_TILE / nt >= 4 ? 4 : CODED_TILE / nt >= 2 ? 2 : 1;
    size_t steps = (columns + 15) / 16, run = i16 ? CODED_SPANS : CODED_RUN;
    for (bool more = false; steps; more = true) {
        c_acc acc[CODED_TILE][4];
        UNROLL for (size_t i = 0; i < nt; i++)
            UNROLL for (size_t a = 0; a < ways; a++)
                acc[i][a] = c_zero();
        size_t n = min_size(run, steps);
        for (size_t k = 0; k < n; k++, codes += 4 * CODED_QUAD, x += i16 ? 32 : 16) {
            c_x f[CODED_TILE];
            UNROLL for (size_t i = 0; i < nt; i++)
                f[i] = c_factors(x + i * 2 * TFT_CODED_DIM, i16);
            UNROLL for (size_t s = 0; s < 4; s++) {
                c_codes c = c_load(codes + s * CODED_QUAD, i16);
                UNROLL for (size_t i = 0; i < nt; i++)
                    acc[i][s % ways] = c_dot(acc[i][s % ways], c, f[i], s, i16);
            }
        }
        UNROLL for (size_t i = 0; i < nt; i++)
            UNROLL for (size_t a = 0; a < ways; a++)
                c_store(sum[i], acc[i][a], i16, more || a);
        steps -= n;
    }
}

#define CODED_CASE(n)                                                                              \
    case n:                                                                                        \
        if (n <= CODED_TILE)                                                                       \
            coded_tile(sum, codes, x, columns, n, i16);                                            \
        break

FORCE_INLINE void coded_tiles(int32_t (*sum)[TFT_PANEL], const uint8_t *codes, const uint8_t *x,
                              size_t columns, size_t nt, bool i16)
{
    switch (nt) {
        CODED_CASE(8);
        CODED_CASE(7);
        CODED_CASE(6);
        CODED_CASE(5);
        CODED_CASE(4);
        CODED_CASE(3);
        CODED_CASE(2);
        CODED_CASE(1);
    }
}

static void ISA(coded_i16)(int32_t (*sum)[TFT_PANEL], const uint8_t *codes, const uint8_t *x,
                           size_t columns, size_t nt)
{
    coded_tiles(sum, codes, x, columns, nt, true);
}

#if CODED_I8
static void ISA(coded_i8)(int32_t (*sum)[TFT_PANEL], const uint8_t *codes, const uint8_t *x,
                          size_t columns, size_t nt)
{
    coded_tiles(sum, codes, x, columns, nt, false);
}
#endif

/* A of queries i .. i + nt - 1 of the batch, nt <= CODED_TILE, over the columns first .. first + n
   - 1 of the codes unpacked in b. */
FORCE_INLINE void coded_sums(int32_t (*sum)[TFT_PANEL], const struct coded_batch *b, size_t i,
                             size_t nt, size_t first, size_t n, bool i16)
{
    const uint8_t *codes = b->codes + first / TFT_QUAD * CODED_QUAD,
                  *x = b->x[i] + first * (i16 ? 2 : 1);
#if CODED_I8
    if (!i16)
        ISA(coded_i8)(sum, codes, x, n, nt);
    else
#endif
        ISA(coded_i16)(sum, codes, x, n, nt);
}

/* --------------------------------------------------------------- of codes unpacked in registers */

/* Quads of some panels: quads first .. first + n - 1 of each. */
struct coded_span {
    const struct tft_coded *b;
    const uint8_t *from; /* the first panel */
    size_t panels, first, n;
    const uint8_t *x; /* i8 factors of the first query for these columns */
};

#if CODED_DIRECT
/* `steps` quads by nt queries. */
FORCE_INLINE void direct_steps(c_acc (*acc)[4], const uint8_t *from, enum tft_bits bits,
                               const uint8_t *x, size_t nt, size_t ways, size_t steps)
{
    c_x f[CODED_DIRECT];
    UNROLL for (size_t i = 0; i < nt; i++)
        f[i] = c_factors(x + i * 2 * TFT_CODED_DIM, false);
    UNROLL for (size_t s = 0; s < steps; s++) {
        breg a[QUAD_REGS];
        unpack_quad(a, from + s * tft_codes_bytes(bits, 1), bits);
        c_codes c = c_take(a);
        UNROLL for (size_t i = 0; i < nt; i++)
            acc[i][s % ways] = c_dot(acc[i][s % ways], c, f[i], s, false);
    }
}

/* Quads of one panel. sum: [nt, 16], kept and added to if `more`; x: [nt] rows of a batch. bits and
   nt are constants. */
FORCE_INLINE void direct_panel(int32_t (*sum)[TFT_PANEL], const uint8_t *from, enum tft_bits bits,
                               size_t quads, const uint8_t *x, size_t nt, bool more)
{
    size_t ways = CODED_WAYS == 1 ? 1
                  : nt <= 2       ? 4
                  : nt <= 4       ? 2
                                  : 1,
           size = tft_codes_bytes(bits, 1);
    /* CODED_RUN is for codes of 4 bits; smaller codes overflow later */
    size_t run = CODED_RUN == CODED_SPANS ? TFT_CODED_DIM
                                          : CODED_RUN * 4 * (15 / (tft_bits_levels(bits) - 1));
    for (; quads; more = true) {
        c_acc acc[CODED_DIRECT][4];
        UNROLL for (size_t i = 0; i < nt; i++)
            UNROLL for (size_t a = 0; a < ways; a++)
                acc[i][a] = c_zero();
        size_t n = min_size(run, quads);
        quads -= n;
        for (; n >= 4; n -= 4, from += 4 * size, x += 16)
            direct_steps(acc, from, bits, x, nt, ways, 4);
        for (; n; n--, from += size, x += 4)
            direct_steps(acc, from, bits, x, nt, ways, 1);
        UNROLL for (size_t i = 0; i < nt; i++) {
            UNROLL for (size_t a = 1; a < ways; a++)
                acc[i][0] = c_add(acc[i][0], acc[i][a]);
            c_store(sum[i], acc[i][0], false, more);
        }
    }
}

/* Quads of one width of some panels. */
struct direct_quads {
    const uint8_t *from;
    size_t panels, stride, quads; /* stride: bytes from a panel to the next */
    enum tft_bits bits;
};

#define DIRECT_CASE(n)                                                                             \
    case n:                                                                                        \
        for (size_t p = 0; n <= CODED_DIRECT && p < c->panels; p++)                                \
            direct_panel(sum[p], c->from + p * c->stride, bits, c->quads, x, n, more);             \
        break

/* 5, 6 or 7 queries are computed as 8. */
FORCE_INLINE void direct_panels(coded_sum *sum, const struct direct_quads *c, enum tft_bits bits,
                                const uint8_t *x, size_t nt, bool more)
{
    switch (nt <= 4 ? nt : 8) {
        DIRECT_CASE(8);
        DIRECT_CASE(4);
        DIRECT_CASE(3);
        DIRECT_CASE(2);
        DIRECT_CASE(1);
    }
}

static void ISA(direct_quads)(coded_sum *sum, const struct direct_quads *c, const uint8_t *x,
                              size_t nt, bool more)
{
    switch (c->bits) {
    case TFT_BITS_1: direct_panels(sum, c, TFT_BITS_1, x, nt, more); break;
    case TFT_BITS_3: direct_panels(sum, c, TFT_BITS_3, x, nt, more); break;
    case TFT_BITS_4: direct_panels(sum, c, TFT_BITS_4, x, nt, more); break;
    default: direct_panels(sum, c, TFT_BITS_2, x, nt, more);
    }
}
#endif

/* Whether nq queries on the codes of b are faster without storing unpacked codes: few queries, and
   codes of up to 4 bits without 3 levels. */
FORCE_INLINE bool coded_direct(const struct tft_coded *b, size_t nq)
{
    return nq <= CODED_DIRECT && !b->quads[TFT_BITS_8] && !b->quads[TFT_BITS_3_LEVELS];
}

/* Clears the factors that direct_panels reads after 5, 6 or 7 queries. */
FORCE_INLINE void coded_clear_rest(struct coded_batch *b, size_t nq)
{
    if (b->direct && nq > 4)
        memset(b->x[nq], 0, (CODED_QUERIES - nq) * sizeof *b->x);
}

/* A of nt queries; sum: [panels], kept and added to if `more`. Only if coded_direct(). */
FORCE_INLINE void coded_sums_direct(coded_sum *sum, struct coded_span s, size_t nt, bool more)
{
#if CODED_DIRECT
    struct direct_quads c = {.panels = s.panels, .stride = coded_panel_bytes(s.b)};
    for (c.bits = 0; s.n; c.bits++) {
        size_t size = tft_codes_bytes(c.bits, 1), skip = min_size(s.first, s.b->quads[c.bits]);
        c.quads = min_size(s.b->quads[c.bits] - skip, s.n);
        c.from = s.from + skip * size;
        if (c.quads) {
            ISA(direct_quads)(sum, &c, s.x, nt, more);
            more = true;
        }
        s.from += s.b->quads[c.bits] * size;
        s.x += c.quads * TFT_QUAD;
        s.first -= skip;
        s.n -= c.quads;
    }
#else
    (void)sum, (void)s, (void)nt, (void)more;
#endif
}

/* -------------------------------------------------------------------------- from sums to floats */

/* y + the result of a span of columns, with scale and mid of rows. */
FORCE_INLINE v16 coded_rows(v16 y, const int32_t *sum, const struct coded_fold *f, v16 scale,
                            v16 mid)
{
    y = v_fma(v_mul(v_doubled(sum, f->shift), v_set(f->half)), scale, y);
    return v_fma(v_set(f->base), mid, y);
}

#endif
