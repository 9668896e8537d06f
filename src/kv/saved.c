#include "saved.h"

#include <string.h>

#include "base/bytes.h"
#include "fisher.h"

struct tft_kv_saved tft_kv_save(const struct tft_kv *kv)
{
    struct tft_kv_saved a = {.held = kv->held,
                             .dropped = kv->dropped,
                             .frozen = kv->frozen,
                             .prefill = kv->policy.prefill};
    for (int i = 0; i < TFT_KV_SIDES; i++) {
        const struct tft_retained *r = &kv->at[i];
        a.side[i].sinks = r->sinks;
        a.side[i].named = r->named;
        a.side[i].waiting = r->waiting;
        a.side[i].kept = r->kept;
        a.side[i].blocks = r->blocks;
    }
    return a;
}

static struct tft_retained retained(const struct tft_kv_saved *a, int side)
{
    return (struct tft_retained){.sinks = a->side[side].sinks,
                                 .named = a->side[side].named,
                                 .waiting = a->side[side].waiting,
                                 .kept = a->side[side].kept,
                                 .blocks = a->side[side].blocks};
}

/* ---------------------------------------------------------------------------------------- walks */

static uint32_t slots_in_use(const struct tft_kv *kv, const struct tft_kv_saved *a, int side)
{
    struct tft_retained r = retained(a, side);
    return kv->n_prefix + r.sinks + r.named + r.waiting + r.kept;
}

void tft_kv_owners(const struct tft_kv *kv, const struct tft_kv_saved *a, struct tft_walk *w)
{
    for (int i = 0; i < TFT_KV_SIDES; i++)
        if (kv->slot_owner[i]) {
            tft_walk_part(w, kv->slot_owner[i], w->kv ? w->kv->slot_owner[i] : NULL,
                          slots_in_use(kv, a, i) * sizeof(uint32_t));
            tft_walk_part(w, kv->block_owner[i], w->kv ? w->kv->block_owner[i] : NULL,
                          (size_t)a->side[i].blocks * kv->block * sizeof(uint32_t));
        }
}

uint32_t tft_kv_first(const struct tft_kv *kv, uint32_t layer)
{
    uint32_t slots = tft_kv_has_ring(kv, layer) ? kv->ring[layer].slots[TFT_KV_K] : UINT32_MAX;
    return kv->written > slots ? kv->written - slots : 0;
}

static uint32_t first_of(const struct tft_kv *kv, uint32_t layer, const unsigned char *first)
{
    return first ? tft_load_u32(first + 4 * (size_t)layer) : tft_kv_first(kv, layer);
}

/* kv->written after a restore: each ring lacks at least the tokens that it lacked before. */
static uint32_t written(const struct tft_kv *kv, const struct tft_kv_image *i)
{
    uint64_t most = tft_kv_panels(kv->n_prefix + i->state.held);
    for (uint32_t l = 0; l < kv->n_layer; l++) {
        uint32_t lacks =
            tft_kv_has_ring(kv, l) ? first_of(i->kv ? i->kv : kv, l, i->first) : 0;
        uint64_t end = lacks ? (uint64_t)lacks + kv->ring[l].slots[TFT_KV_K] : 0;
        most = end > most ? end : most;
    }
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX / TFT_KEY_PANEL * TFT_KEY_PANEL;
}

static void keys(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from, size_t n,
                 struct tft_walk *w)
{
    tft_walk_part(w, tft_kv_keys(kv, layer, head, from),
                  w->kv ? tft_kv_keys(w->kv, layer, head, from) : NULL, n);
}

static void values(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from, size_t n,
                   struct tft_walk *w)
{
    tft_walk_part(w, tft_kv_values(kv, layer, head, from),
                  w->kv ? tft_kv_values(w->kv, layer, head, from) : NULL, n);
}

/* The first n keys of the panel that begins with slot `from`. The later columns are not part of the
   cache; a load sets them to 0. */
static void panel(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from, uint32_t n,
                  struct tft_walk *w)
{
    size_t row = TFT_KEY_PANEL * tft_num_bytes(kv->num), dim = tft_kv_heads(kv, layer).dim;
    char *p = tft_kv_keys(kv, layer, head, from),
         *copied = w->kv ? tft_kv_keys(w->kv, layer, head, from) : NULL;
    if (w->from || copied)
        memset(p, 0, dim * row);
    for (size_t d = 0; d < dim; d++)
        tft_walk_part(w, p + d * row, copied ? copied + d * row : NULL,
                      n * tft_num_bytes(kv->num));
}

static void slots(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                  const struct tft_kv_saved *a, struct tft_walk *w)
{
    size_t row = tft_kv_heads(kv, layer).dim * tft_num_bytes(kv->num);
    uint32_t n = slots_in_use(kv, a, TFT_KV_K), last = n % TFT_KEY_PANEL;
    if (tft_kv_in_bytes(kv, layer)) {
        tft_kv_walk_int8(kv, layer, head, n, w);
        return;
    }
    keys(kv, layer, head, 0, (n - last) * row, w);
    if (last)
        panel(kv, layer, head, n - last, last, w);
    values(kv, layer, head, 0, slots_in_use(kv, a, TFT_KV_V) * row, w);
}

/* The tokens of a ring in the order of their positions. In a ring of another size the tokens are in
   other slots. In a smaller ring, the newest tokens replace the oldest. */
static void ring(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                 const struct tft_kv_saved *a, const unsigned char *first, struct tft_walk *w)
{
    size_t row = tft_kv_heads(kv, layer).dim * tft_num_bytes(kv->num);
    uint32_t end = kv->n_prefix + a->held;
    for (uint32_t p = first_of(w->kv ? w->kv : kv, layer, first); p < end; p += TFT_KEY_PANEL) {
        uint32_t n = end - p < TFT_KEY_PANEL ? end - p : TFT_KEY_PANEL;
        if (n < TFT_KEY_PANEL)
            panel(kv, layer, head, p, n, w);
        else
            keys(kv, layer, head, p, n * row, w);
        values(kv, layer, head, p, n * row, w);
    }
}

/* Bytes of a record without the padding, which may be unwritten. */
static size_t record(const struct tft_kv *kv, const struct tft_kv_side *side, uint32_t dim,
                     unsigned bits, size_t codes, size_t all)
{
    size_t n = 2 * tft_kv_scales(kv, side, dim);
    return bits == TFT_KV_BITS_F16 ? all : codes + (kv->policy.f8 ? 2 + n : n * sizeof(uint16_t));
}

/* The codes and gains of n blocks, and exact tokens. */
static void fisher(const struct tft_kv *kv, enum tft_kv_which which, uint32_t layer, uint32_t head,
                   uint32_t n, struct tft_walk *w)
{
    const struct tft_fisher_head *h = &kv->layer[layer].fisher[which][head],
                                 *copied = w->kv ? &w->kv->layer[layer].fisher[which][head] : NULL;
    struct tft_fisher_block at = tft_fisher_block(kv, h, 0), from = {0};
    if (copied)
        from = tft_fisher_block(w->kv, copied, 0);
    tft_walk_part(w, at.codes, from.codes, n * h->codes);
    tft_walk_part(w, at.gains, from.gains, (size_t)n * TFT_FISHER_GAIN_BYTES);
    if (which == TFT_KV_K)
        tft_walk_part(w, tft_fisher_exact(kv, h), copied ? tft_fisher_exact(w->kv, copied) : NULL,
                      tft_fisher_exact_bytes(tft_kv_heads(kv, layer).dim));
}

static void blocks(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                   const struct tft_kv_saved *a, struct tft_walk *w)
{
    const struct tft_kv_layer *y = &kv->layer[layer];
    uint32_t dim = tft_kv_heads(kv, layer).dim;
    for (enum tft_kv_which i = 0; tft_kv_is_fisher(&kv->policy) && i < TFT_KV_SIDES; i++)
        fisher(kv, i, layer, head, a->side[i].blocks, w);
    if (tft_kv_is_fisher(&kv->policy))
        return;
    size_t k = record(kv, &kv->policy.k, dim, y->k_bits, y->k_codes, y->k_bytes),
           v = record(kv, &kv->policy.v, dim, y->v_bits, y->v_codes, y->v_bytes);
    for (uint32_t b = 0; b < a->side[TFT_KV_K].blocks; b++)
        tft_walk_part(w, tft_kv_key_record(kv, layer, head, b),
                      w->kv ? tft_kv_key_record(w->kv, layer, head, b) : NULL, k);
    for (uint32_t b = 0; b < a->side[TFT_KV_V].blocks; b++)
        tft_walk_part(w, tft_kv_value_record(kv, layer, head, b),
                      w->kv ? tft_kv_value_record(w->kv, layer, head, b) : NULL, v);
}

void tft_kv_memory(const struct tft_kv *kv, const struct tft_kv_saved *a,
                   const unsigned char *first, struct tft_walk *w)
{
    for (uint32_t l = 0; l < kv->n_host; l++)
        for (uint32_t h = 0; h < tft_kv_heads(kv, l).n; h++)
            if (tft_kv_has_ring(kv, l)) {
                ring(kv, l, h, a, first, w);
            } else {
                slots(kv, l, h, a, w);
                if (kv->layer)
                    blocks(kv, l, h, a, w);
            }
}

/* --------------------------------------------------------------------------------------- checks */

const char *tft_kv_wrong_state(const struct tft_kv *kv, const struct tft_kv_saved *a)
{
    struct tft_kv_policy policy = kv->policy;
    policy.prefill = a->prefill;
    if (a->held > kv->max_tokens - kv->n_prefix)
        return "more tokens than the cache has room for";
    for (int i = 0; i < TFT_KV_SIDES; i++) {
        struct tft_retained r = retained(a, i);
        bool none = !r.named && !r.waiting && !r.blocks;
        if (!tft_retain_holds(&policy, i, &r, a->held) ||
            slots_in_use(kv, a, i) > kv->capacity[i] || r.blocks > kv->n_blocks)
            return "tokens are in places where this cache has none";
        if (a->frozen > a->held || (a->frozen ? a->held - a->frozen > r.kept : !none))
            return "the position of the last quantization is wrong";
    }
    if (a->frozen && !tft_kv_quantizes(&policy))
        return "quantizations of a cache that quantizes nothing";
    if (!tft_kv_split(&policy) && memcmp(&a->side[0], &a->side[1], sizeof a->side[0]) != 0)
        return "keys and values are apart";
    if (a->dropped && (!tft_kv_slides(&policy) || a->held <= policy.sinks))
        return "it cannot have dropped tokens";
    return NULL;
}

/* Whether each ring has the tokens that the next token attends to. */
static bool rings_reach(const struct tft_kv *kv, const struct tft_kv_image *i)
{
    uint32_t end = kv->n_prefix + i->state.held + 1;
    for (uint32_t l = 0; kv->ring && l < kv->n_layer; l++) {
        uint32_t first = first_of(kv, l, i->first), window = kv->ring[l].window,
                 seen = end > window ? (end - window) / TFT_SPAN * TFT_SPAN : 0;
        if (window ? first % TFT_KEY_PANEL || first > seen : first)
            return false;
    }
    return true;
}

/* Whether the filter named as many tokens before the kept ones as the slots have. */
static bool names_fit(const struct tft_kv_image *i)
{
    for (int s = 0; i->named && s < TFT_KV_SIDES; s++) {
        struct tft_retained r = retained(&i->state, s);
        uint32_t n = 0, end = i->state.held - r.kept;
        for (uint32_t t = r.sinks; t < end; t++)
            n += i->named[t];
        if (n != r.named)
            return false;
    }
    return i->named || (!i->state.side[0].named && !i->state.side[1].named);
}

/* Records the owners of n places. Returns false if an owner is not a token of the cache, or already
   has a place. */
static bool see(const struct tft_kv *kv, const unsigned char *owner, size_t n, uint32_t end)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t token = tft_load_u32(owner + 4 * i);
        if (token >= end || kv->seen[token / 8] >> token % 8 & 1)
            return false;
        kv->seen[token / 8] |= (uint8_t)(1u << token % 8);
    }
    return true;
}

/* Whether each token has one place, and the prefix's tokens the first places. */
static bool owners_fit(const struct tft_kv *kv, const struct tft_kv_image *i)
{
    const unsigned char *at = i->owner;
    uint32_t end = kv->n_prefix + i->state.held;
    for (int s = 0; s < TFT_KV_SIDES; s++) {
        if (!kv->slot_owner[s])
            continue;
        size_t n_slot = slots_in_use(kv, &i->state, s),
               n = n_slot + (size_t)i->state.side[s].blocks * kv->block;
        for (uint32_t p = 0; p < kv->n_prefix; p++)
            if (tft_load_u32(at + 4 * (size_t)p) != p)
                return false;
        memset(kv->seen, 0, (kv->max_tokens + (size_t)7) / 8);
        if (!see(kv, at, n, end))
            return false;
        at += 4 * n;
    }
    return true;
}

const char *tft_kv_wrong_image(const struct tft_kv *kv, const struct tft_kv_image *i)
{
    return !rings_reach(kv, i) ? "windows lack tokens that the next token needs"
           : !names_fit(i)     ? "tokens that the filter named are missing"
           : !owners_fit(kv, i) ? "a token has no place, or several"
                                : NULL;
}

void tft_kv_restore(struct tft_kv *kv, const struct tft_kv_image *i)
{
    kv->held = i->state.held;
    kv->dropped = i->state.dropped;
    kv->frozen = i->state.frozen;
    kv->policy.prefill = i->state.prefill;
    kv->written = written(kv, i);
    kv->turns.blocks = 0;
    for (int s = 0; s < TFT_KV_SIDES; s++) {
        const bool *is_named = kv->at[s].is_named;
        kv->at[s] = retained(&i->state, s);
        kv->at[s].is_named = is_named;
    }
}
