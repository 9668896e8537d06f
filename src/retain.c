#include "retain.h"

/* Tokens kept when some are given up. */
static uint32_t most_kept(const struct tft_kv_policy *p)
{
    switch (p->retain) {
    case TFT_KV_LOG2: return 3 * p->window;
    case TFT_KV_WINDOW: return p->window + tft_kv_block(p);
    default: return p->window;
    }
}

uint32_t tft_retain_slots(const struct tft_kv_policy *p)
{
    return p->sinks + tft_kv_block(p) - 1 + most_kept(p);
}

uint32_t tft_retain_room(const struct tft_kv_policy *p, const struct tft_retained *r)
{
    return p->sinks - r->sinks + most_kept(p) - r->kept;
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

/* Whether kept token i is given up. LogQuant, algorithm 1: of the older two windows every other one, so that each time they are halved they
   are half as dense. */
static bool given_up(const struct tft_kv_policy *p, uint32_t i)
{
    switch (p->retain) {
    case TFT_KV_LOG2: return i < 2 * p->window && i % 2;
    case TFT_KV_WINDOW: return i < tft_kv_block(p);
    default: return true;
    }
}

uint32_t tft_retain_evict(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t *order)
{
    uint32_t waiting = r->waiting, kept = 0, block = tft_kv_block(p);
    for (uint32_t i = 0; order && i < waiting; i++)
        order[i] = i;
    for (uint32_t i = 0; i < r->kept; i++)
        if (given_up(p, i)) {
            if (order)
                order[waiting] = r->waiting + i;
            waiting++;
        }
    for (uint32_t i = 0; i < r->kept; i++)
        if (!given_up(p, i)) {
            if (order)
                order[waiting + kept] = r->waiting + i;
            kept++;
        }
    uint32_t n = waiting / block * block;
    *r = (struct tft_retained){r->sinks, waiting - n, kept, r->blocks + n / block};
    return n;
}

struct tft_chunk tft_retain_chunk(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t from, uint32_t n)
{
    struct tft_chunk c = {.from = from, .before = *r, .evict = tft_retain_room(p, r) == 0};
    if (c.evict)
        tft_retain_evict(p, r, NULL);
    c.slot = r->sinks + r->waiting + r->kept;
    c.blocks = r->blocks;
    uint32_t room = tft_retain_room(p, r);
    c.to = n - from < room ? n : from + room;
    tft_retain_add(p, r, c.to - from);
    return c;
}

void tft_retain_advance(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t from, uint32_t n, uint32_t *since)
{
    while (from < n) {
        struct tft_chunk c = tft_retain_chunk(p, r, from, n);
        *since = c.evict ? from : *since;
        from = c.to;
    }
}
