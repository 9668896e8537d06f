#include "retain.h"

#include <string.h>

/* Tokens kept when some are given up. */
static uint32_t most_kept(const struct tft_kv_policy *p)
{
    switch (p->retain) {
    case TFT_KV_LOG2: return 3 * p->window;
    case TFT_KV_WINDOW: return p->window + tft_kv_block(p);
    default: return p->window;
    }
}

uint32_t tft_retain_stay(const struct tft_kv_policy *p)
{
    return p->sinks + p->keep + tft_kv_block(p) - 1 + most_kept(p);
}

uint32_t tft_retain_slots(const struct tft_kv_policy *p)
{
    uint32_t stay = tft_retain_stay(p);
    return stay > p->prefill ? stay : p->prefill;
}

uint32_t tft_retain_room(const struct tft_kv_policy *p, const struct tft_retained *r)
{
    bool whole = !r->named && !r->waiting && !r->blocks; /* nothing has been given up yet */
    uint32_t most = p->sinks + most_kept(p);
    return (whole && p->prefill > most ? p->prefill : most) - r->sinks - r->kept;
}

void tft_retain_add(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t n)
{
    uint32_t sinks = p->sinks - r->sinks < n ? p->sinks - r->sinks : n;
    r->sinks += sinks;
    r->kept += n - sinks;
}

void tft_retain_remove(struct tft_retained *r, uint32_t n)
{
    uint32_t kept = n < r->kept ? n : r->kept;
    r->kept -= kept;
    r->sinks -= n - kept;
}

/* Whether kept token i is given up. LogQuant, algorithm 1: of the older two windows every other
   one, so that each time they are halved they are half as dense. */
static bool given_up(const struct tft_kv_policy *p, uint32_t i)
{
    switch (p->retain) {
    case TFT_KV_LOG2: return i < 2 * p->window && i % 2;
    case TFT_KV_WINDOW: return i < tft_kv_block(p);
    default: return true;
    }
}

/* Lists of slots; those of no place are only counted. */
struct list {
    uint32_t *at, n;
};

static void push(struct list *l, uint32_t slot)
{
    if (l->at)
        l->at[l->n] = slot;
    l->n++;
}

/* What kept tokens become when some are given up once. first: which of all tokens the first of them
   is; where there are names they are consecutive. */
static void give_up(const struct tft_kv_policy *p, const bool *names, uint32_t first,
                    struct list *kept, struct list *waiting, struct list *named)
{
    uint32_t n = kept->n;
    kept->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = kept->at ? kept->at[i] : 0;
        push(!given_up(p, i) ? kept : names && names[first + i] ? named : waiting, slot);
    }
}

uint32_t tft_retain_evict(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t *order)
{
    uint32_t all = r->waiting + r->kept, block = tft_kv_block(p), most = most_kept(p);
    /* tokens before those kept */
    uint32_t first = r->sinks + r->named + r->waiting + r->blocks * block;
    struct list waiting = {order, 0}, kept = {order ? order + all : NULL, 0},
                named = {order ? order + 2 * all : NULL, 0};
    for (uint32_t i = 0; i < r->waiting; i++)
        push(&waiting, i);
    /* more than the most after a prompt that was kept whole: as if they came now, one by one */
    for (uint32_t i = 0; i < r->kept; i++) {
        push(&kept, r->waiting + i);
        if (kept.n == most)
            give_up(p, r->names, first + i + 1 - most, &kept, &waiting, &named);
    }
    uint32_t n = waiting.n / block * block, left = waiting.n - n;
    if (order) {
        memmove(order + n + named.n, order + n, left * sizeof *order);
        memcpy(order + n, named.at, named.n * sizeof *order);
        memcpy(order + waiting.n + named.n, kept.at, kept.n * sizeof *order);
    }
    *r = (struct tft_retained){r->sinks, r->named + named.n,    left,
                               kept.n,   r->blocks + n / block, r->names};
    return n;
}

struct tft_chunk tft_retain_chunk(const struct tft_kv_policy *p, struct tft_retained *r,
                                  uint32_t from, uint32_t n)
{
    struct tft_chunk c = {.from = from, .before = *r, .evict = tft_retain_room(p, r) == 0};
    if (c.evict)
        tft_retain_evict(p, r, NULL);
    c.slot = r->sinks + r->named + r->waiting + r->kept;
    c.blocks = r->blocks;
    uint32_t room = tft_retain_room(p, r);
    c.to = n - from < room ? n : from + room;
    tft_retain_add(p, r, c.to - from);
    return c;
}

void tft_retain_advance(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t from,
                        uint32_t n, uint32_t *since)
{
    while (from < n) {
        struct tft_chunk c = tft_retain_chunk(p, r, from, n);
        *since = c.evict ? from : *since;
        from = c.to;
    }
}
