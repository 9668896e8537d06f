/* The state of a cache: plans passes, commits them, and rewinds and slides. */
#include "kv.h"

#include <assert.h>
#include <string.h>

#include "base/heapsort.h"

/* ---------------------------------------------------------------------------------------- plans */

/* Plans the quantization that is due at *at; updates *at. order: as in tft_kv_quantization. */
static struct tft_kv_quantization plan_quantization(const struct tft_kv *kv,
                                                    enum tft_kv_which which,
                                                    struct tft_retained *at, uint32_t *order)
{
    uint32_t n = at->waiting + at->kept, base = kv->n_prefix + at->sinks + at->named;
    struct tft_kv_quantization e = {.order = order, .first = at->blocks, .base = base};
    uint32_t leave = tft_retain_quantize(&kv->policy, which, at, order, kv->other);
    for (uint32_t i = 0; i < n; i++)
        order[i] += base;
    e.n_blocks = leave / kv->block;
    e.stay = n - leave;
    return e;
}

/* Carries out a quantization in the owners of a side: from the slots' owners `old` to the owners of
   the new blocks, and of the remaining slots, `new`. */
static void move_owners(const struct tft_kv *kv, enum tft_kv_which which,
                           const struct tft_kv_quantization *e, const uint32_t *old, uint32_t *new)
{
    uint32_t leave = e->n_blocks * kv->block,
             *block = kv->block_owner[which] + (size_t)e->first * kv->block;
    for (uint32_t i = 0; i < leave; i++)
        block[i] = old[e->order[i]];
    memcpy(new, old, e->base * sizeof *new);
    for (uint32_t i = 0; i < e->stay; i++)
        new[e->base + i] = old[e->order[leave + i]];
}

/* A pass during its planning. */
struct draft {
    struct tft_kv *kv;
    uint32_t *order, *free_owners; /* the free rest of kv->order and kv->owner */
    uint32_t *owner[TFT_KV_SIDES]; /* of the slots in use; NULL: no owners */
};

/* Plans one side of the next chunk. Returns the side's room in tokens. */
static uint32_t plan_side(struct draft *d, enum tft_kv_which which, struct tft_kv_place *place)
{
    struct tft_kv *kv = d->kv;
    struct tft_retained *at = &kv->plan.after[which];
    *place = (struct tft_kv_place){.quantizes = tft_retain_room(&kv->policy, which, at) == 0};
    if (place->quantizes) {
        struct tft_kv_quantization e = plan_quantization(kv, which, at, d->order);
        d->order += e.n_blocks * kv->block + e.stay;
        if (d->owner[which]) {
            move_owners(kv, which, &e, d->owner[which], d->free_owners);
            d->owner[which] = d->free_owners;
            d->free_owners += kv->n_prefix + kv->stay[which];
        }
        place->quantization = e;
    }
    place->slot = kv->n_prefix + at->sinks + at->named + at->waiting + at->kept;
    place->blocks = at->blocks;
    place->owner = tft_kv_split(&kv->policy) ? d->owner[which] : NULL;
    return tft_retain_room(&kv->policy, which, at);
}

/* Adds the tokens of the chunk to a side. */
static void add_tokens(const struct draft *d, enum tft_kv_which which, const struct tft_kv_chunk *c)
{
    struct tft_kv *kv = d->kv;
    for (uint32_t i = c->from; d->owner[which] && i < c->to; i++)
        d->owner[which][c->side[which].slot + i - c->from] = kv->n_prefix + kv->held + i;
    tft_retain_add(&kv->policy, &kv->plan.after[which], c->to - c->from);
}

/* Blocks have tokens in their order, after the sinks, without the named ones. */
static void plan_turns(struct tft_kv *kv)
{
    const bool *named = kv->at[TFT_KV_K].is_named;
    tft_turns_plan(&kv->turns, kv->at[TFT_KV_K].blocks, kv->plan.after[TFT_KV_K].blocks,
                   kv->n_prefix + kv->dropped + kv->policy.sinks,
                   named ? named + kv->policy.sinks : NULL);
}

void tft_kv_plan(struct tft_kv *kv, uint32_t n)
{
    struct tft_kv_plan *plan = &kv->plan;
    struct draft d = {kv, kv->order, kv->owner, {kv->slot_owner[0], kv->slot_owner[1]}};
    uint32_t sides = tft_kv_planned_sides(&kv->policy),
             end = tft_kv_panels(kv->n_prefix + kv->held + n);
    kv->written = end > kv->written ? end : kv->written;
    *plan = (struct tft_kv_plan){
        .n_token = n, .chunk = kv->chunk, .after = {kv->at[TFT_KV_K], kv->at[TFT_KV_V]}};
    for (uint32_t from = 0; from < n; from = kv->chunk[plan->n_chunk++].to) {
        struct tft_kv_chunk c = {
            .from = from, .to = n, .position = kv->n_prefix + kv->held + from};
        for (uint32_t i = 0; i < sides; i++) {
            uint32_t room = plan_side(&d, i, &c.side[i]);
            c.to = c.to - from < room ? c.to : from + room;
        }
        for (uint32_t i = 0; i < sides; i++)
            add_tokens(&d, i, &c);
        if (sides == 1) {
            c.side[TFT_KV_V] = c.side[TFT_KV_K];
            plan->after[TFT_KV_V] = plan->after[TFT_KV_K];
        }
        /* layout.c made room for max_chunks */
        assert(plan->n_chunk < kv->max_chunks);
        assert((size_t)(d.order - kv->order) <= kv->n_order);
        assert(!kv->owner || (size_t)(d.free_owners - kv->owner) <= kv->n_owner);
        kv->chunk[plan->n_chunk] = c;
    }
    for (int i = 0; i < TFT_KV_SIDES; i++)
        plan->owner[i] = d.owner[i];
    plan->n_order = (uint32_t)(d.order - kv->order);
    if (tft_kv_is_fisher(&kv->policy))
        plan_turns(kv);
}

uint32_t tft_kv_room(const struct tft_kv *kv)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < tft_kv_planned_sides(&kv->policy); i++) {
        struct tft_retained at = kv->at[i];
        if (tft_retain_room(&kv->policy, i, &at) == 0)
            tft_retain_quantize(&kv->policy, i, &at, NULL, NULL);
        uint32_t room = tft_retain_room(&kv->policy, i, &at);
        least = room < least ? room : least;
    }
    return least;
}

struct tft_kv_plan tft_kv_plain_plan(struct tft_kv_chunk *chunk, uint32_t slot, uint32_t n)
{
    *chunk = (struct tft_kv_chunk){
        .to = n, .position = slot, .side = {{.slot = slot}, {.slot = slot}}};
    return (struct tft_kv_plan){.n_chunk = 1, .n_token = n, .chunk = chunk};
}

/* Includes the prefix. */
static uint32_t slots_in_use(const struct tft_kv *kv, enum tft_kv_which which)
{
    const struct tft_retained *at = &kv->at[which];
    return kv->n_prefix + at->sinks + at->named + at->waiting + at->kept;
}

void tft_kv_commit(struct tft_kv *kv)
{
    for (uint32_t i = 0; i < kv->plan.n_chunk; i++)
        if (tft_kv_chunk_quantizes(&kv->chunk[i]))
            kv->frozen = kv->held + kv->chunk[i].from;
    for (int i = 0; i < TFT_KV_SIDES; i++) {
        const uint32_t *owner = kv->plan.owner[i];
        kv->at[i] = kv->plan.after[i];
        if (owner != kv->slot_owner[i])
            memcpy(kv->slot_owner[i], owner, slots_in_use(kv, i) * sizeof *owner);
    }
    kv->held += kv->plan.n_token;
}

/* Whether the token at `pos` would attend, in some layer, to tokens that the ring has lost. */
static bool left_rings(const struct tft_kv *kv, uint32_t pos)
{
    uint32_t end = kv->n_prefix + pos + 1;
    for (uint32_t l = 0; kv->ring && l < kv->n_layer; l++) {
        const struct tft_kv_ring *r = &kv->ring[l];
        uint32_t first = end > r->window ? end - r->window : 0;
        if (r->window && (uint64_t)first / TFT_SPAN * TFT_SPAN + r->slots[TFT_KV_K] < kv->written)
            return true;
    }
    return false;
}

bool tft_kv_keeps(const struct tft_kv *kv, uint32_t pos)
{
    bool quantized = kv->frozen && pos <= kv->frozen;
    bool slid = kv->dropped && pos <= kv->policy.sinks;
    return pos >= kv->held || !(quantized || slid || left_rings(kv, pos));
}

void tft_kv_rewind(struct tft_kv *kv, uint32_t pos)
{
    if (pos >= kv->held)
        return;
    bool forgets = !tft_kv_keeps(kv, pos);
    for (int i = 0; i < TFT_KV_SIDES; i++)
        if (forgets)
            kv->at[i] = (struct tft_retained){.is_named = kv->at[i].is_named};
        else
            tft_retain_remove(&kv->at[i], kv->held - pos);
    if (forgets) {
        kv->frozen = kv->dropped = kv->held = 0;
        kv->written = tft_kv_panels(kv->n_prefix);
    } else {
        kv->held = pos;
    }
}

/* --------------------------------------------------------------------------------------- slides */

struct tft_kv_drop tft_kv_drop_of(const struct tft_kv *kv, uint32_t n)
{
    if (tft_kv_quantizes(&kv->policy))
        return (struct tft_kv_drop){.n = n, .blocks = n / kv->block};
    return (struct tft_kv_drop){
        .n = n, .slot = kv->n_prefix + kv->policy.sinks, .used = kv->n_prefix + kv->held};
}

void tft_kv_drop(struct tft_kv *kv, const struct tft_kv_drop *d)
{
    const uint32_t *dropped = tft_kv_dropped(kv, d->n);
    for (uint32_t l = 0; l < kv->n_host; l++)
        for (uint32_t h = 0; h < tft_kv_heads(kv, l).n; h++)
            if (tft_kv_has_ring(kv, l))
                tft_kv_drop_from_ring(kv, l, h, dropped, d->n);
            else if (d->blocks)
                tft_kv_drop_blocks(kv, l, h, d->blocks);
            else
                tft_kv_drop_slots(kv, l, h, d->slot, d->n, d->used);
}

static bool before(const void *ctx, const void *a, const void *b)
{
    (void)ctx;
    return *(const uint32_t *)a < *(const uint32_t *)b;
}

const uint32_t *tft_kv_dropped(struct tft_kv *kv, uint32_t n)
{
    uint32_t *dropped = kv->block_owner[TFT_KV_K];
    if (dropped)
        tft_heapsort(dropped, n, sizeof *dropped, before, NULL);
    return dropped;
}

/* The number of a token after a drop of the tokens dropped: [n], in order. */
static uint32_t moved_up(const uint32_t *dropped, uint32_t n, uint32_t token)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (dropped[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return token - low;
}

/* Drops the first n tokens in blocks, the tokens of `dropped`, from the owners of a side. */
static void drop_owners(struct tft_kv *kv, enum tft_kv_which which, const uint32_t *dropped,
                        uint32_t n)
{
    uint32_t *block = kv->block_owner[which], *slot = kv->slot_owner[which],
             used = slots_in_use(kv, which), end = kv->at[which].blocks * kv->block;
    for (uint32_t i = 0; i < used; i++)
        slot[i] = moved_up(dropped, n, slot[i]);
    for (uint32_t i = n; i < end; i++)
        block[i] = moved_up(dropped, n, block[i]);
}

void tft_kv_commit_drop(struct tft_kv *kv, uint32_t n)
{
    const uint32_t *dropped = tft_kv_dropped(kv, n);
    for (uint32_t i = 0; dropped && i < tft_kv_planned_sides(&kv->policy); i++)
        drop_owners(kv, i, dropped, n);
    for (uint32_t i = 0; dropped && i < tft_kv_planned_sides(&kv->policy); i++)
        memmove(kv->block_owner[i], kv->block_owner[i] + n,
                (kv->at[i].blocks * kv->block - n) * sizeof *dropped);
    for (int i = 0; i < TFT_KV_SIDES; i++) {
        if (tft_kv_quantizes(&kv->policy))
            kv->at[i].blocks -= n / kv->block;
        else
            kv->at[i].kept -= n;
    }
    if (tft_kv_quantizes(&kv->policy))
        kv->frozen = kv->held - n;
    kv->held -= n;
    kv->dropped += n;
    kv->turns.blocks = 0;
}
