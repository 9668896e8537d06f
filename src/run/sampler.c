/*
 * Sampling, as tuffet.h defines it. Every sum has one defined order, so that the same logits and
 * seed give the same token on every machine.
 */
#include "session.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/exp_log.h"
#include "base/options.h"
#include "choose.h"
#include "dry.h"
#include "grammar/grammar.h"

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

/* A copy of the logits in which tokens that end generation are NaN. x may be `logits`. */
static const float *endless(const struct tft_model *m, const float *logits, float *x)
{
    if (x != logits)
        memcpy(x, logits, m->n_vocab * sizeof *x);
    for (uint32_t id = 0; id < m->n_vocab; id++)
        if (tft_token_ends(m, (int32_t)id))
            x[id] = NAN;
    return x;
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

/* Whether a further step is on, or `more` is damaged. Bindings always have `more`. */
static bool has_steps(const struct tft_sampler *z)
{
    struct tft_sampler_more o;
    return tft_options_take(&o, sizeof o, z->more, "tft_sampler_more", NULL) != TFT_OK ||
           o.dry_multiplier > 0 || o.xtc_probability > 0 || o.typical_p > 0 || o.top_n_sigma > 0 ||
           o.mirostat_tau > 0 || o.dynatemp_range > 0;
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
    bool needs_sum = !by_rank && (tft_has_top_p(z) ? lost > 0 : !(z->min_p > 0));
    if (z->grammar || has_steps(z) || z->min_tokens || raises || needs_sum || *n + lost >= all.k) {
        *n = all.k;
        return all;
    }
    float inverse = !by_rank && tft_has_top_p(z) ? tft_inverse(z->temperature) : 0;
    return (struct tft_asked){.k = *n + lost, .inverse = inverse};
}

static bool is_valid(const struct tft_sampler *z, const struct tft_session *s)
{
    return tft_options_reserved(z->reserved, sizeof z->reserved, "tft_sampler", NULL) == TFT_OK &&
           !(z->grammar && tft_grammar_vocab(z->grammar) != s->m->n_vocab);
}

/* A choice of a token, after tft_options_take. */
struct sampling {
    struct tft_sampler *z;
    struct tft_sampler_more o;
    struct tft_session *s;
    const struct tft_known *known;
    bool may_end; /* tokens that end generation may come */
};

/* The logits of steps 1 to 3, without the grammar. */
static const float *prepared(const struct sampling *c, const float *logits)
{
    struct tft_session *s = c->s;
    if (penalizes(c->z))
        logits = penalized(logits, s, c->z->repeat_penalty, n_recent(c->z));
    if (c->o.dry_multiplier > 0)
        logits = tft_dry(&c->o, logits, s->work->penalized, s->work->candidates, s->m->n_vocab,
                         s->tokens, s->pos);
    logits = unsuppressed(s->m, logits, s->work->penalized);
    return c->may_end ? logits : endless(s->m, logits, s->work->penalized);
}

static int32_t sample_logits(const struct sampling *c, const float *logits)
{
    struct tft_sampler *z = c->z;
    struct tft_session *s = c->s;
    logits = prepared(c, logits);
    bool greedy = !(z->temperature > 0);
    double deviation = !greedy && c->o.top_n_sigma > 0 ? tft_deviation(logits, s->m->n_vocab) : 0;
    struct tft_likely l = likely(s, logits, z->temperature);
    int32_t best = tft_likely_begin(&l);
    if (z->grammar && greedy && !isnan(logits[best]) && tft_grammar_allows(z->grammar, best))
        return best; /* the most likely of all tokens is the most likely of the allowed ones */
    if (z->grammar) {
        const uint32_t *mask = tft_grammar_mask(z->grammar);
        if (!mask)
            return -1;
        logits = masked(logits, s->work->penalized, s->m->n_vocab, mask);
        logits = unsuppressed(s->m, logits, s->work->penalized);
        if (!c->may_end)
            logits = endless(s->m, logits, s->work->penalized);
        l = likely(s, logits, z->temperature);
        best = tft_likely_begin(&l);
        if (isinf(l.best) && l.best < 0)
            return -1;
    }
    if (!tft_likely_has(&l, 0))
        return is_suppressed(s->m, best) ? -1 : best;
    return greedy ? best : tft_choose(z, &c->o, &l, deviation, c->known);
}

/* Chooses by sample_logits, and where a grammar allows only the end, the end. */
static int32_t sample(struct tft_sampler *z, struct tft_session *s, const float *logits,
                      const struct tft_known *known)
{
    struct sampling c = {.z = z, .s = s, .known = known, .may_end = !z->min_tokens};
    if (!is_valid(z, s) || tft_options_take(&c.o, sizeof c.o, z->more, "tft_sampler_more", NULL))
        return -1;
    int32_t id = sample_logits(&c, logits);
    if (id == -1 && z->grammar && !c.may_end) {
        c.may_end = true;
        id = sample_logits(&c, logits);
    }
    return id;
}

int32_t tft_sample_logits(struct tft_sampler *z, struct tft_session *s, const float *logits)
{
    int32_t id = sample(z, s, logits, &(struct tft_known){.n = s->m->n_vocab});
    if (id >= 0 && z->grammar && tft_grammar_accept(z->grammar, id) != TFT_OK)
        return -1;
    if (id >= 0 && z->min_tokens && z->min_tokens < UINT32_MAX)
        z->min_tokens--;
    return id;
}

int32_t tft_sample(struct tft_sampler *z, struct tft_session *s)
{
    struct tft_known known = {0};
    struct tft_asked asked = tft_sampler_asks(z, s, &known.n);
    const float *logits = tft_session_logits(s, &asked);
    if (!logits)
        return -1;
    if (s->out.partial) {
        known.rest = s->out.rest;
        int32_t id = sample(z, s, logits, &known);
        if (id != TFT_UNDECIDED)
            return id;
        logits = tft_logits(s, 0);
    }
    return logits ? tft_sample_logits(z, s, logits) : -1;
}

/* ------------------------------------------------------------------------------- probabilities */

/* ln of the sum of exp(logit), less the largest logit */
static double log_sum(const struct tft_likely *l)
{
    return tft_log(tft_sum_of_weights(l, 1));
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
