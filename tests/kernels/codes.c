/* Attention on the codes of a quantized cache, and what makes the codes. */
#include "data.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "simd/half.h"

enum { MOST = TFT_CODED_SPAN, BLOCKS = 8 };

/* What is no number is the same in every rung, but which of its bit patterns it is, is not said. */
static void same_floats(struct check *c, float *want, float *got, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        want[i] = want[i] == want[i] ? want[i] : NAN;
        got[i] = got[i] == got[i] ? got[i] : NAN;
    }
    check_same(c, want, got, n * 4, "%s", what);
}

/* ----------------------------------------------------------------------------------- the layout */

/* Code i of quad q, as codes.h has it in words. */
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
            check_same(c, codes, back, 64 * quads, "%zu quads of %u levels and back", quads,
                       tft_bits_levels(b));
            for (size_t i = 0; i < 64 * quads; i++)
                check_near(c, codes[i], code_at(packed, b, quads, i / 64, i % 64), 1, 0,
                           "code %zu of %u levels", i, tft_bits_levels(b));
            check_free();
        }
    uint8_t five[5 * 64], packed[64], back[5 * 64];
    for (unsigned first = 0; first < 243; first += 64) { /* every five digits */
        for (unsigned i = 0; i < 64; i++)
            for (unsigned q = 0, v = (first + i) % 243; q < 5; q++, v /= 3)
                five[64 * q + i] = (uint8_t)(v % 3);
        tft_codes_pack(packed, five, TFT_BITS_3_LEVELS, 5);
        tft_codes_unpack(back, packed, TFT_BITS_3_LEVELS, 5);
        check_same(c, five, back, sizeof five, "digits from %u on", first);
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

/* Where the scale and the middle of a token's channel are. */
static size_t scale_at(const struct tft_coded *b, size_t token, size_t channel)
{
    return b->group ? channel / b->group * b->tokens + token : channel;
}

static size_t random_dim(struct check *c)
{
    static const size_t usual[] = {4, 12, 20, 48, 64, 64, 80, 96, 128, 256};
    return check_below(c, 2) ? usual[check_below(c, 10)] : 4 * (1 + check_below(c, 64));
}

static size_t random_group(struct check *c)
{
    static const size_t usual[] = {16, 32, 48, 64, 128};
    return check_below(c, 2) ? usual[check_below(c, 5)] : 0;
}

/* --------------------------------------------------------------------------------------- scores */

/* What a fold may lose of a number: half a step, or all where the numbers are too small to be
   folded. */
static double fold_loss(double largest, double limit)
{
    return largest / limit / 2 + (largest < 2 * (double)TFT_FOLD_LEAST ? largest : 0);
}

/* One score: the sum of q times what the codes stand for. False where something is no finite
   number. */
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
    *slack = loss * (1 + 1e-5) + total * (double)(b->dim + 8) * 0x1p-23 +
             1e-30; /* the sum of what is folded is of rounded numbers */
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
    same_floats(c, want, got, size, what);

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
    if (how->bits == TFT_BITS_COUNT) { /* an average of two bits */
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
        for (size_t dim = 4; dim <= 256; dim += dim < 96 ? 4 : 20)
            score_shape(c, 16, dim, random_group(c), b, 1 + check_below(c, 9));
    for (int i = 0; i < 150; i++)
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

/* --------------------------------------------------------------------------------------- values */

/* What is added to channel d by blocks first .. first + n - 1, whose probabilities are folded
   together. */
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
        bool sound = true;
        for (size_t b = 0; b < nb; b += v->b.group ? nb : 1)
            sound = exact_part(v, b, v->b.group ? nb : 1, p, d, &sum, &slack) && sound;
        if (sound)
            check_near(c, sum, (double)got[d], slack, 1,
                       "channel %zu of %u, %zu blocks of %u, group %u, %u levels", d, v->b.dim, nb,
                       v->b.tokens, v->b.group, v->levels[0]);
    }
}

static void mix_shape(struct check *c, size_t nb, size_t tokens, size_t dim, size_t group,
                      enum tft_bits bits, size_t nq)
{
    struct check_block v[BLOCKS];
    struct tft_coded b[BLOCKS];
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
    same_floats(c, want, got, size, what);
    for (size_t i = 0; i < nq && !c->below; i++)
        against_values(c, v, nb, p + i * ldp, o + i * ldo, got + i * ldo);
    check_free();
}

static void mix_bench(struct check *c, const struct bench *how, size_t nq, size_t dim)
{
    enum { TOKENS = 256 };
    struct check_block v = check_values(c, how->tokens, dim, how->group, how->bits);
    struct tft_coded b[BLOCKS];
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
                mix_shape(c, 1 + check_below(c, MOST / tokens > BLOCKS ? BLOCKS : MOST / tokens),
                          tokens, random_dim(c), group, b, 1 + check_below(c, 5));
    for (int i = 0; i < 100; i++) {
        size_t tokens = 16 * (1 + check_below(c, 8)),
               nb = 1 + check_below(c, MOST / tokens > BLOCKS ? BLOCKS : MOST / tokens);
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

/* ----------------------------------------------------------------------------------- quantizing */

static const float CLIPS[] = {1, 0.95f, 0.9f, 0.8f, 0.7f};

/* The error of one group in doubles, and that no code is further from its number than one beside
   it. */
static double exact_fit(struct check *c, const float *x, size_t ldx, const uint8_t *code,
                        size_t ldc, size_t n, float scale, float mid, float half)
{
    double error = 0;
    for (size_t k = 0; k < n; k++) {
        double v = (double)x[k * ldx], at = (v - (double)mid) / (double)scale + (double)half,
               b = code[k * ldc];
        at = fmin(fmax(at, 0), 2 * (double)half);
        if (scale >= FLT_MIN)
            check_near(c, at, b, 1, 0.5 + 0x1p-14, "code of %a, scale %a, middle %a", v,
                       (double)scale, (double)mid);
        double e = v - ((b - (double)half) * (double)scale + (double)mid);
        error += e * e;
    }
    return error;
}

/* The scale and the middle of a group of which `clip` is kept, as they would be before they are
   rounded, and rounded that way. */
static void exact_scale(struct check *c, const float *x, size_t ldx, size_t n, double half,
                        double clip, const struct tft_fit *how, float scale, float mid)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < n; k++) {
        low = fmin(low, (double)x[k * ldx]);
        high = fmax(high, (double)x[k * ldx]);
    }
    double s = (high - low) * clip / (2 * half), m = (high + low) / 2 * (how->to_zero ? clip : 1),
           size = fmax(fabs(low), fabs(high));
    double s_max = how->f8 ? 448 * (double)how->scale_unit : 65504,
           m_max = how->f8 ? 448 * (double)how->mid_unit : 65504;
    double last = how->f8 ? 0x1p-4 : 0x1p-11,
           s_least = how->f8 ? 0x1p-10 * (double)how->scale_unit : 0x1p-25;
    double m_least = how->f8 ? 0x1p-10 * (double)how->mid_unit : 0x1p-25;
    s = fmin(s, s_max);
    m = fmin(fmax(m, -m_max), m_max);
    check_near(c, s, (double)scale, 1, fmax(s * last, s_least) + size * 0x1p-22,
               "scale of %zu, clip %g", n, clip);
    check_near(c, m, (double)mid, 1, fmax(fabs(m) * last, m_least) + size * 0x1p-22,
               "middle of %zu, clip %g", n, clip);
}

static void against_fit(struct check *c, const float *x, size_t ldx, const uint8_t *code,
                        size_t ldc, size_t n, const float *scale, const float *mid,
                        const float *half, const struct tft_fit *how)
{
    uint8_t *other = check_buf(c, n * 16, 1);
    float s[16], m[16];
    for (size_t i = 0; i < how->n_clip; i++) { /* no clip would have been better */
        struct tft_fit one = *how;
        one.clip = &how->clip[i];
        one.n_clip = 1;
        c->now->fit(&(struct tft_fit_groups){other, 16, s, m, x, ldx, n, half}, &one);
        for (size_t g = 0; g < 16; g++) {
            exact_scale(c, x + g, ldx, n, (double)half[g], (double)how->clip[i], how, s[g], m[g]);
            double size = 0,
                   taken = exact_fit(c, x + g, ldx, code + g, ldc, n, scale[g], mid[g], half[g]);
            double tried = exact_fit(c, x + g, ldx, other + g, 16, n, s[g], m[g], half[g]);
            for (size_t k = 0; k < n; k++)
                size += (double)x[k * ldx + g] * (double)x[k * ldx + g];
            check_near(c, fmin(taken, tried), taken, size + tried, (double)n * 0x1p-22,
                       "group %zu, clip %g", g, (double)how->clip[i]);
        }
    }
}

static void fit_shape(struct check *c, size_t n, size_t n_clip, bool f8, bool to_zero, bool odd)
{
    size_t ldx = 16 + check_below(c, 3) * 16, ldc = 16 + check_below(c, 3);
    float *x = check_buf(c, (n - 1) * ldx + 16, 4), *half = check_buf(c, 16, 4);
    float *scale = check_buf(c, 2 * 16, 4), *mid = check_buf(c, 2 * 16, 4);
    uint8_t *code[2] = {check_buf(c, (n - 1) * ldc + 16, 1), check_buf(c, (n - 1) * ldc + 16, 1)};
    struct tft_fit how = {CLIPS, n_clip, to_zero, f8, 0x1p-6f, 0x1p-4f};
    check_fill(c, x, (n - 1) * ldx + 16);
    for (size_t i = 0; i < 16; i++)
        half[i] = (float)(tft_bits_levels((enum tft_bits)check_below(c, TFT_BITS_COUNT)) - 1) / 2;
    /* a group of equal numbers, one of zeros, one far from zero, one too small */
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < 4; i++) {
            float *at = &x[k * ldx + i];
            *at = i == 0 ? x[0] : i == 1 ? 0 : i == 2 ? *at + 100 : *at * 1e-20f;
        }
    if (odd)
        for (size_t i = 4; i < 10; i++) {
            static const float what[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, NAN};
            x[(i < 9 ? check_below(c, n) : 0) * ldx + i] = what[i - 4];
        }
    for (size_t i = 0; i < 2; i++) {
        memset(code[i], 0, (n - 1) * ldc + 16);
        struct tft_fit_groups g = {code[i], ldc, scale + 16 * i, mid + 16 * i, x, ldx, n, half};
        (i ? c->now : c->ref)->fit(&g, &how);
    }
    check_same(c, code[0], code[1], (n - 1) * ldc + 16,
               "codes of %zu, %zu clips, f8 %d, to zero %d", n, n_clip, f8, to_zero);
    check_same(c, scale, scale + 16, 64, "scales of %zu, %zu clips, f8 %d, to zero %d", n, n_clip,
               f8, to_zero);
    check_same(c, mid, mid + 16, 64, "middles of %zu, %zu clips, f8 %d, to zero %d", n, n_clip, f8,
               to_zero);
    /* kept as they are: nothing is lost on the way to the cache */
    for (size_t i = 0; i < 16; i++) {
        float s = scale[i], m = mid[i];
        float s2 = f8 ? tft_f8_to_f32(tft_f32_to_f8(s / how.scale_unit)) * how.scale_unit
                      : tft_f16_to_f32(tft_f32_to_f16(s));
        float m2 = f8 ? tft_f8_to_f32(tft_f32_to_f8(m / how.mid_unit)) * how.mid_unit
                      : tft_f16_to_f32(tft_f32_to_f16(m));
        check_same(c, &s2, &s, 4, "scale %a is not kept", (double)s);
        check_same(c, &m2, &m, 4, "middle %a is not kept", (double)m);
    }
    if (!odd && !c->below)
        against_fit(c, x, ldx, code[1], ldc, n, scale, mid, half, &how);
    check_free();
}

static void fit(struct check *c)
{
    CASE(c, "fit", fit);
    for (size_t i = 0; i < 160; i++)
        fit_shape(c, i < 8 ? 1 : 1 + check_below(c, 130), 1 + check_below(c, 5), i & 1, i & 2,
                  i & 4);

    enum { N = 64 };
    float *x = check_buf(c, N * 16, 4), half[16], scale[16], mid[16];
    uint8_t *code = check_buf(c, N * 16, 1);
    check_fill(c, x, N * 16);
    for (size_t i = 0; i < 16; i++)
        half[i] = 1.5f;
    struct tft_fit_groups g = {code, 16, scale, mid, x, 16, N, half};
    struct tft_fit how = {CLIPS, 1, false, false, 1, 1};
    CHECK_TIME(c, "64 x 16", 0, 5.0 * 16 * N, ref->fit(&g, &how), now->fit(&g, &how));
    how.n_clip = 5;
    CHECK_TIME(c, "64 x 16, 5 clips", 0, 5.0 * 16 * N,
               ref->fit(&g, &how), now->fit(&g, &how));
    how.f8 = how.to_zero = true;
    CHECK_TIME(c, "64 x 16, 5 clips, f8", 0, 5.0 * 16 * N,
               ref->fit(&g, &how), now->fit(&g, &how));
}

/* Every byte is what its sign, exponent and fraction say, and every number becomes the byte nearest
   to it, the even one of two. */
static void f8_numbers(struct check *c)
{
    double value[256];
    for (int b = 0; b < 256; b++) {
        int e = b >> 3 & 15, f = b & 7;
        value[b] = (e ? ldexp(1 + f / 8.0, e - 7) : ldexp(f / 8.0, -6)) * (b & 128 ? -1 : 1);
        if ((b & 127) != 127)
            check_near(c, value[b], (double)tft_f8_to_f32((uint8_t)b), 1, 0, "byte %d", b);
        check_near(c, (b & 127) == 127, isnan(tft_f8_to_f32((uint8_t)b)), 1, 0,
                   "byte %d is no number", b);
        if ((b & 127) != 127)
            check_near(c, b, tft_f32_to_f8(tft_f8_to_f32((uint8_t)b)), 1, 0, "byte %d and back", b);
    }
    /* of either sign, and ties */
    for (uint32_t bits = 0; bits < 0x7f800000; bits += 0x3fff1 >> (check_rand(c) & 15)) {
        for (int tie = 0; tie < 2; tie++) {
            float x = tft_f32_of_bits((tie ? bits & 0xfff80000 : bits) |
                                      (check_rand(c) & 0x80000000));
            int b = tft_f32_to_f8(x), at = b & 127;
            double size = fabs((double)x), miss = fabs(value[at] - size);
            double below = at ? size - value[at - 1] : INFINITY,
                   above = at < 126 ? value[at + 1] - size : INFINITY;
            bool best = at < 127 && miss <= below && miss <= above &&
                        (!(at & 1) || (miss < below && miss < above));
            check_near(c, 1, best, 1, 0, "%a becomes byte %d", (double)x, b);
            check_near(c, !!signbit(x), b >> 7, 1, 0, "sign of %a", (double)x);
        }
    }
    check_near(c, 127, tft_f32_to_f8(NAN) & 127, 1, 0, "what is no number");
    check_near(c, 126, tft_f32_to_f8(INFINITY), 1, 0, "infinity");
}

static void widen_f8(struct check *c)
{
    CASE(c, "widen_f8", widen_f8);
    if (!c->below)
        f8_numbers(c);
    for (int i = 0; i < 100; i++) {
        size_t n = i ? check_size(c, 300) : 256;
        uint8_t *x = check_buf(c, n, 1);
        float *want = check_buf(c, n, 4), *got = check_buf(c, n, 4),
              unit = ldexpf(1, (int)check_below(c, 40) - 20);
        for (size_t k = 0; k < n; k++) {
            x[k] = (uint8_t)(i ? check_rand(c) : k);
            want[k] = tft_f8_to_f32(x[k]) * unit;
        }
        now->widen_f8(got, x, n, unit);
        same_floats(c, want, got, n, "bytes");
        check_free();
    }
    enum { N = 2048 };
    uint8_t *x = check_buf(c, N, 1);
    float *y = check_buf(c, N, 4);
    for (size_t k = 0; k < N; k++)
        x[k] = (uint8_t)check_rand(c);
    CHECK_TIME(c, "2048", 0, 5.0 * N, ref->widen_f8(y, x, N, 2), now->widen_f8(y, x, N, 2));
}

void check_codes(struct check *c)
{
    score_codes(c);
    mix_codes(c);
    fit(c);
    widen_f8(c);
}
