/* The state of a cache from pass to pass: plans, and what becomes of them. */
#include "kv.h"

#include <assert.h>

/* ---------------------------------------------------------------------------------------- plans */

/* Plans the eviction that is due at *at, and moves *at on. order: as struct tft_kv_eviction. */
static struct tft_kv_eviction plan_eviction(const struct tft_kv *kv, struct tft_retained *at,
                                            uint32_t *order)
{
    const struct tft_kv_policy *p = &kv->policy;
    bool again = at->waiting || at->blocks;
    uint32_t n = at->waiting + at->kept, base = kv->n_prefix + at->sinks + at->named;
    struct tft_kv_eviction e = {.order = order, .first = at->blocks, .base = base};
    uint32_t leave = tft_retain_evict(p, at, order, kv->other);
    for (uint32_t i = 0; i < n; i++)
        order[i] += base;
    e.n_blocks = leave / kv->block;
    e.stay = n - leave;
    if (p->partial) {
        /* Kept tokens that were among the newest `window` until now. The older half of those that
           an earlier eviction kept has been rounded then. */
        uint32_t from = again ? p->window / 2 : 0,
                 end = at->kept > p->window ? at->kept - p->window : 0;
        e.round = kv->n_prefix + at->sinks + at->named + at->waiting + from;
        e.n_round = end > from ? end - from : 0;
    }
    return e;
}

void tft_kv_plan(struct tft_kv *kv, uint32_t n)
{
    struct tft_kv_plan *plan = &kv->plan;
    uint32_t *order = kv->order;
    *plan = (struct tft_kv_plan){.n_token = n, .chunk = kv->chunk, .after = kv->at};
    for (uint32_t from = 0; from < n; from = kv->chunk[plan->n_chunk++].to) {
        struct tft_retained *at = &plan->after;
        struct tft_kv_chunk c = {.from = from, .evicts = tft_retain_room(&kv->policy, at) == 0};
        if (c.evicts) {
            c.eviction = plan_eviction(kv, at, order);
            order += c.eviction.n_blocks * kv->block + c.eviction.stay;
        }
        c.slot = kv->n_prefix + at->sinks + at->named + at->waiting + at->kept;
        c.blocks = at->blocks;
        uint32_t room = tft_retain_room(&kv->policy, at);
        c.to = n - from < room ? n : from + room;
        tft_retain_add(&kv->policy, at, c.to - from);
        /* layout.c has made room for this many */
        assert(plan->n_chunk <= tft_retain_evictions(&kv->policy, kv->n_batch));
        assert((size_t)(order - kv->order) <= kv->n_order);
        kv->chunk[plan->n_chunk] = c;
    }
}

struct tft_kv_plan tft_kv_plain_plan(struct tft_kv_chunk *chunk, uint32_t slot, uint32_t n)
{
    *chunk = (struct tft_kv_chunk){.to = n, .slot = slot};
    return (struct tft_kv_plan){.n_chunk = 1, .n_token = n, .chunk = chunk};
}

void tft_kv_commit(struct tft_kv *kv)
{
    for (uint32_t i = 0; i < kv->plan.n_chunk; i++)
        if (kv->chunk[i].evicts)
            kv->frozen = kv->held + kv->chunk[i].from;
    kv->held += kv->plan.n_token;
    kv->at = kv->plan.after;
}

void tft_kv_rewind(struct tft_kv *kv, uint32_t pos)
{
    if (pos >= kv->held)
        return;
    bool evicted = kv->frozen && pos <= kv->frozen;
    bool slid = kv->dropped && pos <= kv->policy.sinks;
    if (evicted || slid) {
        kv->at = (struct tft_retained){.is_named = kv->at.is_named};
        kv->frozen = kv->dropped = kv->held = 0;
        return;
    }
    tft_retain_remove(&kv->at, kv->held - pos);
    kv->held = pos;
}

/* --------------------------------------------------------------------------------------- slides */

struct tft_kv_drop tft_kv_drop_of(const struct tft_kv *kv, uint32_t n)
{
    if (tft_kv_evicts(&kv->policy))
        return (struct tft_kv_drop){.blocks = n / kv->block};
    return (struct tft_kv_drop){
        .slot = kv->n_prefix + kv->policy.sinks, .n = n, .used = kv->n_prefix + kv->held};
}

void tft_kv_drop(const struct tft_kv *kv, const struct tft_kv_drop *d)
{
    for (uint32_t l = 0; l < kv->n_host; l++)
        for (uint32_t h = 0; h < kv->n_head_kv; h++)
            if (d->blocks)
                tft_kv_drop_blocks(kv, l, h, d->blocks);
            else
                tft_kv_drop_slots(kv, l, h, d->slot, d->n, d->used);
}

void tft_kv_commit_drop(struct tft_kv *kv, uint32_t n)
{
    if (tft_kv_evicts(&kv->policy)) {
        kv->at.blocks -= n / kv->block;
        kv->frozen = kv->held - n;
    } else {
        kv->at.kept -= n;
    }
    kv->held -= n;
    kv->dropped += n;
}
