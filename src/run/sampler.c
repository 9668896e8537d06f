/*
 * Sampling. Candidates are sorted only as far as a filter needs them. Every sum has one defined
 * order, so that the same logits and seed give the same token on every machine.
 */
#include "session.h"

#include "base/splitmix64.h"
#include "simd/expf.h"

typedef struct tft_candidate candidate;

/* A random number in [0, 1). */
static double draw(uint64_t *state)
{
    return (double)(tft_splitmix64(state) >> 11) * 0x1p-53;
}

/* The repetition penalty of CTRL (Keskar et al. 2019, section 4.1), in the form that is common
   since: negative logits are multiplied. A token that occurs several times is penalized once. */
static void penalize(candidate *c, const float *logits, const struct tft_session *s, float penalty,
                     uint32_t n_recent)
{
    for (uint32_t i = s->pos > n_recent ? s->pos - n_recent : 0; i < s->pos; i++) {
        int32_t id = s->tokens[i];
        c[id].logit = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
    }
}

/* Order: larger logits first, then smaller ids. NaN is less than every number. */
static bool before(candidate a, candidate b)
{
    bool a_nan = a.logit != a.logit, b_nan = b.logit != b.logit;
    if (a_nan || b_nan)
        return b_nan && (!a_nan || a.id < b.id);
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void swap(candidate *a, candidate *b)
{
    candidate t = *a;
    *a = *b;
    *b = t;
}

/* Restores the heap c[n], whose root is the likeliest candidate, below index i. */
static void sift_down(candidate *c, size_t n, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            return;
        if (child + 1 < n && before(c[child + 1], c[child]))
            child++;
        if (!before(c[child], c[i]))
            return;
        swap(&c[i], &c[child]);
        i = child;
    }
}

/* Candidates in order, one by one: O(n) to begin with, O(log n) for each. The ranked ones move to
   the end of the array, the likeliest last: number i is c[n - 1 - i]. */
struct ranking {
    candidate *c; /* [n], a heap and then the ranked ones */
    size_t n, n_ranked;
};

static candidate ranked(const struct ranking *r, size_t i)
{
    return r->c[r->n - 1 - i];
}

static struct ranking start_ranking(candidate *c, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(c, n, i);
    return (struct ranking){c, n, 0};
}

static candidate rank_next(struct ranking *r)
{
    size_t last = r->n - 1 - r->n_ranked++;
    swap(&r->c[0], &r->c[last]);
    sift_down(r->c, last, 0);
    return r->c[last];
}

static candidate likeliest(const candidate *c, size_t n)
{
    candidate best = c[0];
    for (size_t i = 1; i < n; i++)
        if (before(c[i], best))
            best = c[i];
    return best;
}

/* The probability relative to the likeliest candidate: exp((logit - best) / temperature). 1 if the
   logits are equal, since infinities (as logits, or as the inverse of a tiny temperature) would
   give NaN. 0 for NaN, which would spoil every sum. */
static float weight(candidate c, candidate best, const struct tft_sampler *z)
{
    if (c.logit == best.logit)
        return 1;
    float w = tft_expf((c.logit - best.logit) * (1 / z->temperature));
    return w > 0 ? w : 0;
}

/* Returns how many of the first k candidates top-p and min-p keep; *kept is the sum of their
   weights, `sum` that of all k. */
static size_t keep_likeliest(struct ranking *r, size_t k, const struct tft_sampler *z,
                             candidate best, double sum, double *kept)
{
    double enough = z->top_p > 0 && z->top_p < 1 ? (double)z->top_p * sum : sum;
    size_t n = 1;
    for (*kept = 1; n < k && *kept < enough; n++) {
        while (r->n_ranked <= n)
            rank_next(r);
        float w = weight(ranked(r, n), best, z);
        if (!(w >= z->min_p))
            break;
        *kept += (double)w;
    }
    return n;
}

int32_t tft_sample(struct tft_sampler *z, struct tft_session *s)
{
    const float *logits = tft_logits(s, 0);
    candidate *c = s->candidates;
    size_t n = s->m->n_vocab, k = z->top_k > 0 && (size_t)z->top_k < n ? (size_t)z->top_k : n;
    if (!logits)
        return -1;
    for (size_t i = 0; i < n; i++)
        c[i] = (candidate){logits[i], (int32_t)i};
    if (z->repeat_penalty > 0 && z->repeat_penalty != 1)
        penalize(c, logits, s, z->repeat_penalty,
                 z->repeat_last > 0 ? (uint32_t)z->repeat_last : 64);
    if (!(z->temperature > 0))
        return likeliest(c, n).id;

    struct ranking r = start_ranking(c, n);
    candidate best = rank_next(&r);
    while (k < n && r.n_ranked < k)
        rank_next(&r);
    double sum = 1;
    for (size_t i = 1; i < k; i++)
        sum += (double)weight(ranked(&r, i), best, z);

    size_t n_kept = k;
    if ((z->top_p > 0 && z->top_p < 1) || z->min_p > 0)
        n_kept = keep_likeliest(&r, k, z, best, sum, &sum);

    double u = draw(&z->seed) * sum;
    size_t i = 0;
    for (; i + 1 < n_kept; i++) {
        u -= (double)weight(ranked(&r, i), best, z);
        if (u < 0)
            break;
    }
    return ranked(&r, i).id;
}
