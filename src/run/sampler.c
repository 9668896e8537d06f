/* Sampling. The candidates are sorted only as far as a filter needs them; every sum runs from the
   likeliest down, so that the same logits and seed give the same token everywhere. */
#include <string.h>

#include "simd/expf.h"
#include "session.h"

typedef struct tft_candidate cand;

/* SplitMix64 (Steele et al. 2014, figure 16): any seed will do, also 0, and the state is one
   number. */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53; /* [0, 1) */
}

/* CTRL (Keskar et al. 2019, section 4.1), as everybody has it since: negative logits are
   multiplied. A token that occurs often counts once: each time from its logit as it was. */
static void penalize(cand *c, const float *logits, const struct tft_session *s, float penalty,
                     uint32_t last)
{
    for (uint32_t i = s->pos > last ? s->pos - last : 0; i < s->pos; i++) {
        int32_t id = s->tokens[i];
        c[id].logit = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
    }
}

/* Larger logit first; the smaller id where they are equal. NaN counts as less than anything. */
static bool before(cand a, cand b)
{
    bool a_nan = a.logit != a.logit, b_nan = b.logit != b.logit;
    if (a_nan || b_nan)
        return b_nan && (!a_nan || a.id < b.id);
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void swap(cand *a, cand *b)
{
    cand t = *a;
    *a = *b;
    *b = t;
}

static void sift(cand *c, size_t n, size_t i) /* a heap whose root comes first */
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

/* Hands out candidates in order, one by one: O(n) to begin with, O(log n) each. They collect at the
   end of the array, the first handed out last, so c[n - 1 - i] is number i. */
struct ranking {
    cand *c;
    size_t n, taken;
};

static struct ranking rank(cand *c, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(c, n, i);
    return (struct ranking){c, n, 0};
}

static cand next(struct ranking *r)
{
    size_t last = r->n - 1 - r->taken++;
    swap(&r->c[0], &r->c[last]);
    sift(r->c, last, 0);
    return r->c[last];
}

static cand greediest(const cand *c, size_t n)
{
    cand best = c[0];
    for (size_t i = 1; i < n; i++)
        if (before(c[i], best))
            best = c[i];
    return best;
}

/* Relative to the likeliest: exp((logit - best) / temperature). 1 for its equals, where infinities
   would give NaN: as logits, or as the inverse of a tiny temperature. 0 for NaN, which would spoil
   every sum. */
static float weight(cand c, cand best, const struct tft_sampler *z)
{
    if (c.logit == best.logit)
        return 1;
    float w = tft_expf((c.logit - best.logit) * (1 / z->temperature));
    return w > 0 ? w : 0;
}

/* How many of the first k candidates top-p and min-p keep, and the sum of their weights; `sum` is
   that of all k. */
static size_t keep_likeliest(struct ranking *r, size_t k, const struct tft_sampler *z, cand best,
                             double sum, double *kept)
{
    double enough = z->top_p > 0 && z->top_p < 1 ? (double)z->top_p * sum : sum;
    size_t n = 1;
    for (*kept = 1; n < k && *kept < enough; n++) {
        while (r->taken <= n)
            next(r);
        float w = weight(r->c[r->n - 1 - n], best, z);
        if (!(w >= z->min_p))
            break;
        *kept += (double)w;
    }
    return n;
}

int32_t tft_sample(struct tft_sampler *z, struct tft_session *s)
{
    const float *logits = tft_logits(s, 0);
    cand *c = s->candidates;
    size_t n = s->m->n_vocab, k = z->top_k > 0 && (size_t)z->top_k < n ? (size_t)z->top_k : n;
    if (!logits)
        return -1;
    for (size_t i = 0; i < n; i++)
        c[i] = (cand){logits[i], (int32_t)i};
    if (z->repeat_penalty > 0 && z->repeat_penalty != 1)
        penalize(c, logits, s, z->repeat_penalty,
                 z->repeat_last > 0 ? (uint32_t)z->repeat_last : 64);
    if (!(z->temperature > 0))
        return greediest(c, n).id;

    struct ranking r = rank(c, n);
    cand best = next(&r);
    while (k < n && r.taken < k)
        next(&r);
    double sum = 1;
    for (size_t i = 1; i < k; i++)
        sum += (double)weight(c[n - 1 - i], best, z);

    size_t n_kept = k;
    if ((z->top_p > 0 && z->top_p < 1) || z->min_p > 0)
        n_kept = keep_likeliest(&r, k, z, best, sum, &sum);

    double u = draw(&z->seed) * sum;
    size_t i = 0;
    for (; i + 1 < n_kept; i++) {
        u -= (double)weight(c[n - 1 - i], best, z);
        if (u < 0)
            break;
    }
    return c[n - 1 - i].id;
}
