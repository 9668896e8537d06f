/* Cases of score_codes, mix_codes, mix_widths and turn_keys, and of the layout of codes. */
#include "data.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "simd/half.h"

enum { MAX_BLOCKS = 8 };

/* ----------------------------------------------------------------------------------- the layout */

/* Code i of quad q, computed from the text of codes.h. */
static unsigned code_at(const uint8_t *from, enum tft_bits b, size_t quads, size_t q, size_t i)
{
    size_t fives = quads / TFT_TRIT_QUADS * TFT_TRIT_QUADS;
    if (b == TFT_BITS_3_LEVELS && q < fives) {
        unsigned fraction = from[q / TFT_TRIT_QUADS * 64 + i];
        for (size_t k = 0; k < q % TFT_TRIT_QUADS; k++)
            fraction = fraction * 3 % 256;
        return fraction * 3 / 256;
    }
    from += tft_codes_bytes(b, q);
    switch (b) {
    case TFT_BITS_1: return from[i % 8] >> i / 8 & 1;
    case TFT_BITS_3:
        return (from[i % 16] >> 2 * (i / 16) & 3) + 4 * (from[16 + i % 8] >> i / 8 & 1);
    case TFT_BITS_4: return i < 32 ? from[i] & 15 : from[i - 32] >> 4;
    case TFT_BITS_8: return from[i];
    default: return from[i % 16] >> 2 * (i / 16) & 3;
    }
}

static void layout(struct check *c)
{
    for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++)
        for (size_t quads = 0; quads <= 16; quads++) {
            size_t bytes = tft_codes_bytes(b, quads);
            uint8_t *codes = check_buf(c, 64 * quads, 1), *back = check_buf(c, 64 * quads, 1),
                    *packed = check_buf(c, bytes, 1);
            for (size_t i = 0; i < 64 * quads; i++)
                codes[i] = (uint8_t)check_below(c, tft_bits_levels(b));
            tft_codes_pack(packed, codes, b, quads);
            tft_codes_unpack(back, packed, b, quads);
            check_same(c, codes, back, 64 * quads, "%zu quads of %u levels, packed and unpacked",
                       quads, tft_bits_levels(b));
            for (size_t i = 0; i < 64 * quads; i++)
                check_near(c, codes[i], code_at(packed, b, quads, i / 64, i % 64), 1, 0,
                           "code %zu of %u levels", i, tft_bits_levels(b));
            check_free();
        }
    uint8_t five[5 * 64], packed[64], back[5 * 64];
    for (unsigned first = 0; first < 243; first += 64) { /* all combinations of five digits */
        for (unsigned i = 0; i < 64; i++)
            for (unsigned q = 0, v = (first + i) % 243; q < 5; q++, v /= 3)
                five[64 * q + i] = (uint8_t)(v % 3);
        tft_codes_pack(packed, five, TFT_BITS_3_LEVELS, 5);
        tft_codes_unpack(back, packed, TFT_BITS_3_LEVELS, 5);
        check_same(c, five, back, sizeof five, "five digits of base 3 from %u on", first);
    }
}

/* -------------------------------------------------------------------------------- random blocks */

static struct check_block random_keys(struct check *c, size_t tokens, size_t dim, size_t group,
                                      enum tft_bits bits)
{
    uint16_t quads[TFT_BITS_COUNT];
    check_quads(c, quads, dim, bits);
    return check_keys(c, tokens, dim, group, quads);
}

/* The index of the scale and the middle of a token's channel. */
static size_t scale_at(const struct tft_coded *b, size_t token, size_t channel)
{
    return b->group ? channel / b->group * b->tokens + token : channel;
}

static size_t random_dim(struct check *c)
{
    static const size_t usual[] = {4, 12, 20, 48, 64, 64, 80, 96, 128, 256, 512};
    return check_below(c, 2) ? usual[check_below(c, 11)] : 4 * (1 + check_below(c, 64));
}

static size_t random_group(struct check *c)
{
    static const size_t usual[] = {16, 32, 48, 64, 128};
    return check_below(c, 2) ? usual[check_below(c, 5)] : 0;
}

/* The number of blocks of `tokens` tokens in one call. */
static size_t random_blocks(struct check *c, size_t tokens)
{
    size_t max = TFT_CODED_SPAN / tokens;
    return 1 + check_below(c, max < MAX_BLOCKS ? max : MAX_BLOCKS);
}

/* ---------------------------------------------------------------------------------- score_codes */

/* The error that a fold may make: half a step, or the whole number if it is too small to be folded.
   */
static double fold_loss(double largest, double limit)
{
    return largest / limit / 2 + (largest < 2 * (double)TFT_FOLD_LEAST ? largest : 0);
}

/* One score, the sum of q times the values of the codes, and the error that the kernel may make.
   Returns false if any of it is huge, infinite or NaN, where nothing is checked. */
static bool exact_score(const struct check_block *k, const float *q, size_t token, double *score,
                        double *slack)
{
    const struct tft_coded *b = &k->b;
    double limit = b->quads[TFT_BITS_8] ? 16256 : 127, sum = 0, total = 0, loss = 0;
    size_t span = b->group ? b->group : b->dim;
    for (size_t d = 0; d < b->dim; d += span) {
        size_t end = d + span < b->dim ? d + span : b->dim;
        double largest = 0;
        for (size_t i = d; i < end; i++)
            largest = fmax(largest, fabs((double)q[i] * (b->group ? 1 : (double)b->scale[i])));
        for (size_t i = d; i < end; i++) {
            size_t at = scale_at(b, token, i);
            double distance = k->code[token * k->columns + i] - (k->levels[i] - 1) / 2.0;
            double far = (double)q[i] * (double)b->scale[at] * distance,
                   mid = (double)q[i] * (double)b->mid[at];
            sum += far + mid;
            total += fabs(far) + fabs(mid);
            loss += fold_loss(largest, limit) * fabs(distance) *
                    (b->group ? (double)b->scale[at] : 1);
        }
        if (!(largest < 1e36))
            return false;
    }
    *score = sum;
    *slack = loss * (1 + 1e-5) + total * (double)(b->dim + 8) * 0x1p-23 + 1e-30;
    return isfinite(sum) && total < 1e36;
}

static void score_shape(struct check *c, size_t tokens, size_t dim, size_t group,
                        enum tft_bits bits, size_t nq)
{
    struct check_block k = random_keys(c, tokens, dim, group, bits);
    size_t ldq = dim + check_below(c, 3), lds = tokens + check_below(c, 20),
           size = (nq - 1) * lds + tokens;
    float *q = check_buf(c, (nq - 1) * ldq + dim, 4), *want = check_buf(c, size, 4),
          *got = check_buf(c, size, 4);
    float factor = check_below(c, 2) ? 0.125f : 0.0883883461f;
    char what[120];
    memset(q, 0, ((nq - 1) * ldq + dim) * 4);
    for (size_t i = 0; i < nq; i++)
        check_fill_factors(c, q + i * ldq, dim);
    memset(want, 0, size * 4);
    memset(got, 0, size * 4);
    struct tft_score_codes a = {want, lds, q, ldq, &k.b, nq, factor};
    c->ref->score_codes(&a);
    a.s = got;
    c->now->score_codes(&a);
    snprintf(what, sizeof what, "%zu queries, %zu keys of %zu, group %zu, quads %d %d %d %d %d %d",
             nq, tokens, dim, group, k.b.quads[0], k.b.quads[1], k.b.quads[2], k.b.quads[3],
             k.b.quads[4], k.b.quads[5]);
    check_same_floats(c, want, got, size, what);

    double score, slack;
    for (size_t i = 0; i < nq && !c->below; i++)
        for (size_t j = 0; j < tokens; j++)
            if (exact_score(&k, q + i * ldq, j, &score, &slack))
                check_near(c, score * (double)factor, (double)got[i * lds + j],
                           slack * (double)factor, 1, "query %zu key %zu of %s", i, j, what);
    check_free();
}

struct bench {
    const char *name;
    enum tft_bits bits;
    size_t group, tokens;
};

static void score_bench(struct check *c, const struct bench *how, size_t nq, size_t dim)
{
    enum { TOKENS = 256 };
    uint16_t quads[TFT_BITS_COUNT] = {0};
    if (how->bits == TFT_BITS_COUNT) { /* mixed widths, 2 bits on average */
        quads[TFT_BITS_1] = quads[TFT_BITS_2] = (uint16_t)(dim / 4 * 3 / 8);
        quads[TFT_BITS_3] = quads[TFT_BITS_4] = (uint16_t)(dim / 4 / 8);
    } else
        quads[how->bits] = (uint16_t)(dim / 4);
    struct check_block k = check_keys(c, how->tokens, dim, how->group, quads);
    float *q = check_buf(c, nq * dim, 4), *s = check_buf(c, nq * TOKENS, 4);
    check_fill(c, q, nq * dim);
    double bytes = 0;
    for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++)
        bytes += (double)tft_codes_bytes(b, k.b.quads[b]) * TOKENS / 16;
    char what[60];
    snprintf(what, sizeof what, "%zu x 256 of %zu, %s", nq, dim, how->name);
    struct tft_score_codes a = {s, TOKENS, q, dim, &k.b, nq, 0.125f};
    CHECK_TIME(c, what, 2.0 * (double)(nq * TOKENS * dim), bytes,
               for (a.s = s; a.s < s + TOKENS; a.s += how->tokens) c->ref->score_codes(&a),
               for (a.s = s; a.s < s + TOKENS; a.s += how->tokens) c->now->score_codes(&a));
    check_free();
}

static void score_codes(struct check *c)
{
    if (!check_begin(c, "score_codes", &c->now->score_codes))
        return;
    if (!c->below)
        layout(c);
    for (size_t nq = 1; nq <= 33; nq++)
        score_shape(c, 16, 64, 16 * (nq % 2), TFT_BITS_2, nq);
    for (enum tft_bits b = 0; b <= TFT_BITS_COUNT; b++)
        for (size_t dim = 4; dim <= TFT_CODED_DIM; dim += dim < 96 ? 4 : dim < 256 ? 20 : 64)
            score_shape(c, 16, dim, random_group(c), b, 1 + check_below(c, 9));
    for (int i = 0; i < (c->thorough ? 150 : 60); i++)
        score_shape(c, 16 * (1 + check_below(c, 8)), random_dim(c), random_group(c),
                    check_below(c, 2) ? TFT_BITS_COUNT
                                      : (enum tft_bits)check_below(c, TFT_BITS_COUNT),
                    1 + check_below(c, 33));

    static const struct bench usual[] = {{"2 bits by channel, 32s", TFT_BITS_2, 0, 32},
                                         {"2 bits by channel", TFT_BITS_2, 0, 128},
                                         {"2 bits by token", TFT_BITS_2, 64, 128}};
    static const struct bench other[] = {{"1-4 bits, 32s", TFT_BITS_COUNT, 0, 32},
                                         {"3 levels, 32s", TFT_BITS_3_LEVELS, 0, 32},
                                         {"4 bits, 32s", TFT_BITS_4, 0, 32},
                                         {"8 bits, 32s", TFT_BITS_8, 0, 32}};
    static const size_t queries[] = {1, 3, 8, 32};
    for (size_t i = 0; c->bench && i < 3; i++)
        for (size_t dim = 64; dim <= 128; dim *= 2)
            for (size_t n = 0; n < 4; n++)
                score_bench(c, &usual[i], queries[n], dim);
    for (size_t i = 0; c->bench && i < 4; i++)
        score_bench(c, &other[i], 3, 64);
}

/* ------------------------------------------------------------------------------------ mix_codes */

/* Adds the part of channel d from blocks first .. first + n - 1, which fold their probabilities
   together; and the error that the kernel may make. Returns false if any of it is huge, infinite or
   NaN. */
static bool exact_part(const struct check_block *v, size_t first, size_t n, const float *p,
                       size_t d, double *sum, double *slack)
{
    size_t tokens = v->b.tokens;
    double limit = v->b.quads[TFT_BITS_8] ? 16256 : 127, largest = 0, loss = 0, total = 0, part = 0;
    for (size_t j = first * tokens; j < (first + n) * tokens; j++) {
        const struct check_block *b = &v[j / tokens];
        size_t at = scale_at(&b->b, j % tokens, d);
        double distance = b->code[d * tokens + j % tokens] - (b->levels[0] - 1) / 2.0,
               scale = (double)b->b.scale[at];
        double far = (double)p[j] * scale * distance, mid = (double)p[j] * (double)b->b.mid[at];
        largest = fmax(largest, fabs((double)p[j] * (b->b.group ? scale : 1)));
        loss += fabs(distance) * (b->b.group ? 1 : scale);
        part += far + mid;
        total += fabs(far) + fabs(mid);
    }
    *sum += part;
    *slack += fold_loss(largest, limit) * loss * (1 + 1e-5) +
              total * (double)(n * tokens + 8) * 0x1p-23;
    return largest < 1e36 && total < 1e36;
}

static void against_values(struct check *c, const struct check_block *v, size_t nb, const float *p,
                           const float *old, const float *got)
{
    for (size_t d = 0; d < v->b.dim; d++) {
        double sum = (double)old[d], slack = fabs(sum) * (double)(nb + 1) * 0x1p-23 + 1e-30;
        bool finite = true;
        for (size_t b = 0; b < nb; b += v->b.group ? nb : 1)
            finite = exact_part(v, b, v->b.group ? nb : 1, p, d, &sum, &slack) && finite;
        if (finite)
            check_near(c, sum, (double)got[d], slack, 1,
                       "channel %zu of %u, %zu blocks of %u, group %u, %u levels", d, v->b.dim, nb,
                       v->b.tokens, v->b.group, v->levels[0]);
    }
}

static void mix_shape(struct check *c, size_t nb, size_t tokens, size_t dim, size_t group,
                      enum tft_bits bits, size_t nq)
{
    struct check_block v[MAX_BLOCKS];
    struct tft_coded b[MAX_BLOCKS];
    for (size_t i = 0; i < nb; i++) {
        v[i] = check_values(c, tokens, dim, group, bits);
        b[i] = v[i].b;
    }
    size_t n = nb * tokens, ldp = n + check_below(c, 3), ldo = dim + check_below(c, 3),
           size = (nq - 1) * ldo + dim;
    float *p = check_buf(c, (nq - 1) * ldp + n, 4), *o = check_buf(c, size, 4),
          *want = check_buf(c, size, 4), *got = check_buf(c, size, 4);
    char what[120];
    memset(p, 0, ((nq - 1) * ldp + n) * 4);
    for (size_t i = 0; i < nq; i++)
        check_fill_factors(c, p + i * ldp, n);
    check_fill(c, o, size);
    memcpy(want, o, size * 4);
    memcpy(got, o, size * 4);
    struct tft_mix_codes a = {want, ldo, p, ldp, b, nb, nq};
    c->ref->mix_codes(&a);
    a.o = got;
    c->now->mix_codes(&a);
    snprintf(what, sizeof what, "%zu rows, %zu times %zu values of %zu, group %zu, %u levels", nq,
             nb, tokens, dim, group, tft_bits_levels(bits));
    check_same_floats(c, want, got, size, what);
    for (size_t i = 0; i < nq && !c->below; i++)
        against_values(c, v, nb, p + i * ldp, o + i * ldo, got + i * ldo);
    check_free();
}

static void mix_bench(struct check *c, const struct bench *how, size_t nq, size_t dim)
{
    enum { TOKENS = 256 };
    struct check_block v = check_values(c, how->tokens, dim, how->group, how->bits);
    struct tft_coded b[MAX_BLOCKS];
    size_t nb = TOKENS / how->tokens;
    for (size_t i = 0; i < nb; i++)
        b[i] = v.b;
    float *p = check_buf(c, nq * TOKENS, 4), *o = check_buf(c, nq * dim, 4);
    check_fill(c, p, nq * TOKENS);
    memset(o, 0, nq * dim * 4);
    char what[60];
    snprintf(what, sizeof what, "%zu x 256 of %zu, %s", nq, dim, how->name);
    struct tft_mix_codes a = {o, dim, p, TOKENS, b, nb, nq};
    CHECK_TIME(c, what, 2.0 * (double)(nq * TOKENS * dim),
               (double)(nb * tft_codes_bytes(how->bits, how->tokens / 4) * ((dim + 15) / 16)),
               c->ref->mix_codes(&a), c->now->mix_codes(&a));
    check_free();
}

static void mix_codes(struct check *c)
{
    if (!check_begin(c, "mix_codes", &c->now->mix_codes))
        return;
    for (size_t nq = 1; nq <= 33; nq++)
        mix_shape(c, 1 + nq % 3, 32, 48, 16 * (nq % 2), TFT_BITS_2, nq);
    for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++)
        for (size_t tokens = 16; tokens <= 128; tokens += 16)
            for (size_t group = 0; group <= 64; group += 32)
                mix_shape(c, random_blocks(c, tokens),
                          tokens, random_dim(c), group, b, 1 + check_below(c, 5));
    for (int i = 0; i < (c->thorough ? 100 : 40); i++) {
        size_t tokens = 16 * (1 + check_below(c, 8)),
               nb = random_blocks(c, tokens);
        mix_shape(c, nb, tokens, random_dim(c), random_group(c),
                  (enum tft_bits)check_below(c, TFT_BITS_COUNT), 1 + check_below(c, 33));
    }

    static const struct bench usual[] = {{"2 bits by token", TFT_BITS_2, 64, 128},
                                         {"2 bits by channel", TFT_BITS_2, 0, 128}};
    static const struct bench other[] = {{"2 bits by token, 32s", TFT_BITS_2, 64, 32},
                                         {"1 bit by token", TFT_BITS_1, 64, 128},
                                         {"3 levels by token", TFT_BITS_3_LEVELS, 64, 128},
                                         {"3 bits by token", TFT_BITS_3, 64, 128},
                                         {"4 bits by token", TFT_BITS_4, 64, 128},
                                         {"8 bits by token", TFT_BITS_8, 64, 128}};
    static const size_t queries[] = {1, 3, 8, 32};
    for (size_t i = 0; c->bench && i < 2; i++)
        for (size_t dim = 64; dim <= 128; dim *= 2)
            for (size_t n = 0; n < 4; n++)
                mix_bench(c, &usual[i], queries[n], dim);
    for (size_t i = 0; c->bench && i < 6; i++)
        mix_bench(c, &other[i], 3, 64);
}

/* ----------------------------------------------------------------------------------- mix_widths */

enum { WIDTH_QUADS = TFT_WIDTHS_TOKENS / 4 };

/* Channel d of one query, by the equation of kernels.h in doubles. `from`: the codes of the
   channel's panel in the first block, of width `bits`; NULL: no codes */
static void against_width(struct check *c, const struct tft_mix_widths *a, const float *p,
                          const uint8_t *from, enum tft_bits bits, size_t d, float got)
{
    double sum = 0, largest = 0, loss = 0, total = 0, middle = (tft_bits_levels(bits) - 1) / 2.0;
    size_t n = a->n_blocks * TFT_WIDTHS_TOKENS;
    for (size_t j = 0; j < n; j++) {
        size_t t = j % TFT_WIDTHS_TOKENS, i = d % 16 * 4 + t % 4;
        double f = (double)p[j] * (double)a->gain[j], mean = (double)p[j] * (double)a->mean[d],
               distance = 0;
        if (from)
            distance = code_at(from + j / TFT_WIDTHS_TOKENS * a->next, bits, WIDTH_QUADS, t / 4,
                               i) - middle;
        double far = f * distance * (double)a->steps[d];
        largest = fmax(largest, fabs(f));
        loss += fabs(distance * (double)a->steps[d]);
        total += fabs(far) + fabs(mean);
        sum += far + mean;
    }
    if (largest < 1e34 && total < 1e36) /* the products with codes are finite, too */
        check_near(c, sum, (double)got,
                   fold_loss(largest, TFT_FOLD_I8) * loss * (1 + 1e-5) +
                       total * (double)(n + 8) * 0x1p-23 + 1e-30,
                   1, "channel %zu of %zu, %zu blocks, %u levels", d, a->dim, a->n_blocks,
                   from ? tft_bits_levels(bits) : 1);
}

static void against_widths(struct check *c, const struct tft_mix_widths *a, const float *p,
                           const float *got)
{
    const uint8_t *from = a->codes;
    size_t d = 0, end = tft_widths_empty(a);
    for (; d < end; d++)
        against_width(c, a, p, NULL, TFT_BITS_1, d, got[d]);
    for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++)
        for (end += (size_t)a->panels[b] * 16; d < end; d++) {
            against_width(c, a, p, from, b, d, got[d]);
            if (d % 16 == 15)
                from += tft_codes_bytes(b, WIDTH_QUADS);
        }
}

/* Random arguments, all but the result. empty: panels without codes; n: of 1 to 4 bits */
static struct tft_mix_widths random_widths(struct check *c, size_t nb, size_t empty,
                                           const size_t n[4], size_t nq)
{
    static const enum tft_bits width[] = {TFT_BITS_1, TFT_BITS_2, TFT_BITS_3, TFT_BITS_4};
    struct tft_mix_widths a = {.dim = empty * 16, .n_blocks = nb, .nq = nq};
    size_t tokens = nb * TFT_WIDTHS_TOKENS, bytes = 0;
    for (int i = 0; i < 4; i++) {
        a.panels[width[i]] = (uint16_t)n[i];
        a.dim += 16 * n[i];
        bytes += n[i] * tft_codes_bytes(width[i], WIDTH_QUADS);
    }
    a.next = bytes + check_below(c, 3);
    a.ldp = tokens + check_below(c, 3);
    size_t all = bytes ? (nb - 1) * a.next + bytes : 0;
    uint8_t *codes = check_buf(c, all, 1);
    for (size_t i = 0; i < all; i++)
        codes[i] = (uint8_t)check_below(c, 256);
    float *p = check_buf(c, (nq - 1) * a.ldp + tokens, 4), *gain = check_buf(c, tokens, 4),
          *steps = check_buf(c, a.dim, 4), *mean = check_buf(c, a.dim, 4);
    memset(p, 0, ((nq - 1) * a.ldp + tokens) * 4);
    for (size_t i = 0; i < nq; i++)
        check_fill_factors(c, p + i * a.ldp, tokens);
    check_fill(c, gain, tokens);
    check_fill(c, steps, a.dim);
    check_fill(c, mean, a.dim);
    a.codes = codes;
    a.p = p;
    a.gain = gain;
    a.steps = steps;
    a.mean = mean;
    return a;
}

static void widths_shape(struct check *c, size_t nb, size_t empty, const size_t n[4], size_t nq)
{
    struct tft_mix_widths a = random_widths(c, nb, empty, n, nq);
    char what[120];
    a.ldo = a.dim + check_below(c, 3);
    size_t size = (nq - 1) * a.ldo + a.dim;
    float *want = check_buf(c, size, 4), *got = check_buf(c, size, 4);
    check_fill(c, want, size); /* neither read nor kept, except between rows */
    memcpy(got, want, size * 4);
    a.o = want;
    c->ref->mix_widths(&a);
    a.o = got;
    c->now->mix_widths(&a);
    snprintf(what, sizeof what, "%zu rows, %zu blocks, panels: %zu empty, %zu, %zu, %zu, %zu", nq,
             nb, empty, n[0], n[1], n[2], n[3]);
    check_same_floats(c, want, got, size, what);
    for (size_t i = 0; i < nq && !c->below; i++)
        against_widths(c, &a, a.p + i * a.ldp, got + i * a.ldo);
    check_free();
}

static void widths_bench(struct check *c, const char *name, size_t empty, const size_t n[4],
                         size_t nq)
{
    struct tft_mix_widths a = random_widths(c, MAX_BLOCKS, empty, n, nq);
    char what[60];
    a.ldo = a.dim;
    a.o = check_buf(c, nq * a.dim, 4);
    snprintf(what, sizeof what, "%zu x 256 of %zu, %s", nq, a.dim, name);
    CHECK_TIME(c, what, 2.0 * (double)(nq * 256 * a.dim), (double)(MAX_BLOCKS * a.next),
               c->ref->mix_widths(&a), c->now->mix_widths(&a));
    check_free();
}

static void mix_widths(struct check *c)
{
    if (!check_begin(c, "mix_widths", &c->now->mix_widths))
        return;
    for (size_t nq = 1; nq <= 33; nq++)
        widths_shape(c, 1 + nq % MAX_BLOCKS, nq % 2, (size_t[]){1, nq % 3, 1, 1}, nq);
    for (size_t i = 0; i < 4; i++) /* one width, the most blocks: the largest sums */
        for (size_t nb = 1; nb <= MAX_BLOCKS; nb++)
            for (size_t nq = 1; nq <= 9; nq += 2)
                widths_shape(c, nb, 0, (size_t[]){i == 0, i == 1, i == 2, i == 3}, nq);
    widths_shape(c, 3, 4, (size_t[]){0, 0, 0, 0}, 3);
    for (int i = 0; i < (c->thorough ? 100 : 40); i++)
        widths_shape(c, 1 + check_below(c, MAX_BLOCKS), check_below(c, 4),
                     (size_t[]){check_below(c, 4), check_below(c, 4), check_below(c, 4),
                                1 + check_below(c, 4)},
                     1 + check_below(c, 33));
    static const size_t queries[] = {1, 3, 8, 32};
    for (size_t i = 0; c->bench && i < 4; i++)
        widths_bench(c, "1.75 bits", 1, (size_t[]){1, 0, 2, 0}, queries[i]);
}

/* ------------------------------------------------------------------------------------ turn_keys */

/* Random arguments, all but the result. empty: quads without a code; n: quads of 1 to 4 and
   8 bits */
static struct tft_turn_keys random_turn(struct check *c, size_t empty, const size_t n[5],
                                        bool turned)
{
    static const enum tft_bits width[] = {TFT_BITS_1, TFT_BITS_2, TFT_BITS_3, TFT_BITS_4,
                                          TFT_BITS_8};
    struct tft_turn_keys a = {.first = 4 * empty, .dim = 4 * empty};
    size_t bytes = 0;
    for (int i = 0; i < 5; i++) {
        a.quads[width[i]] = (uint16_t)n[i];
        a.dim += 4 * n[i];
        bytes += 2 * tft_codes_bytes(width[i], n[i]);
    }
    size_t angles = a.dim / 2 * TFT_WIDTHS_TOKENS, numbers = a.dim * TFT_WIDTHS_TOKENS;
    uint8_t *codes = check_buf(c, bytes, 1);
    uint16_t *channel = check_buf(c, a.dim, sizeof *channel),
             *pair = check_buf(c, a.dim / 2, sizeof *pair);
    float *mean = check_buf(c, numbers, 4), *step = check_buf(c, a.dim, 4),
          *gain = check_buf(c, TFT_WIDTHS_TOKENS, 4), *cos = check_buf(c, angles, 4),
          *sin = check_buf(c, angles, 4);
    for (size_t i = 0; i < bytes; i++)
        codes[i] = (uint8_t)check_below(c, 256);
    for (size_t i = 0; i < a.dim; i++) { /* a random order */
        size_t other = check_below(c, i + 1);
        channel[i] = channel[other];
        channel[other] = (uint16_t)i;
    }
    for (size_t i = 0; i < a.dim / 2; i++)
        pair[i] = (uint16_t)check_below(c, a.dim / 2);
    check_fill(c, mean, numbers);
    check_fill(c, step, a.dim);
    check_fill(c, gain, TFT_WIDTHS_TOKENS);
    check_fill(c, cos, angles);
    check_fill(c, sin, angles);
    a.codes = codes;
    a.channel = channel;
    a.pair = pair;
    a.mean = mean;
    a.step = step;
    a.gain = gain;
    a.cos = turned ? cos : NULL;
    a.sin = turned ? sin : NULL;
    return a;
}

static void turn_shape(struct check *c, size_t empty, const size_t n[5], bool turned)
{
    struct tft_turn_keys a = random_turn(c, empty, n, turned);
    size_t size = a.dim * TFT_WIDTHS_TOKENS;
    float *want = check_buf(c, size, 4), *got = check_buf(c, size, 4);
    char what[120];
    check_fill(c, want, size); /* channels without a code are kept */
    memcpy(got, want, size * 4);
    a.k = want;
    c->ref->turn_keys(&a);
    a.k = got;
    c->now->turn_keys(&a);
    snprintf(what, sizeof what, "%zu channels, %s, quads: %zu empty, %zu, %zu, %zu, %zu, %zu",
             a.dim, turned ? "turned" : "not turned", empty, n[0], n[1], n[2], n[3], n[4]);
    check_same_floats(c, want, got, size, what);
    check_free();
}

static void turn_bench(struct check *c, const char *name, size_t empty, const size_t n[5])
{
    struct tft_turn_keys a = random_turn(c, empty, n, true);
    char what[60];
    a.k = check_buf(c, a.dim * TFT_WIDTHS_TOKENS, 4);
    snprintf(what, sizeof what, "32 of %zu, %s", a.dim, name);
    CHECK_TIME(c, what, 8.0 * (double)((a.dim - a.first) * TFT_WIDTHS_TOKENS),
               (double)((a.dim - a.first) * TFT_WIDTHS_TOKENS * 8), c->ref->turn_keys(&a),
               c->now->turn_keys(&a));
    check_free();
}

static void turn_keys(struct check *c)
{
    if (!check_begin(c, "turn_keys", &c->now->turn_keys))
        return;
    for (size_t i = 0; i < 5; i++)
        for (size_t n = 1; n <= 16; n += 3)
            turn_shape(c, n % 3,
                       (size_t[]){n * (i == 0), n * (i == 1), n * (i == 2), n * (i == 3),
                                  n * (i == 4)},
                       n % 2);
    turn_shape(c, 16, (size_t[]){0, 0, 0, 0, 0}, true);
    for (int i = 0; i < (c->thorough ? 200 : 60); i++)
        turn_shape(c, check_below(c, 9),
                   (size_t[]){check_below(c, 9), check_below(c, 9), check_below(c, 9),
                              1 + check_below(c, 9), check_below(c, 4)},
                   check_below(c, 2));
    if (c->bench) {
        turn_bench(c, "1.0 bits", 9, (size_t[]){2, 2, 1, 2, 0});
        turn_bench(c, "4 bits", 0, (size_t[]){0, 0, 0, 16, 0});
    }
}

void check_codes(struct check *c)
{
    score_codes(c);
    mix_codes(c);
    mix_widths(c);
    turn_keys(c);
}
