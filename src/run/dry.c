#include "dry.h"

#include <float.h>
#include <string.h>

#include "base/exp_log.h"

/* The end of the text, read backwards: newest[-i] is token i of it. */
struct end {
    const int32_t *newest;
    uint32_t n;                   /* tokens before a breaker, at most TFT_DRY_MOST */
    uint32_t match[TFT_DRY_MOST]; /* [n] how many tokens from i on are those from 0 on */
};

static bool breaks(const struct tft_sampler_more *o, int32_t id)
{
    uint32_t low = 0, high = o->n_dry_breakers;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (o->dry_breakers[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < o->n_dry_breakers && o->dry_breakers[low] == id;
}

/* Extends a match of n tokens: those from `from` on, of which there are `most`, with the end. */
static uint32_t extend(const struct end *e, const int32_t *from, uint32_t n, uint32_t most)
{
    most = most < e->n ? most : e->n;
    while (n < most && from[-(ptrdiff_t)n] == e->newest[-(ptrdiff_t)n])
        n++;
    return n;
}

/*
 * The matches of a text with its own beginning, by the Z algorithm (Gusfield 1997, section 1.4),
 * here backwards: text[-i], i >= 1. The match that reaches farthest, from `start` to `reach`, tells
 * the matches inside it, so tokens are compared O(n) times.
 */
struct window {
    uint32_t start, reach;
};

/* The match at i of a text of n tokens that ends with newest[0]. */
static uint32_t match_at(const struct end *e, struct window *w, uint32_t i, uint32_t n)
{
    uint32_t known = 0;
    if (i < w->reach) {
        known = e->match[i - w->start];
        if (known < w->reach - i)
            return known;
        known = w->reach - i;
    }
    known = extend(e, e->newest - i, known, n - i);
    *w = (struct window){i, i + known};
    return known;
}

/* Finds the end of a text of n tokens, up to a breaker. */
static void find_end(struct end *e, const struct tft_sampler_more *o, uint32_t n)
{
    struct window w = {0};
    while (e->n < n && e->n < TFT_DRY_MOST && !breaks(o, e->newest[-(ptrdiff_t)e->n]))
        e->n++;
    for (uint32_t i = 1; i < e->n; i++)
        e->match[i] = match_at(e, &w, i, e->n);
}

static float penalty(const struct tft_sampler_more *o, uint32_t allowed, uint32_t n)
{
    double base = o->dry_base > 0 ? (double)o->dry_base : 1.75;
    double p = (double)o->dry_multiplier * tft_pow(base, (double)(n - allowed));
    return p < (double)FLT_MAX ? (float)p : FLT_MAX;
}

const float *tft_dry(const struct tft_sampler_more *o, const float *logits, float *x,
                     struct tft_candidate *scratch, size_t n, const int32_t *tokens, uint32_t pos)
{
    uint32_t allowed = o->dry_allowed_length ? o->dry_allowed_length : 2;
    uint32_t text = o->dry_last && o->dry_last < pos ? o->dry_last : pos;
    struct window w = {0};
    if (!text)
        return logits;
    struct end e = {.newest = tokens + pos - 1};
    find_end(&e, o, text);
    for (size_t id = 0; id < n; id++)
        scratch[id] = (struct tft_candidate){logits[id], 0}; /* id: of the longest match */
    if (x != logits)
        memcpy(x, logits, n * sizeof *x);
    for (uint32_t i = 1; i < text && e.n >= allowed; i++) {
        uint32_t match = match_at(&e, &w, i, text);
        int32_t next = e.newest[1 - (ptrdiff_t)i];
        if (match < allowed || (uint32_t)scratch[next].id >= match || breaks(o, next))
            continue;
        scratch[next].id = (int32_t)match;
        x[next] = scratch[next].logit - penalty(o, allowed, match);
    }
    return x;
}
