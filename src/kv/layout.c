/* The size and memory layout of a cache. */
#include "fisher.h"

#include <math.h>
#include <string.h>

enum { SLIDE_PART = 8 };

bool tft_kv_slides(const struct tft_kv_policy *policy)
{
    return !tft_kv_split(policy) ||
           (policy->k.retain != TFT_KV_LOG2 && policy->v.retain != TFT_KV_LOG2);
}

static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

uint32_t tft_kv_slide_step(const struct tft_kv_policy *policy, uint32_t capacity)
{
    uint32_t unit = tft_kv_block(policy), n = capacity / SLIDE_PART / unit * unit;
    uint32_t k = tft_retain_slots(policy, TFT_KV_K), v = tft_retain_slots(policy, TFT_KV_V),
             stay = tft_kv_quantizes(policy) ? max_u32(k, v) : policy->sinks;
    n = n ? n : unit;
    return capacity > stay && capacity - stay > n ? n : 0;
}

/* -------------------------------------------------------------------------------------- records */

size_t tft_kv_scales(const struct tft_kv *kv, const struct tft_kv_side *side, uint32_t dim)
{
    if (side->axis == TFT_KV_FISHER)
        return kv->block;
    return side->axis == TFT_KV_TOKEN ? (size_t)tft_kv_groups(kv, dim) * kv->block : dim;
}

static size_t key_code_bytes(const struct tft_kv *kv, unsigned bits, uint32_t mixed, uint32_t dim)
{
    size_t panels = kv->block / TFT_PANEL;
    return panels * (mixed ? mixed * tft_codes_bytes(TFT_BITS_1, 1)
                           : tft_codes_bytes((enum tft_bits)bits, dim / TFT_QUAD));
}

static size_t value_code_bytes(const struct tft_kv *kv, unsigned bits, uint32_t dim)
{
    return tft_kv_padded_dim(dim) / TFT_PANEL *
           tft_codes_bytes((enum tft_bits)bits, kv->block / TFT_QUAD);
}

/* Bytes of a record with `codes` bytes of codes: a multiple of 8, to align scales. */
static size_t record_bytes(const struct tft_kv *kv, const struct tft_kv_side *side, unsigned bits,
                           size_t codes, uint32_t dim)
{
    if (bits == TFT_KV_BITS_F16)
        return (size_t)kv->block * dim * sizeof(uint16_t);
    size_t n = 2 * tft_kv_scales(kv, side, dim),
           scales = kv->policy.f8 ? 2 + n : n * sizeof(uint16_t);
    return codes + (scales + 7) / 8 * 8;
}

/* The blocks of layer l, with heads of `dim` channels. */
static struct tft_kv_layer layer_of(const struct tft_kv *kv, uint32_t l, uint32_t dim)
{
    const struct tft_kv_side *k = &kv->policy.k, *v = &kv->policy.v;
    struct tft_kv_layer y = {.k_bits = tft_kv_held(k, l), .v_bits = tft_kv_held(v, l)};
    if (tft_kv_is_fisher(&kv->policy)) /* records differ by head */
        return y;
    if (y.k_bits != TFT_KV_BITS_F16) {
        if (k->axis == TFT_KV_MIXED)
            y.mixed = (uint32_t)lrintf(tft_kv_bits(k, l) * (float)(dim / TFT_QUAD));
        y.k_codes = key_code_bytes(kv, y.k_bits, y.mixed, dim);
    }
    if (y.v_bits != TFT_KV_BITS_F16)
        y.v_codes = value_code_bytes(kv, y.v_bits, dim);
    y.k_bytes = record_bytes(kv, k, y.k_bits, y.k_codes, dim);
    y.v_bytes = record_bytes(kv, v, y.v_bits, y.v_codes, dim);
    return y;
}

/* The window of a layer; 0: no window. */
static uint32_t window_of(const struct tft_kv_shape *shape, uint32_t layer)
{
    return shape->window ? shape->window[layer] : 0;
}

static struct tft_kv_heads heads_of(const struct tft_kv_shape *shape, uint32_t layer)
{
    return shape->heads ? shape->heads[layer]
                        : (struct tft_kv_heads){shape->n_head_kv, shape->head_dim};
}

/* Bytes of slots of keys, or of values, over the layers without a window: the policy governs only
   these layers. */
static uint64_t policy_slots(const struct tft_kv_shape *shape, const struct tft_kv_policy *policy,
                             enum tft_kv_which which, uint32_t slots)
{
    uint64_t n = 0;
    for (uint32_t l = 0; l < shape->n_layer; l++) {
        struct tft_kv_heads own = heads_of(shape, l);
        if (!window_of(shape, l))
            n += (uint64_t)own.n * tft_kv_slots_bytes(policy, false, own.dim, which, slots);
    }
    return n;
}

uint64_t tft_kv_block_bytes(const struct tft_kv_shape *shape, const struct tft_kv_policy *policy)
{
    struct tft_kv kv = {.policy = *policy, .block = tft_kv_block(policy)};
    uint64_t bytes = 0;
    if (tft_kv_is_fisher(policy))
        return tft_fisher_block_bytes(shape, tft_fisher_price(shape, tft_kv_bits(&policy->k, 0)));
    for (uint32_t l = 0; l < shape->n_layer; l++) {
        struct tft_kv_heads own = heads_of(shape, l);
        if (window_of(shape, l))
            continue;
        struct tft_kv_layer y = layer_of(&kv, l, own.dim);
        bytes += (uint64_t)own.n * (y.k_bytes + y.v_bytes);
    }
    return bytes;
}

uint64_t tft_kv_token_bytes(const struct tft_kv_shape *shape, const struct tft_kv_policy *policy)
{
    uint64_t block = tft_kv_block(policy);
    if (tft_kv_quantizes(policy))
        return (tft_kv_block_bytes(shape, policy) + block - 1) / block;
    uint64_t span = policy_slots(shape, policy, TFT_KV_K, TFT_SPAN) +
                    policy_slots(shape, policy, TFT_KV_V, TFT_SPAN);
    return (span + TFT_SPAN - 1) / TFT_SPAN;
}

/* --------------------------------------------------------------------------------------- memory */

/* Slots of a session of `capacity` tokens. Without blocks, values of int8 come in whole spans. */
static uint32_t slots_of(const struct tft_kv_policy *policy, enum tft_kv_which which,
                         uint32_t n_prefix, uint32_t capacity)
{
    uint32_t n = n_prefix + min_u32(tft_retain_slots(policy, which), capacity);
    bool whole = policy->i8 && !tft_kv_quantizes(policy) && which == TFT_KV_V;
    return whole ? tft_spans(n) * TFT_SPAN : tft_kv_panels(n);
}

static uint32_t blocks_of(const struct tft_kv_policy *policy, uint32_t capacity)
{
    return tft_kv_quantizes(policy) ? capacity / tft_kv_block(policy) : 0;
}

uint64_t tft_kv_held_bytes(const struct tft_kv_shape *shape, const struct tft_kv_policy *policy,
                           uint32_t capacity, uint64_t block_bytes)
{
    uint64_t bytes = blocks_of(policy, capacity) * block_bytes;
    for (enum tft_kv_which i = 0; i < TFT_KV_SIDES; i++)
        bytes += policy_slots(shape, policy, i, slots_of(policy, i, 0, capacity));
    if (tft_kv_is_fisher(policy))
        bytes += tft_fisher_exact_all(shape);
    return bytes;
}

/* Slots of a layer with this window, if a pass adds, or a slide or rewind removes, up to at_once
   tokens. The window's first span is kept whole, and one panel more, since a panel of keys is
   cleared before it is full. */
static uint32_t ring_slots(const struct tft_kv *kv, uint32_t window, uint32_t at_once)
{
    uint64_t slots = (uint64_t)window + at_once + TFT_SPAN + TFT_KEY_PANEL,
             whole = (slots + TFT_SPAN - 1) / TFT_SPAN * TFT_SPAN;
    uint32_t all = tft_kv_panels(kv->max_tokens);
    return whole < all ? (uint32_t)whole : all;
}

/* Lays out the rings. n: becomes the bytes of all layers' keys, and of all layers' values */
static void layout_rings(struct tft_kv *kv, struct tft_arena *a, const struct tft_kv_shape *shape,
                         uint32_t at_once, size_t n[TFT_KV_SIDES])
{
    struct tft_kv_ring *ring = tft_arena_take(a, kv->n_layer, sizeof *ring);
    for (uint32_t l = 0; l < kv->n_layer; l++) {
        struct tft_kv_ring r = {.heads = heads_of(shape, l), .window = window_of(shape, l)};
        for (enum tft_kv_which i = 0; i < TFT_KV_SIDES; i++) {
            size_t all;
            r.slots[i] = r.window ? ring_slots(kv, r.window, at_once) : kv->capacity[i];
            r.at[i] = n[i];
            kv->most_slots = max_u32(kv->most_slots, r.slots[i]);
            if (!tft_mul(l < kv->n_host ? r.heads.n : 0,
                         tft_kv_slots_bytes(&kv->policy, r.window, r.heads.dim, i, r.slots[i]),
                         &all) ||
                !tft_add(n[i], all, &n[i]))
                a->failed = true;
        }
        if (ring)
            ring[l] = r;
    }
    kv->ring = ring;
}

static void layout_slots(struct tft_kv *kv, struct tft_arena *a, const struct tft_kv_shape *shape,
                         uint32_t at_once)
{
    size_t n[TFT_KV_SIDES] = {0};
    bool differ = shape->window || shape->heads;
    kv->most_slots = max_u32(kv->capacity[TFT_KV_K], kv->capacity[TFT_KV_V]);
    if (differ)
        layout_rings(kv, a, shape, at_once, n);
    for (enum tft_kv_which i = 0; i < TFT_KV_SIDES && !differ; i++)
        if (!tft_mul((size_t)kv->n_host * kv->n_head_kv,
                     tft_kv_slots_bytes(&kv->policy, false, kv->head_dim, i, kv->capacity[i]),
                     &n[i]))
            a->failed = true;
    kv->k = tft_arena_take(a, n[TFT_KV_K], 1);
    kv->v = tft_arena_take(a, n[TFT_KV_V], 1);
}

static void layout_owners(struct tft_kv *kv, struct tft_arena *a)
{
    for (uint32_t i = 0; i < tft_kv_planned_sides(&kv->policy); i++) {
        kv->slot_owner[i] = tft_arena_take(a, kv->capacity[i], sizeof(uint32_t));
        kv->block_owner[i] = tft_arena_take(a, kv->n_blocks, kv->block * sizeof(uint32_t));
    }
    kv->seen = tft_arena_take(a, (kv->max_tokens + (size_t)7) / 8, 1);
}

static void layout_blocks(struct tft_kv *kv, struct tft_arena *a, const struct tft_kv_shape *shape)
{
    bool fisher = tft_kv_is_fisher(&kv->policy);
    float price = fisher ? tft_fisher_price(shape, tft_kv_bits(&kv->policy.k, 0)) : 0;
    struct tft_kv_layer *layers = tft_arena_take(a, kv->n_layer, sizeof *layers);
    size_t used = 0, host = 0;
    for (uint32_t l = 0; l < kv->n_layer; l++) {
        struct tft_kv_heads own = heads_of(shape, l);
        struct tft_kv_layer y = {0};
        bool coded = !window_of(shape, l);
        if (coded)
            y = layer_of(kv, l, own.dim);
        bool ordered = coded && (y.mixed || kv->policy.reorder) && y.k_bits != TFT_KV_BITS_F16;
        size_t records = 0, all = 0;
        y.quads = tft_arena_take(a, coded ? own.n : 0, sizeof *y.quads);
        y.channel = ordered ? tft_arena_take(a, own.n, own.dim * sizeof *y.channel) : NULL;
        y.k_at = used;
        if (!tft_mul(kv->n_blocks, own.n, &records) ||
            !tft_mul(records, y.k_bytes + y.v_bytes, &all) || !tft_add(used, all, &used))
            a->failed = true;
        y.v_at = y.k_at + records * y.k_bytes;
        for (enum tft_kv_which i = 0; fisher && coded && i < TFT_KV_SIDES; i++)
            y.fisher[i] = tft_fisher_layout(a, shape, i, l, price, kv->n_blocks, &used);
        host = l < kv->n_host ? used : host;
        if (layers)
            layers[l] = y;
    }
    kv->layer = layers;
    kv->codes = tft_arena_take(a, host, 1);
}

static void layout_scratch(struct tft_kv *kv, struct tft_arena *a, int n_threads)
{
    struct tft_kv_scratch *scratch = tft_arena_take(a, (size_t)n_threads, sizeof *scratch);
    uint32_t stay = max_u32(kv->stay[TFT_KV_K], kv->stay[TFT_KV_V]);
    size_t width = tft_kv_padded_dim(kv->head_dim),
           by_token = tft_kv_groups(kv, kv->head_dim) * (size_t)kv->block;
    size_t scales = by_token > width ? by_token : width;
    for (int i = 0; i < n_threads; i++) {
        struct tft_kv_scratch w;
        w.x = tft_arena_take(a, kv->block, width * sizeof(float));
        w.code = tft_arena_take(a, kv->block, width);
        w.half = tft_arena_take(a, width, sizeof(float));
        w.scale = tft_arena_take(a, scales, sizeof(float));
        w.mid = tft_arena_take(a, scales, sizeof(float));
        w.rows = tft_arena_take(a, stay, tft_kv_row_bytes(kv, kv->head_dim));
        if (scratch)
            scratch[i] = w;
    }
    kv->scratch = scratch;
}

/* Room for the plan of any pass of up to n_batch tokens. */
static void layout_plan(struct tft_kv *kv, struct tft_arena *a, uint32_t n_batch)
{
    size_t order = 0, owner = 0;
    uint32_t most = max_u32(kv->capacity[TFT_KV_K], kv->capacity[TFT_KV_V]);
    bool notes = tft_kv_notes_owners(&kv->policy), quantizes = tft_kv_quantizes(&kv->policy);
    kv->max_chunks = 1;
    for (uint32_t i = 0; quantizes && i < tft_kv_planned_sides(&kv->policy); i++) {
        uint32_t n = tft_retain_quantizations(&kv->policy, i, n_batch);
        kv->max_chunks += n;
        /* The first quantization may find a long prompt in slots; a later one finds only the slots
           that the previous quantization left, and newer tokens. */
        size_t orders = 0, owners = 0;
        if (!tft_mul(n, kv->stay[i], &orders) || !tft_add(orders, kv->capacity[i], &orders) ||
            !tft_add(order, orders, &order) ||
            !tft_mul(n, (size_t)kv->n_prefix + kv->stay[i], &owners) ||
            !tft_add(owner, notes ? owners : 0, &owner))
            a->failed = true;
    }
    if (order > UINT32_MAX || owner > UINT32_MAX)
        a->failed = true;
    kv->n_order = (uint32_t)order;
    kv->n_owner = (uint32_t)owner;
    kv->chunk = tft_arena_take(a, kv->max_chunks, sizeof *kv->chunk);
    kv->order = tft_arena_take(a, order, sizeof *kv->order);
    kv->owner = notes ? tft_arena_take(a, owner, sizeof *kv->owner) : NULL;
    kv->other = tft_arena_take(a, quantizes ? most : 0, 2 * sizeof *kv->other);
}

void tft_kv_layout(struct tft_kv *kv, struct tft_arena *a, const struct tft_kv_shape *shape,
                   const struct tft_kv_policy *policy, uint32_t capacity, uint32_t n_batch,
                   uint32_t slide, int n_threads)
{
    *kv = (struct tft_kv){
        .policy = *policy,
        .num = policy->num,
        .n_layer = shape->n_layer,
        .n_host = shape->n_host,
        .n_head_kv = shape->n_head_kv,
        .head_dim = shape->head_dim,
        .n_prefix = shape->n_prefix,
        .block = tft_kv_block(policy),
        .max_tokens = shape->n_prefix + capacity,
        .written = tft_kv_panels(shape->n_prefix),
    };
    for (uint32_t i = 0; i < TFT_KV_SIDES; i++) {
        kv->capacity[i] = slots_of(policy, i, shape->n_prefix, capacity);
        kv->stay[i] = min_u32(tft_retain_stay(policy, i), kv->capacity[i]);
    }
    layout_slots(kv, a, shape, max_u32(max_u32(n_batch, slide), TFT_KV_BACK));
    kv->n_blocks = blocks_of(policy, capacity);
    if (tft_kv_quantizes(policy)) {
        layout_blocks(kv, a, shape);
        kv->turns = (struct tft_turns){
            .block = kv->block,
            .dim = tft_fisher_heads(shape).dim,
            .n_rot = shape->n_rot,
            .halves = shape->rope_halves,
            .freq = shape->rope_freq,
        };
        if (tft_kv_is_fisher(policy))
            tft_turns_layout(&kv->turns, a, kv->n_blocks, policy->keep);
        if (tft_kv_notes_owners(policy))
            layout_owners(kv, a);
        layout_scratch(kv, a, n_threads);
    }
    layout_plan(kv, a, n_batch);
}

/* ----------------------------------------------------------------------------- bits of channels */

/* Reverse water-filling: gives one bit at a time to the quad of channels with the largest loss;
   a bit divides the loss by 4. Sorts channels by importance, so channels of equal bits are
   adjacent. importance: [E]; sum: of the quads' bits; channel: [E] gets the order. */
static void share_bits(uint32_t dim, const float *importance, uint32_t sum,
                       uint16_t quads[TFT_BITS_COUNT], uint16_t *channel)
{
    static const enum tft_bits name[] = {0, TFT_BITS_1, TFT_BITS_2, TFT_BITS_3, TFT_BITS_4};
    uint32_t n = dim / TFT_QUAD, left = sum - n;
    uint8_t bits[TFT_CODED_DIM / TFT_QUAD];
    double loss[TFT_CODED_DIM / TFT_QUAD];
    for (uint32_t d = 0; d < dim; d++) { /* sorts by insertion */
        uint32_t i = d;
        for (; i && importance[channel[i - 1]] > importance[d]; i--)
            channel[i] = channel[i - 1];
        channel[i] = (uint16_t)d;
    }
    for (uint32_t i = 0; i < n; i++) {
        bits[i] = 1;
        loss[i] = 0;
        for (uint32_t j = 0; j < TFT_QUAD; j++)
            loss[i] += (double)importance[channel[i * TFT_QUAD + j]];
    }
    for (; left; left--) {
        uint32_t most = n - 1;
        for (uint32_t i = n; i-- > 0;)
            if (bits[i] < 4 && (bits[most] == 4 || loss[i] > loss[most]))
                most = i;
        bits[most]++;
        loss[most] /= 4;
    }
    for (uint32_t i = 0; i < n; i++)
        quads[name[bits[i]]]++;
}

/* Distributes the bits of head h of a layer, or reads the order of its channels. at: the head's
   first number in the shape's arrays */
static void open_head(struct tft_kv_layer *y, const struct tft_kv_shape *shape, uint32_t h,
                      uint32_t dim, size_t at)
{
    uint16_t *channel = y->channel ? y->channel + (size_t)h * dim : NULL;
    memset(y->quads[h], 0, sizeof y->quads[h]);
    if (y->mixed)
        share_bits(dim, shape->key_importance + at, y->mixed, y->quads[h], channel);
    else if (y->k_bits != TFT_KV_BITS_F16)
        y->quads[h][y->k_bits] = (uint16_t)(dim / TFT_QUAD);
    for (uint32_t d = 0; !y->mixed && channel && d < dim; d++)
        channel[d] = (uint16_t)shape->key_order[at + d];
}

/* FISHER heads have no exact tokens yet. */
static void open_exact(const struct tft_kv *kv)
{
    for (uint32_t l = 0; l < kv->n_host; l++)
        for (uint32_t h = 0; !tft_kv_has_ring(kv, l) && h < tft_kv_heads(kv, l).n; h++)
            memset(tft_fisher_exact(kv, &kv->layer[l].fisher[TFT_KV_K][h]), 0,
                   tft_fisher_exact_bytes(tft_kv_heads(kv, l).dim));
}

void tft_kv_open(struct tft_kv *kv, const struct tft_kv_shape *shape)
{
    bool calibrated = kv->policy.clip == TFT_KV_CALIBRATED;
    size_t number = 0, group = 0; /* the layer's first ones in the shape's arrays */
    if (!tft_kv_quantizes(&kv->policy))
        return;
    if (tft_kv_is_fisher(&kv->policy)) {
        tft_turns_open(&kv->turns);
        open_exact(kv);
    }
    for (int i = 0; i < TFT_KV_SIDES; i++)
        for (uint32_t p = 0; kv->slot_owner[i] && p < kv->n_prefix; p++)
            kv->slot_owner[i][p] = p;
    for (uint32_t l = 0; l < kv->n_layer; l++) {
        struct tft_kv_heads own = heads_of(shape, l);
        struct tft_kv_layer *y = &kv->layer[l];
        bool coded = !tft_kv_has_ring(kv, l);
        for (int side = 0; coded && calibrated && side < 2; side++)
            y->clip[side] = shape->clip[side] + group;
        for (uint32_t h = 0; coded && h < own.n; h++)
            open_head(y, shape, h, own.dim, number + (size_t)h * own.dim);
        number += (size_t)own.n * own.dim;
        group += (size_t)own.n * tft_kv_groups(kv, own.dim);
    }
}
