/*
 * Sampling, as tuffet.h defines it. Every sum has one defined order, so that the same logits and
 * seed give the same token on every machine.
 */
#include "session.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/exp_log.h"
#include "base/splitmix64.h"
#include "grammar/grammar.h"
#include "simd/expf.h"

/* A random number in [0, 1). */
static double draw(uint64_t *state)
{
    return (double)(tft_splitmix64(state) >> 11) * 0x1p-53;
}

/* A copy of the logits with the repetition penalty of CTRL (Keskar et al. 2019, section 4.1), in
   the form that is common since: negative logits are multiplied. A token that occurs several times
   is penalized once. */
static const float *penalized(const float *logits, struct tft_session *s, float penalty,
                              uint32_t recent)
{
    float *x = s->work->penalized;
    memcpy(x, logits, s->m->n_vocab * sizeof *x);
    for (uint32_t i = s->pos > recent ? s->pos - recent : 0; i < s->pos; i++) {
        int32_t id = s->tokens[i];
        x[id] = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
    }
    return x;
}

/* The probability relative to the most likely token: exp((logit - best) / temperature). 1 if the
   logits are equal, since infinite ones would give NaN. 0 for NaN, which would spoil every sum. */
static float weight(float logit, float best, float inverse)
{
    if (logit == best)
        return 1;
    float w = tft_expf((logit - best) * inverse);
    return w > 0 ? w : 0;
}

/* The sum of the weights of all logits. */
static double sum_of_weights(const struct tft_likely *l, float inverse)
{
    if (!isinf(l->best))
        return l->kern->sum_exp(l->logits, l->n, l->best, inverse);
    size_t n = 0; /* all others have the weight 0 */
    for (size_t i = 0; i < l->n; i++)
        n += l->logits[i] == l->best;
    return (double)n;
}

/* Which logits a sampler knows. If it knows all, n is the size of the vocabulary. */
struct known {
    size_t n;    /* the n largest; all others are smaller or equal */
    double rest; /* s->out.rest of session.h */
};

/* Returned in place of a token: the token depends on logits that are not known. */
enum { UNDECIDED = -2 };

static bool has_top_p(const struct tft_sampler *z) { return z->top_p > 0 && z->top_p < 1; }

static float inverse_of(const struct tft_sampler *z)
{
    return 1 / z->temperature < FLT_MAX ? 1 / z->temperature : FLT_MAX;
}

/* Returns how many of the first k tokens top-p and min-p keep; *kept is the sum of their weights,
   `sum` that of all k. Returns 0 if it depends on logits that are not known, or if an error of
   known->rest could change it. */
static size_t keep_likeliest(struct tft_likely *l, size_t k, const struct tft_sampler *z,
                             const struct known *known, float inverse, double sum, double *kept)
{
    double enough = has_top_p(z) ? (double)z->top_p * sum : INFINITY,
           doubt = known->n < k && has_top_p(z) ? 1e-4 * enough : 0;
    size_t n = 1;
    for (*kept = 1; n < k && *kept < enough + doubt && tft_likely_has(l, n); n++) {
        if (n == known->n || *kept > enough - doubt)
            return 0;
        float w = weight(l->c[n].logit, l->best, inverse);
        if (!(w >= z->min_p))
            break;
        *kept += (double)w;
    }
    return n;
}

static int32_t choose(struct tft_sampler *z, struct tft_likely *l, const struct known *known)
{
    size_t k = z->top_k > 0 && (size_t)z->top_k < l->n ? (size_t)z->top_k : l->n, i = 0;
    bool min_p = z->min_p > 0;
    float inverse = inverse_of(z);
    double sum = 0;
    if (k < l->n)
        for (; i < k && tft_likely_has(l, i); i++)
            sum += (double)weight(l->c[i].logit, l->best, inverse);
    else if (has_top_p(z) || !min_p) /* min-p alone needs no sum */
        sum = sum_of_weights(l, inverse) + known->rest;
    if (min_p) /* 0.01: more than tft_expf can be wrong by */
        l->floor = l->best + z->temperature * (float)(tft_log((double)z->min_p) - 0.01);
    if (has_top_p(z) || min_p)
        k = keep_likeliest(l, k, z, known, inverse, sum, &sum);
    if (!k)
        return UNDECIDED;

    double u = draw(&z->seed) * sum - 1; /* 1: the weight of the most likely */
    for (i = 0; u >= 0 && i + 1 < k && tft_likely_has(l, i + 1); i++) {
        float w = weight(l->c[i + 1].logit, l->best, inverse);
        if (!(w > 0)) /* rounding has left some of u */
            break;
        u -= (double)w;
    }
    return l->c[i].id;
}

/* unit: that of the layers */
static struct tft_likely likely(struct tft_session *s, const float *logits, float unit)
{
    return (struct tft_likely){.kern = &s->m->kern,
                               .logits = logits,
                               .n = s->m->n_vocab,
                               .c = s->work->candidates,
                               .tops = s->work->tops,
                               .unit = unit};
}

/* The tokens that the file suppresses. */
static const int32_t *suppressed(const struct tft_model *m, uint32_t *n)
{
    *n = 0;
    return m->tokenizer ? tft_tokenizer_suppressed(m->tokenizer, n) : NULL;
}

static bool is_suppressed(const struct tft_model *m, int32_t id)
{
    uint32_t n, i = 0;
    const int32_t *list = suppressed(m, &n);
    while (i < n && list[i] != id)
        i++;
    return i < n;
}

/* A copy of the logits in which suppressed tokens are NaN, and have no rank; or `logits`, if there
   are none. x may be `logits`. */
static const float *unsuppressed(const struct tft_model *m, const float *logits, float *x)
{
    uint32_t n;
    const int32_t *id = suppressed(m, &n);
    if (n && x != logits)
        memcpy(x, logits, m->n_vocab * sizeof *x);
    for (uint32_t i = 0; i < n; i++)
        x[id[i]] = NAN;
    return n ? x : logits;
}

/* A copy of the logits in which only the tokens of the mask are above -infinity. x may be
   `logits`. */
static const float *masked(const float *logits, float *x, size_t n, const uint32_t *mask)
{
    for (size_t i = 0; i < n; i += 32) {
        uint32_t bits = mask[i / 32];
        for (size_t k = i; k < i + 32 && k < n; k++, bits >>= 1)
            x[k] = !(bits & 1) ? -INFINITY : logits[k] > -FLT_MAX ? logits[k] : -FLT_MAX;
    }
    return x;
}

static bool penalizes(const struct tft_sampler *z)
{
    return z->repeat_penalty > 0 && z->repeat_penalty != 1;
}

static uint32_t n_recent(const struct tft_sampler *z)
{
    return z->repeat_last > 0 ? (uint32_t)z->repeat_last : 64;
}

struct tft_asked tft_sampler_asks(const struct tft_sampler *z, const struct tft_session *s,
                                  size_t *n)
{
    enum { KEPT = 64 }; /* tokens that top-p and min-p rarely keep more of */
    uint32_t lost;
    bool greedy = !(z->temperature > 0), by_rank = greedy || z->top_k > 0;
    struct tft_asked all = {.k = s->m->n_vocab};
    suppressed(s->m, &lost);
    if (penalizes(z))
        lost += s->pos < n_recent(z) ? s->pos : n_recent(z);
    *n = greedy ? 1 : by_rank ? (size_t)z->top_k : KEPT;
    /* A penalty below 1 raises logits, whatever their rank was. */
    bool raises = z->repeat_penalty > 0 && z->repeat_penalty < 1;
    /* The sum of all weights is needed as it is, or after some have changed. */
    bool needs_sum = !by_rank && (has_top_p(z) ? lost > 0 : !(z->min_p > 0));
    if (z->grammar || raises || needs_sum || *n + lost >= all.k) {
        *n = all.k;
        return all;
    }
    return (struct tft_asked){.k = *n + lost,
                              .inverse = !by_rank && has_top_p(z) ? inverse_of(z) : 0};
}

static int32_t sample_logits(struct tft_sampler *z, struct tft_session *s, const float *logits,
                             const struct known *known)
{
    static const uint64_t zeros[sizeof z->reserved / sizeof *z->reserved];
    if (memcmp(z->reserved, zeros, sizeof zeros) != 0 ||
        (z->grammar && tft_grammar_vocab(z->grammar) != s->m->n_vocab))
        return -1;
    if (penalizes(z))
        logits = penalized(logits, s, z->repeat_penalty, n_recent(z));
    logits = unsuppressed(s->m, logits, s->work->penalized);
    struct tft_likely l = likely(s, logits, z->temperature);
    int32_t best = tft_likely_begin(&l);
    if (z->grammar && !(z->temperature > 0) && !isnan(logits[best]) &&
        tft_grammar_allows(z->grammar, best))
        return best; /* the most likely of all tokens is the most likely of the allowed ones */
    if (z->grammar) {
        const uint32_t *mask = tft_grammar_mask(z->grammar);
        if (!mask)
            return -1;
        logits = masked(logits, s->work->penalized, s->m->n_vocab, mask);
        l = likely(s, unsuppressed(s->m, logits, s->work->penalized), z->temperature);
        best = tft_likely_begin(&l);
        if (isinf(l.best) && l.best < 0)
            return -1;
    }
    if (!tft_likely_has(&l, 0))
        return is_suppressed(s->m, best) ? -1 : best;
    return z->temperature > 0 ? choose(z, &l, known) : best;
}

int32_t tft_sample_logits(struct tft_sampler *z, struct tft_session *s, const float *logits)
{
    int32_t id = sample_logits(z, s, logits, &(struct known){.n = s->m->n_vocab});
    if (id >= 0 && z->grammar && tft_grammar_accept(z->grammar, id) != TFT_OK)
        return -1;
    return id;
}

int32_t tft_sample(struct tft_sampler *z, struct tft_session *s)
{
    struct known known = {0};
    struct tft_asked asked = tft_sampler_asks(z, s, &known.n);
    const float *logits = tft_session_logits(s, &asked);
    if (!logits)
        return -1;
    if (s->out.partial) {
        known.rest = s->out.rest;
        int32_t id = sample_logits(z, s, logits, &known);
        if (id != UNDECIDED)
            return id;
        logits = tft_logits(s, 0);
    }
    return logits ? tft_sample_logits(z, s, logits) : -1;
}

/* ------------------------------------------------------------------------------- probabilities */

/* ln of the sum of exp(logit), less the largest logit */
static double log_sum(const struct tft_likely *l)
{
    return tft_log(sum_of_weights(l, 1));
}

/* 0 where both are the same infinity; -infinity for NaN. */
static float log_probability(float logit, float best, double log_sum)
{
    double d = logit == best ? 0 : (double)logit - (double)best;
    return d <= 0 ? (float)(d - log_sum) : -INFINITY;
}

size_t tft_likeliest(struct tft_session *s, const float *logits, struct tft_choice *out, size_t k)
{
    size_t n = 0;
    struct tft_likely l = likely(s, logits ? logits : tft_logits(s, 0), 1);
    if (!l.logits)
        return 0;
    tft_likely_begin(&l);
    double sum = log_sum(&l);
    for (; n < k && tft_likely_has(&l, n); n++)
        out[n] = (struct tft_choice){l.c[n].id, log_probability(l.c[n].logit, l.best, sum)};
    return n;
}

float tft_logprob(struct tft_session *s, const float *logits, int32_t id)
{
    struct tft_likely l = likely(s, logits ? logits : tft_logits(s, 0), 1);
    if (!l.logits || id < 0 || (uint32_t)id >= s->m->n_vocab)
        return NAN;
    tft_likely_begin(&l);
    return log_probability(l.logits[id], l.best, log_sum(&l));
}
