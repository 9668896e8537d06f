/*
 * Attention on codes (kernels.h, codes.h), once for all vector units. The factors of a batch of
 * queries are folded into integers; then each panel is unpacked, whatever its bits, to a byte a
 * code, in a buffer that stays in an L1 cache, and multiplied by all of them. With A the sum of x *
 * c, what the contract calls t is 2 A - shift, where shift is the sum of x * (L - 1). All of that
 * is exact, so only the operations before and after it have an order, that of the contract.
 *
 * Codes of up to 4 bits take an x of 7 bits ("narrow"); otherwise x has 15 ("wide"), and a code of
 * 8 bits is held as c - 128, so that its L - 1 is -1, and every code is a signed byte.
 *
 * A rung's .c file includes its registers (reg_*.h) and lanes.h, defines what follows, and includes
 * this file.
 *
 *   breg, BYTES                  16, 32 or 64 bytes
 *   b_set, b_and, b_add          in every byte; b_subs, b_min: unsigned, b_subs is 0 where it would
 *                                be less
 *   b_repeat(p, r, period)       the r-th BYTES of the `period` bytes at p, repeated; a constant:
 *                                8, 16, 32 or 64
 *   b_shift(a, n)                each 8 bytes, as one number, shifted right by n[0], n[1] ..
 *   c_put(to, a)                 the codes of a quad, 64 bytes, in the order that c_dot wants; a:
 *                                [64 / BYTES]
 *   c_put_x(to, a, wide)         16 integers that are folded factors: 16 bytes, or 32 if wide
 *   c_codes, c_load(p, wide)     a quad
 *   c_x, c_factors(p, wide)      16 factors
 *   c_acc, c_zero()              the sums of 16 rows
 *   c_dot(acc, c, x, s, wide)    acc + the products of a quad and the s-th four factors
 *   c_store(sum, acc, wide, add) the 16 rows in order, or sum plus that if add
 *   CODED_NARROW                 1 if narrow factors are faster than wide ones
 *   CODED_RUN                    how many times 16 narrow factors c_acc has room for, CODED_SPANS
 *                                if all
 *   CODED_TILE                   queries at once, up to 8
 *   CODED_STRAIGHT               queries, up to 8, for which codes are unpacked in registers and
 *                                never stored, 0 if none; if any, c_take(a), with a and the result
 *                                as those of c_put and of c_load, and c_add of sums if CODED_WAYS
 *                                is not 1
 *   CODED_WAYS                   4 where fewer queries need several accumulators each, to hide the
 *                                latency of c_dot, or 1
 */
#define CODED static inline __attribute__((always_inline))

enum {
    CODED_BATCH = 32,   /* queries whose factors are folded before a panel is unpacked for all of
                           them */
    CODED_QUERIES = 8,  /* at most, in one product */
    CODED_FOLDS = 4,    /* queries that are folded side by side */
    CODED_SPANS = TFT_CODED_SPAN / 16,
    CODED_QUAD = TFT_QUAD_CODES,
    CODED_REGS = TFT_QUAD_CODES / BYTES,
};

/* Factors that were folded together: t * half is near the sum of f times its code's double
   distance, base the sum of what is not folded. */
struct coded_fold {
    float half, base;
    int32_t shift;
};

typedef int32_t coded_sum[CODED_QUERIES][TFT_PANEL]; /* a panel's sums */

struct coded_batch {
    _Alignas(64) uint8_t codes[TFT_CODED_SPAN / TFT_QUAD * CODED_QUAD];
    _Alignas(64) uint8_t x[CODED_BATCH][2 * TFT_CODED_SPAN];
    _Alignas(64) float weight[TFT_CODED_SPAN]; /* L - 1 of each column */
    struct coded_fold fold[CODED_BATCH][CODED_SPANS];
};

/* ------------------------------------------------------------------------------------ unpacking */

/* Codes of 1, 2, 4 or 8 bits. */
CODED void coded_spread(breg *a, const uint8_t *from, int bits)
{
    static const uint64_t shift[4][8] = {
        {0, 1, 2, 3, 4, 5, 6, 7}, {0, 0, 2, 2, 4, 4, 6, 6}, {0, 0, 0, 0, 4, 4, 4, 4}, {0}};
    const uint64_t *n = shift[bits == 1 ? 0 : bits == 2 ? 1 : bits == 4 ? 2 : 3];
    UNROLL for (int r = 0; r < CODED_REGS; r++) a[r] = b_and(
        b_shift(b_repeat(from, r, 8 * bits), n + r * BYTES / 8), b_set((uint8_t)((1 << bits) - 1)));
}

CODED void coded_open(breg *a, const uint8_t *from, enum tft_bits bits)
{
    breg high[CODED_REGS];
    switch (bits) {
    case TFT_BITS_1: coded_spread(a, from, 1); break;
    case TFT_BITS_4: coded_spread(a, from, 4); break;
    case TFT_BITS_8:
        UNROLL for (int r = 0; r < CODED_REGS; r++)
            a[r] = b_add(b_repeat(from, r, 64), b_set(128));
        break;
    case TFT_BITS_3:
        coded_spread(a, from, 2);
        coded_spread(high, from + 16, 1);
        UNROLL for (int r = 0; r < CODED_REGS; r++) {
            high[r] = b_add(high[r], high[r]);
            a[r] = b_add(a[r], b_add(high[r], high[r]));
        }
        break;
    default: coded_spread(a, from, 2);
    }
}

CODED void coded_quad(uint8_t *to, const uint8_t *from, enum tft_bits bits)
{
    breg a[CODED_REGS];
    coded_open(a, from, bits);
    c_put(to, a);
}

/* Five quads of three levels: a digit is how often 3 v overflows, which it does from 86 on and
   again from 171 on. */
CODED void coded_five(uint8_t *to, const uint8_t *from)
{
    breg v[CODED_REGS], digit[CODED_REGS];
    UNROLL for (int r = 0; r < CODED_REGS; r++)
        v[r] = b_repeat(from, r, 64);
    UNROLL for (int i = 0; i < TFT_TRIT_QUADS; i++) {
        UNROLL for (int r = 0; r < CODED_REGS; r++) {
            digit[r] = b_add(b_min(b_subs(v[r], b_set(85)), b_set(1)),
                             b_min(b_subs(v[r], b_set(170)), b_set(1)));
            v[r] = b_add(v[r], b_add(v[r], v[r]));
        }
        c_put(to + i * CODED_QUAD, digit);
    }
}

CODED const uint8_t *coded_quads(uint8_t *to, const uint8_t *from, enum tft_bits bits, size_t quads)
{
    size_t size = tft_codes_bytes(bits, 1);
    for (; quads; quads--, to += CODED_QUAD, from += size)
        coded_quad(to, from, bits);
    return from;
}

CODED const uint8_t *coded_trits(uint8_t *to, const uint8_t *from, size_t quads)
{
    for (; quads >= TFT_TRIT_QUADS;
         quads -= TFT_TRIT_QUADS, to += TFT_TRIT_QUADS * CODED_QUAD, from += 64)
        coded_five(to, from);
    return coded_quads(to, from, TFT_BITS_3_LEVELS, quads);
}

CODED size_t coded_panel_bytes(const struct tft_coded *b)
{
    size_t bytes = 0;
    for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++)
        bytes += tft_codes_bytes(bits, b->quads[bits]);
    return bytes;
}

/* A panel. */
static void ISA(coded_unpack)(uint8_t *to, const uint8_t *from, const struct tft_coded *b)
{
    for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++) {
        size_t quads = b->quads[bits];
        switch (bits) {
        case TFT_BITS_1: from = coded_quads(to, from, TFT_BITS_1, quads); break;
        case TFT_BITS_3_LEVELS: from = coded_trits(to, from, quads); break;
        case TFT_BITS_3: from = coded_quads(to, from, TFT_BITS_3, quads); break;
        case TFT_BITS_4: from = coded_quads(to, from, TFT_BITS_4, quads); break;
        case TFT_BITS_8: from = coded_quads(to, from, TFT_BITS_8, quads); break;
        default: from = coded_quads(to, from, TFT_BITS_2, quads);
        }
        to += quads * CODED_QUAD;
    }
}

/* What a batch has of the columns of its panels: their weights, and no codes where the last 16
   columns are fewer. */
static void ISA(coded_columns)(struct coded_batch *batch, const struct tft_coded *b, size_t repeat)
{
    size_t n = 0;
    for (; repeat; repeat--)
        for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++) {
            float w = bits == TFT_BITS_8 ? -1.0f : (float)(tft_bits_levels(bits) - 1),
                  quad[TFT_QUAD] = {w, w, w, w};
            for (size_t end = n + (size_t)b->quads[bits] * TFT_QUAD; n < end; n += TFT_QUAD)
                memcpy(batch->weight + n, quad, sizeof quad);
        }
    for (; n % 16; n += TFT_QUAD) {
        memset(batch->weight + n, 0, TFT_QUAD * sizeof *batch->weight);
        memset(batch->codes + n / TFT_QUAD * CODED_QUAD, 0, CODED_QUAD);
    }
}

/* -------------------------------------------------------------------------------------- folding */

/* Numbers that are folded together, n of them for each query, times scale where they have one. */
struct coded_factors {
    const float *f; /* [nq, ldf] */
    size_t ldf;
    const float *scale, *mid, *weight;
    size_t n;
    float limit;
};

/* 16 numbers from the k-th on, or the n that are left, as they are to be folded. */
CODED v16 coded_scaled(const struct coded_factors *c, const float *f, size_t k, size_t n,
                       bool scaled, v16 *base, v16 *top)
{
    v16 a = get(f + k, n), b = scaled ? v_mul(a, get(c->scale + k, n)) : a;
    *base = keep(scaled ? v_fma(a, get(c->mid + k, n), *base) : v_add(*base, a), *base, n);
    *top = v_max(v_bits(b, 0x7fffffff), *top);
    return b;
}

/* nt queries side by side, each of which is a chain of dependent steps. base: dot16 of f and mid if
   `scaled`, or else the sum of f. x: [nt, 2 * TFT_CODED_SPAN], n of a row rounded up to 16s; to:
   [nt, CODED_SPANS] */
CODED void coded_fold(struct coded_fold *to, uint8_t *x, const struct coded_factors *c,
                      const float *f, size_t nt, bool scaled, bool wide)
{
    float t[CODED_FOLDS][TFT_CODED_SPAN], r[CODED_FOLDS];
    v16 top[CODED_FOLDS], base[CODED_FOLDS], shift[CODED_FOLDS], inverse[CODED_FOLDS],
        low = v_set(-c->limit), high = v_set(c->limit);
    UNROLL for (size_t i = 0; i < nt; i++)
        top[i] = base[i] = shift[i] = v_set(0);
    size_t k = 0;
    for (; k + 16 <= c->n; k += 16)
        UNROLL for (size_t i = 0; i < nt; i++)
            v_store(t[i] + k, coded_scaled(c, f + i * c->ldf, k, 16, scaled, &base[i], &top[i]));
    UNROLL for (size_t i = 0; i < nt; i++) if (k < c->n)
        v_store(t[i] + k, coded_scaled(c, f + i * c->ldf, k, c->n - k, scaled, &base[i], &top[i]));

    UNROLL for (size_t i = 0; i < nt; i++) {
        r[i] = v_top(top[i]);
        r[i] = r[i] >= TFT_FOLD_LEAST && r[i] <= FLT_MAX ? r[i] : 0;
        inverse[i] = v_set(r[i] > 0 ? c->limit / r[i] : 0);
    }
    for (k = 0; k < c->n; k += 16)
        UNROLL for (size_t i = 0; i < nt; i++) {
            v16 a = v_rint(v_min(v_max(v_mul(v_load(t[i] + k), inverse[i]), low), high));
            /* exact: all is at most 256 * 16256 or 256 * 127 * 15 */
            shift[i] = v_fma(a, v_load(c->weight + k), shift[i]);
            c_put_x(x + i * 2 * TFT_CODED_SPAN + k * (wide ? 2 : 1), a, wide);
        }
    UNROLL for (size_t i = 0; i < nt; i++) to[i * CODED_SPANS] =
        (struct coded_fold){r[i] / c->limit / 2, v_sum(base[i]), (int32_t)v_sum(shift[i])};
}

CODED void coded_fold_narrow(struct coded_fold *to, uint8_t *x, const struct coded_factors *c,
                             const float *f, size_t nt, bool scaled)
{
    switch (nt) {
    case 4: coded_fold(to, x, c, f, 4, scaled, false); break;
    case 3: coded_fold(to, x, c, f, 3, scaled, false); break;
    case 2: coded_fold(to, x, c, f, 2, scaled, false); break;
    default: coded_fold(to, x, c, f, 1, scaled, false);
    }
}

/* All nq queries of a batch, as the g-th of what a query has folded by itself, and to the columns
   from `first` on. */
CODED void coded_folds(struct coded_batch *b, size_t g, size_t first, const struct coded_factors *c,
                       size_t nq, bool scaled, bool wide)
{
    for (size_t i = 0, n; i < nq; i += n) {
        n = least(wide ? 1 : CODED_FOLDS, nq - i);
        if (wide)
            coded_fold(&b->fold[i][g], b->x[i] + 2 * first, c, c->f + i * c->ldf, 1, scaled, true);
        else
            coded_fold_narrow(&b->fold[i][g], b->x[i] + first, c, c->f + i * c->ldf, n, scaled);
    }
}

static void ISA(coded_folds_scaled)(struct coded_batch *b, const struct coded_factors *c, size_t nq,
                                    bool wide)
{
    if (wide)
        coded_folds(b, 0, 0, c, nq, true, true);
    else
        coded_folds(b, 0, 0, c, nq, true, false);
}

static void ISA(coded_folds_plain)(struct coded_batch *b, size_t g, size_t first,
                                   const struct coded_factors *c, size_t nq, bool wide)
{
    if (wide)
        coded_folds(b, g, first, c, nq, false, true);
    else
        coded_folds(b, g, first, c, nq, false, false);
}

/* ------------------------------------------------------------------------------------- products */

/* sum: [nt, 16], x: [nt] rows of a batch; as many 16s of columns as `columns` are in. nt and wide
   are constants after inlining. */
CODED void coded_tile(int32_t (*sum)[TFT_PANEL], const uint8_t *codes, const uint8_t *x,
                      size_t columns, size_t nt, bool wide)
{
    size_t ways = CODED_WAYS == 1 ? 1 : CODED_TILE / nt >= 4 ? 4 : CODED_TILE / nt >= 2 ? 2 : 1;
    size_t steps = (columns + 15) / 16, run = wide ? CODED_SPANS : CODED_RUN;
    for (bool more = false; steps; more = true) {
        c_acc acc[CODED_TILE][4];
        UNROLL for (size_t i = 0; i < nt; i++)
            UNROLL for (size_t a = 0; a < ways; a++)
                acc[i][a] = c_zero();
        size_t n = least(run, steps);
        for (size_t k = 0; k < n; k++, codes += 4 * CODED_QUAD, x += wide ? 32 : 16) {
            c_x f[CODED_TILE];
            UNROLL for (size_t i = 0; i < nt; i++)
                f[i] = c_factors(x + i * 2 * TFT_CODED_SPAN, wide);
            UNROLL for (size_t s = 0; s < 4; s++) {
                c_codes c = c_load(codes + s * CODED_QUAD, wide);
                UNROLL for (size_t i = 0; i < nt; i++)
                    acc[i][s % ways] = c_dot(acc[i][s % ways], c, f[i], s, wide);
            }
        }
        UNROLL for (size_t i = 0; i < nt; i++)
            UNROLL for (size_t a = 0; a < ways; a++)
                c_store(sum[i], acc[i][a], wide, more || a);
        steps -= n;
    }
}

#define CODED_CASE(n)                                                                              \
    case n:                                                                                        \
        if (n <= CODED_TILE)                                                                       \
            coded_tile(sum, codes, x, columns, n, wide);                                           \
        break

CODED void coded_tiles(int32_t (*sum)[TFT_PANEL], const uint8_t *codes, const uint8_t *x,
                       size_t columns, size_t nt, bool wide)
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

static void ISA(coded_wide)(int32_t (*sum)[TFT_PANEL], const uint8_t *codes, const uint8_t *x,
                            size_t columns, size_t nt)
{
    coded_tiles(sum, codes, x, columns, nt, true);
}

#if CODED_NARROW
static void ISA(coded_narrow)(int32_t (*sum)[TFT_PANEL], const uint8_t *codes, const uint8_t *x,
                              size_t columns, size_t nt)
{
    coded_tiles(sum, codes, x, columns, nt, false);
}
#endif

#if CODED_STRAIGHT
/* As many quads as `steps` of as many queries as nt. */
CODED void coded_steps(c_acc (*acc)[4], const uint8_t *from, enum tft_bits bits, const uint8_t *x,
                       size_t nt, size_t ways, size_t steps)
{
    c_x f[CODED_STRAIGHT];
    UNROLL for (size_t i = 0; i < nt; i++)
        f[i] = c_factors(x + i * 2 * TFT_CODED_SPAN, false);
    UNROLL for (size_t s = 0; s < steps; s++) {
        breg a[CODED_REGS];
        coded_open(a, from + s * tft_codes_bytes(bits, 1), bits);
        c_codes c = c_take(a);
        UNROLL for (size_t i = 0; i < nt; i++)
            acc[i][s % ways] = c_dot(acc[i][s % ways], c, f[i], s, false);
    }
}

/* One panel: sum: [nt, 16], plus what it holds if more; x: [nt] rows of a batch, narrow. bits and
   nt are constants. */
CODED void coded_straight(int32_t (*sum)[TFT_PANEL], const uint8_t *from, enum tft_bits bits,
                          size_t quads, const uint8_t *x, size_t nt, bool more)
{
    size_t ways = CODED_WAYS == 1 ? 1
                  : nt <= 2       ? 4
                  : nt <= 4       ? 2
                                  : 1,
           size = tft_codes_bytes(bits, 1);
    size_t run = CODED_RUN == CODED_SPANS ? TFT_CODED_SPAN
                                          : CODED_RUN * 4 * (15 / (tft_bits_levels(bits) - 1));
    for (; quads; more = true) {
        c_acc acc[CODED_STRAIGHT][4];
        UNROLL for (size_t i = 0; i < nt; i++)
            UNROLL for (size_t a = 0; a < ways; a++)
                acc[i][a] = c_zero();
        size_t n = least(run, quads);
        quads -= n;
        for (; n >= 4; n -= 4, from += 4 * size, x += 16)
            coded_steps(acc, from, bits, x, nt, ways, 4);
        for (; n; n--, from += size, x += 4)
            coded_steps(acc, from, bits, x, nt, ways, 1);
        UNROLL for (size_t i = 0; i < nt; i++) {
            UNROLL for (size_t a = 1; a < ways; a++)
                acc[i][0] = c_add(acc[i][0], acc[i][a]);
            c_store(sum[i], acc[i][0], false, more);
        }
    }
}

/* Some panels' quads of equal bits. */
struct coded_quads {
    const uint8_t *from;
    size_t panels, stride, quads; /* bytes from a panel to the next */
    enum tft_bits bits;
};

#define CODED_STRAIGHT_CASE(n)                                                                     \
    case n:                                                                                        \
        for (size_t p = 0; n <= CODED_STRAIGHT && p < c->panels; p++)                              \
            coded_straight(sum[p], c->from + p * c->stride, bits, c->quads, x, n, more);           \
        break

/* Of 5, 6 or 7 queries the rest of 8 is computed for nothing. */
CODED void coded_straight_some(coded_sum *sum, const struct coded_quads *c, enum tft_bits bits,
                               const uint8_t *x, size_t nt, bool more)
{
    switch (nt <= 4 ? nt : 8) {
        CODED_STRAIGHT_CASE(8);
        CODED_STRAIGHT_CASE(4);
        CODED_STRAIGHT_CASE(3);
        CODED_STRAIGHT_CASE(2);
        CODED_STRAIGHT_CASE(1);
    }
}

static void ISA(coded_straight)(coded_sum *sum, const struct coded_quads *c, const uint8_t *x,
                                size_t nt, bool more)
{
    switch (c->bits) {
    case TFT_BITS_1: coded_straight_some(sum, c, TFT_BITS_1, x, nt, more); break;
    case TFT_BITS_3: coded_straight_some(sum, c, TFT_BITS_3, x, nt, more); break;
    case TFT_BITS_4: coded_straight_some(sum, c, TFT_BITS_4, x, nt, more); break;
    default: coded_straight_some(sum, c, TFT_BITS_2, x, nt, more);
    }
}
#endif

/* Up to 4 bits, and no fives, for few queries: what coded_straight is for. */
CODED bool coded_few(const struct tft_coded *b, size_t nq)
{
    return nq <= CODED_STRAIGHT && !b->quads[TFT_BITS_8] && !b->quads[TFT_BITS_3_LEVELS];
}

/* A of nt queries and of the quads first .. first + n - 1 of the panels of b that were stored at
   `from`; x: the factors of the first of them */
CODED void coded_sums_straight(coded_sum *sum, const struct tft_coded *b, const uint8_t *from,
                               size_t panels, const uint8_t *x, size_t first, size_t n, size_t nt,
                               bool more)
{
#if CODED_STRAIGHT
    struct coded_quads c = {.panels = panels, .stride = coded_panel_bytes(b)};
    for (c.bits = 0; n; c.bits++) {
        size_t size = tft_codes_bytes(c.bits, 1), skip = least(first, b->quads[c.bits]);
        c.quads = least(b->quads[c.bits] - skip, n);
        c.from = from + skip * size;
        if (c.quads) {
            ISA(coded_straight)(sum, &c, x, nt, more);
            more = true;
        }
        from += b->quads[c.bits] * size;
        x += c.quads * TFT_QUAD;
        first -= skip;
        n -= c.quads;
    }
#else
    (void)sum, (void)b, (void)from, (void)panels, (void)x, (void)first, (void)n, (void)nt,
        (void)more;
#endif
}

/* A of up to CODED_TILE queries from the i-th on, and of the columns first .. first + n - 1 that
   are unpacked in b */
CODED void coded_sums(int32_t (*sum)[TFT_PANEL], const struct coded_batch *b, size_t i, size_t nt,
                      size_t first, size_t n, bool wide)
{
    const uint8_t *codes = b->codes + first / TFT_QUAD * CODED_QUAD,
                  *x = b->x[i] + first * (wide ? 2 : 1);
#if CODED_NARROW
    if (!wide)
        ISA(coded_narrow)(sum, codes, x, n, nt);
    else
#endif
        ISA(coded_wide)(sum, codes, x, n, nt);
}

/* y + what the columns of a span are worth where scale and mid belong to the rows */
CODED v16 coded_rows(v16 y, const int32_t *sum, const struct coded_fold *f, v16 scale, v16 mid)
{
    y = v_fma(v_mul(v_doubled(sum, f->shift), v_set(f->half)), scale, y);
    return v_fma(v_set(f->base), mid, y);
}

/* --------------------------------------------------------------------------------------- scores */

/* s: 16 scores of a query, as far as the channels from d on, folded as f, take them: those of the
   tokens from `token` on */
CODED void coded_score(float *s, const int32_t *sum, const struct coded_fold *f,
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

/* nt queries from the i-th of the batch on, and the panels from `token` on: those whose codes the
   batch has, or if straight, all. */
CODED void coded_scores(float *s, size_t ns, const struct coded_batch *b, const struct tft_coded *k,
                        bool straight, size_t token, size_t i, size_t nt, float factor, bool wide)
{
    coded_sum sum[TFT_CODED_SPAN / TFT_PANEL];
    size_t span = k->group ? k->group : k->dim,
           panels = straight
                        ? least(k->tokens / TFT_PANEL - token / TFT_PANEL, sizeof sum / sizeof *sum)
                        : 1;
    for (size_t d = 0, g = 0; d < k->dim; d += span, g++) {
        size_t n = least(span, k->dim - d);
        if (straight)
            coded_sums_straight(sum, k, k->codes + token / TFT_PANEL * coded_panel_bytes(k), panels,
                                b->x[i] + d, d / TFT_QUAD, n / TFT_QUAD, nt, false);
        else
            coded_sums(sum[0], b, i, nt, d, n, wide);
        for (size_t p = 0; p < panels; p++)
            for (size_t j = 0; j < nt; j++)
                coded_score(s + j * ns + p * TFT_PANEL, sum[p][j], &b->fold[i + j][g], k, d,
                            token + p * TFT_PANEL, factor);
    }
}

CODED void coded_fold_queries(struct coded_batch *b, const float *q, size_t ldq,
                              const struct tft_coded *k, size_t nq, bool wide)
{
    struct coded_factors c = {q, ldq, k->scale, k->mid, b->weight, k->dim, tft_fold_limit(k)};
    if (!k->group)
        ISA(coded_folds_scaled)(b, &c, nq, wide);
    for (size_t d = 0, g = 0; k->group && d < k->dim; d += k->group, g++) {
        c = (struct coded_factors){
            q + d, ldq, NULL, NULL, b->weight + d, least(k->group, k->dim - d), c.limit};
        ISA(coded_folds_plain)(b, g, d, &c, nq, wide);
    }
}

/* nq is at most CODED_BATCH. */
CODED void coded_score_batch(struct coded_batch *b, float *s, size_t ns, const float *q, size_t ldq,
                             const struct tft_coded *k, size_t nq, float factor, bool wide)
{
    bool straight = coded_few(k, nq);
    coded_fold_queries(b, q, ldq, k, nq, wide);
    const uint8_t *from = k->codes;
    for (size_t token = 0; token < k->tokens;
         token += straight ? TFT_CODED_SPAN : TFT_PANEL, from += coded_panel_bytes(k)) {
        if (!straight)
            ISA(coded_unpack)(b->codes, from, k);
        for (size_t i = 0, n; i < nq; i += n) {
            n = least(straight ? CODED_QUERIES : CODED_TILE, nq - i);
            coded_scores(s + i * ns + token, ns, b, k, straight, token, i, n, factor, wide);
        }
    }
}

static void ISA(score_codes)(float *s, size_t ns, const float *q, size_t ldq,
                             const struct tft_coded *k, size_t nq, float factor)
{
    struct coded_batch b;
    ISA(coded_columns)(&b, k, 1);
    for (size_t i = 0; i < nq; i += CODED_BATCH) {
        size_t n = least(CODED_BATCH, nq - i);
        if (CODED_NARROW && tft_fold_limit(k) == TFT_FOLD_NARROW)
            coded_score_batch(&b, s + i * ns, ns, q + i * ldq, ldq, k, n, factor, false);
        else
            coded_score_batch(&b, s + i * ns, ns, q + i * ldq, ldq, k, n, factor, true);
    }
}

/* --------------------------------------------------------------------------------------- values */

/* o: 16 channels of a query, or the n that are left, from d on, plus what the g-th tokens that are
   folded together have for them */
CODED void coded_value(float *o, const int32_t *sum, const struct coded_fold *f,
                       const struct tft_coded *v, size_t g, size_t d, size_t n)
{
    v16 a = get(o, n);
    if (v->group)
        a = v_add(a, v_fma(v_doubled(sum, f->shift), v_set(f->half), v_set(f->base)));
    else
        a = coded_rows(a, sum, f, get(v[g].scale + d, n), get(v[g].mid + d, n));
    put(o, a, n);
}

/* nt queries from the i-th of the batch on, and the channels of as many panels from d on: of the
   one whose codes the batch has, or if straight */
CODED void coded_values(float *o, size_t ldo, const struct coded_batch *b,
                        const struct tft_coded *v, size_t nb, bool straight, size_t d,
                        size_t panels, size_t i, size_t nt, bool wide)
{
    coded_sum sum[TFT_CODED_SPAN / TFT_PANEL];
    size_t tokens = v->tokens, span = v->group ? nb * tokens : tokens;
    for (size_t first = 0, g = 0; first < nb * tokens; first += span, g++) {
        if (!straight)
            coded_sums(sum[0], b, i, nt, first, span, wide);
        for (size_t j = first; straight && j < first + span; j += tokens)
            coded_sums_straight(sum, v, v[j / tokens].codes + d / TFT_PANEL * coded_panel_bytes(v),
                                panels, b->x[i] + j, 0, tokens / TFT_QUAD, nt, j > first);
        for (size_t p = 0; p < panels; p++)
            for (size_t j = 0; j < nt; j++)
                coded_value(o + j * ldo + p * TFT_PANEL, sum[p][j], &b->fold[i + j][g], v, g,
                            d + p * TFT_PANEL, v->dim - d - p * TFT_PANEL);
    }
}

/* The probabilities of a batch, folded with the scales of group g of the channels. */
CODED void coded_fold_by_token(struct coded_batch *b, const float *p, size_t ldp,
                               const struct tft_coded *v, size_t nb, size_t g, size_t nq, bool wide)
{
    float scale[TFT_CODED_SPAN], mid[TFT_CODED_SPAN];
    size_t tokens = v->tokens;
    for (size_t i = 0; i < nb; i++) {
        memcpy(scale + i * tokens, v[i].scale + g * tokens, tokens * sizeof *scale);
        memcpy(mid + i * tokens, v[i].mid + g * tokens, tokens * sizeof *mid);
    }
    struct coded_factors c = {p, ldp, scale, mid, b->weight, nb * tokens, tft_fold_limit(v)};
    ISA(coded_folds_scaled)(b, &c, nq, wide);
}

CODED void coded_fold_blocks(struct coded_batch *b, const float *p, size_t ldp,
                             const struct tft_coded *v, size_t nb, size_t nq, bool wide)
{
    for (size_t j = 0, first = 0; j < nb; j++, first += v->tokens) {
        struct coded_factors c = {p + first,        ldp, NULL, NULL, b->weight, v->tokens,
                                  tft_fold_limit(v)};
        ISA(coded_folds_plain)(b, j, first, &c, nq, wide);
    }
}

/* nq is at most CODED_BATCH. */
CODED void coded_mix(struct coded_batch *b, float *o, size_t ldo, const float *p, size_t ldp,
                     const struct tft_coded *v, size_t nb, size_t nq, bool wide)
{
    bool straight = coded_few(v, nq);
    size_t most = straight ? CODED_QUERIES : CODED_TILE,
           width = straight ? v->group ? v->group : TFT_CODED_SPAN : TFT_PANEL;
    if (!v->group)
        coded_fold_blocks(b, p, ldp, v, nb, nq, wide);
    for (size_t d = 0; d < v->dim; d += width) {
        size_t panels = (least(width, v->dim - d) + TFT_PANEL - 1) / TFT_PANEL;
        if (v->group && d % v->group == 0)
            coded_fold_by_token(b, p, ldp, v, nb, d / v->group, nq, wide);
        for (size_t i = 0; i < nb && !straight; i++)
            ISA(coded_unpack)
            (b->codes + i * v->tokens / TFT_QUAD * CODED_QUAD,
             v[i].codes + d / TFT_PANEL * coded_panel_bytes(v), &v[i]);
        for (size_t i = 0; i < nq; i += most)
            coded_values(o + i * ldo + d, ldo, b, v, nb, straight, d, panels, i,
                         least(most, nq - i), wide);
    }
}

static void ISA(mix_codes)(float *o, size_t ldo, const float *p, size_t ldp,
                           const struct tft_coded *v, size_t nb, size_t nq)
{
    struct coded_batch b;
    ISA(coded_columns)(&b, v, nb);
    for (size_t i = 0; i < nq; i += CODED_BATCH) {
        size_t n = least(CODED_BATCH, nq - i);
        if (CODED_NARROW && tft_fold_limit(v) == TFT_FOLD_NARROW)
            coded_mix(&b, o + i * ldo, ldo, p + i * ldp, ldp, v, nb, n, false);
        else
            coded_mix(&b, o + i * ldo, ldo, p + i * ldp, ldp, v, nb, n, true);
    }
}

static void coded_rung(struct tft_kernels *k)
{
    k->score_codes = ISA(score_codes);
    k->mix_codes = ISA(mix_codes);
}
