#include "coded.h"

#include <math.h>
#include <string.h>

#include "run/session.h"

/* -------------------------------------------------------------------------------------- records */

size_t tft_coded_scales(const struct tft_kv *kv, const struct tft_kv_side *side)
{
    return 2 * tft_coded_n_scales(kv, side);
}

static size_t key_code_bytes(const struct tft_kv *kv, unsigned bits, uint32_t mixed)
{
    size_t panels = kv->block / TFT_PANEL;
    return panels * (mixed ? mixed * tft_codes_bytes(TFT_BITS_1, 1)
                           : tft_codes_bytes((enum tft_bits)bits, kv->head_dim / TFT_QUAD));
}

static size_t value_code_bytes(const struct tft_kv *kv, unsigned bits)
{
    return tft_coded_width(kv) / TFT_PANEL *
           tft_codes_bytes((enum tft_bits)bits, kv->block / TFT_QUAD);
}

/* A record of `codes` bytes of codes. Multiples of 8, so that the halves in it are aligned. */
static size_t record(const struct tft_kv *kv, const struct tft_kv_side *side, unsigned bits,
                     size_t codes)
{
    if (bits == TFT_KV_BITS_F16)
        return (size_t)kv->block * kv->head_dim * sizeof(uint16_t);
    size_t scales = kv->policy.f8 ? 2 + 2 * tft_coded_n_scales(kv, side)
                                  : 4 * tft_coded_n_scales(kv, side);
    return codes + (scales + 7) / 8 * 8;
}

static struct tft_coded_layer layer_of(const struct tft_kv *kv, uint32_t l)
{
    const struct tft_kv_side *k = &kv->policy.k, *v = &kv->policy.v;
    struct tft_coded_layer y = {.k_bits = tft_kv_held(k, l), .v_bits = tft_kv_held(v, l)};
    if (y.k_bits != TFT_KV_BITS_F16) {
        y.mixed = k->axis == TFT_KV_MIXED
                      ? (uint32_t)lrintf(tft_kv_bits(k, l) * (float)(kv->head_dim / TFT_QUAD))
                      : 0;
        y.k_codes = key_code_bytes(kv, y.k_bits, y.mixed);
    }
    if (y.v_bits != TFT_KV_BITS_F16)
        y.v_codes = value_code_bytes(kv, y.v_bits);
    y.k_bytes = record(kv, k, y.k_bits, y.k_codes);
    y.v_bytes = record(kv, v, y.v_bits, y.v_codes);
    return y;
}

static void layout_layers(struct tft_kv *kv, struct tft_arena *a, const struct tft_model *m)
{
    struct tft_coded_layer *layers = tft_arena_take(a, m->n_layer, sizeof *layers);
    size_t used = 0, host = 0, heads = 0;
    if (!tft_mul(kv->n_blocks, kv->n_head_kv, &heads))
        a->failed = true;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        struct tft_coded_layer y = layer_of(kv, l);
        size_t all;
        y.quads = tft_arena_take(a, kv->n_head_kv, sizeof *y.quads);
        y.channel = (y.mixed || kv->policy.reorder) && y.k_bits != TFT_KV_BITS_F16
                        ? tft_arena_take(a, kv->n_head_kv, kv->head_dim)
                        : NULL;
        y.k_at = used;
        if (!tft_mul(heads, y.k_bytes + y.v_bytes, &all) || !tft_add(used, all, &used))
            a->failed = true;
        y.v_at = y.k_at + heads * y.k_bytes;
        host = l < m->n_host ? used : host;
        if (layers)
            layers[l] = y;
    }
    kv->layer = layers;
    kv->codes = tft_arena_take(a, host, 1);
}

static void layout_scratch(struct tft_kv *kv, struct tft_arena *a, int n_threads)
{
    struct tft_coded_scratch *scratch = tft_arena_take(a, (size_t)n_threads, sizeof *scratch);
    uint32_t span = TFT_CODED_SPAN / kv->block, slots = kv->capacity,
             stay = tft_retain_stay(&kv->policy);
    size_t width = tft_coded_width(kv), by_token = tft_coded_groups(kv) * (size_t)kv->block,
           scales = by_token > width ? by_token : width;
    for (int i = 0; i < n_threads; i++) {
        struct tft_coded_scratch w;
        w.scales[0] = tft_arena_take(a, tft_coded_scales(kv, &kv->policy.k), sizeof(float));
        w.scales[1] = tft_arena_take(a, span, tft_coded_scales(kv, &kv->policy.v) * sizeof(float));
        w.q = tft_arena_take(a, TFT_TILE, kv->head_dim * sizeof(float));
        w.x = tft_arena_take(a, kv->block, width * sizeof(float));
        w.code = tft_arena_take(a, kv->block, width);
        w.half = tft_arena_take(a, width, sizeof(float));
        w.scale = tft_arena_take(a, scales, sizeof(float));
        w.mid = tft_arena_take(a, scales, sizeof(float));
        /* round_old_values wants a block */
        w.order = tft_arena_take(a, slots > kv->block ? slots : kv->block, 3 * sizeof(uint32_t));
        w.rows = tft_arena_take(a, stay < slots ? stay : slots, kv->head_dim * sizeof(uint16_t));
        if (scratch)
            scratch[i] = w;
    }
    kv->scratch = scratch;
}

size_t tft_kv_block_bytes(const struct tft_model *m, const struct tft_kv_policy *policy)
{
    struct tft_kv kv = {.policy = *policy,
                        .n_head_kv = m->n_head_kv,
                        .head_dim = m->head_dim,
                        .block = tft_kv_block(policy)};
    size_t bytes = 0;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        struct tft_coded_layer y = layer_of(&kv, l);
        bytes += m->n_head_kv * (y.k_bytes + y.v_bytes);
    }
    return bytes;
}

size_t tft_kv_token_bytes(const struct tft_model *m, const struct tft_kv_policy *policy)
{
    size_t block = tft_kv_block(policy);
    return policy->coded
               ? (tft_kv_block_bytes(m, policy) + block - 1) / block
               : (size_t)2 * m->n_layer * m->n_head_kv * m->head_dim * tft_num_bytes(policy->num);
}

void tft_coded_layout(struct tft_kv *kv, struct tft_arena *a, const struct tft_model *m,
                      uint32_t capacity, int n_threads)
{
    kv->block = tft_kv_block(&kv->policy);
    kv->n_blocks = capacity / kv->block;
    layout_layers(kv, a, m);
    layout_scratch(kv, a, n_threads);
}

/* ----------------------------------------------------------------------------- bits of channels */

/* Reverse water-filling: a bit at a time to the quad of channels that loses most, which a bit takes
   to a quarter. The channels in the order of their importance, so that those of equal bits are side
   by side. importance: [E]; sum: of the quads' bits; channel: [E] */
static void share_bits(uint32_t dim, const float *importance, uint32_t sum,
                       uint16_t quads[TFT_BITS_COUNT], uint8_t *channel)
{
    uint32_t n = dim / TFT_QUAD, left = sum - n;
    uint8_t bits[64];
    double loss[64];
    for (uint32_t d = 0; d < dim; d++) { /* by insertion */
        uint32_t i = d;
        for (; i && importance[channel[i - 1]] > importance[d]; i--)
            channel[i] = channel[i - 1];
        channel[i] = (uint8_t)d;
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
    static const enum tft_bits name[] = {0, TFT_BITS_1, TFT_BITS_2, TFT_BITS_3, TFT_BITS_4};
    for (uint32_t i = 0; i < n; i++)
        quads[name[bits[i]]]++;
}

void tft_coded_open(struct tft_kv *kv, const struct tft_model *m)
{
    bool calibrated = kv->policy.clip == TFT_KV_CALIBRATED;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        struct tft_coded_layer *y = &kv->layer[l];
        for (int side = 0; calibrated && side < 2; side++)
            y->clip[side] = m->kv_clip[side] + (size_t)l * kv->n_head_kv * tft_coded_groups(kv);
        for (uint32_t h = 0; h < kv->n_head_kv; h++) {
            size_t head = ((size_t)l * kv->n_head_kv + h) * kv->head_dim;
            memset(y->quads[h], 0, sizeof y->quads[h]);
            if (y->mixed)
                share_bits(kv->head_dim, m->key_importance + head, y->mixed, y->quads[h],
                           y->channel + h * kv->head_dim);
            else if (y->k_bits != TFT_KV_BITS_F16)
                y->quads[h][y->k_bits] = (uint16_t)(kv->head_dim / TFT_QUAD);
            for (uint32_t d = 0; !y->mixed && y->channel && d < kv->head_dim; d++)
                y->channel[h * kv->head_dim + d] = (uint8_t)m->key_order[head + d];
        }
    }
}

/* -------------------------------------------------------------------------------------- reading */

char *tft_coded_key_record(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b)
{
    const struct tft_coded_layer *y = &kv->layer[layer];
    return kv->codes + y->k_at + ((size_t)head * kv->n_blocks + b) * y->k_bytes;
}

char *tft_coded_value_record(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b)
{
    const struct tft_coded_layer *y = &kv->layer[layer];
    return kv->codes + y->v_at + ((size_t)head * kv->n_blocks + b) * y->v_bytes;
}

const uint16_t *tft_coded_f16_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                                   uint32_t b)
{
    return (const uint16_t *)tft_coded_key_record(kv, layer, head, b);
}

const uint16_t *tft_coded_f16_values(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                                     uint32_t b)
{
    return (const uint16_t *)tft_coded_value_record(kv, layer, head, b);
}

static struct tft_coded view(const struct tft_kv *kv, const struct tft_kernels *kern,
                             const struct tft_kv_side *side, const char *codes, size_t code_bytes,
                             float *room)
{
    size_t n = tft_coded_n_scales(kv, side);
    const char *scales = codes + code_bytes;
    if (kv->policy.f8) {
        const uint8_t *f8 = (const uint8_t *)scales + 2;
        kern->widen_f8(room, f8, n, ldexpf(1, (int8_t)scales[0]));
        kern->widen_f8(room + n, f8 + n, n, ldexpf(1, (int8_t)scales[1]));
    } else {
        kern->widen[TFT_NUM_F16](room, scales, 2 * n);
    }
    return (struct tft_coded){
        .codes = (const uint8_t *)codes,
        .tokens = kv->block,
        .dim = kv->head_dim,
        .group = side->axis == TFT_KV_TOKEN ? kv->policy.group : 0,
        .scale = room,
        .mid = room + n,
    };
}

struct tft_coded tft_coded_keys(const struct tft_kv *kv, const struct tft_kernels *kern,
                                uint32_t layer, uint32_t head, uint32_t b, float *room)
{
    const struct tft_coded_layer *y = &kv->layer[layer];
    struct tft_coded c = view(kv, kern, &kv->policy.k, tft_coded_key_record(kv, layer, head, b),
                              y->k_codes, room);
    memcpy(c.quads, y->quads[head], sizeof c.quads);
    return c;
}

struct tft_coded tft_coded_values(const struct tft_kv *kv, const struct tft_kernels *kern,
                                  uint32_t layer, uint32_t head, uint32_t b, float *room)
{
    const struct tft_coded_layer *y = &kv->layer[layer];
    struct tft_coded c = view(kv, kern, &kv->policy.v, tft_coded_value_record(kv, layer, head, b),
                              y->v_codes, room);
    c.quads[y->v_bits] = (uint16_t)(kv->block / TFT_QUAD);
    return c;
}

void tft_coded_drop(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t n)
{
    const struct tft_coded_layer *y = &kv->layer[layer];
    size_t left = kv->at.blocks - n;
    memmove(tft_coded_key_record(kv, layer, head, 0), tft_coded_key_record(kv, layer, head, n),
            left * y->k_bytes);
    memmove(tft_coded_value_record(kv, layer, head, 0), tft_coded_value_record(kv, layer, head, n),
            left * y->v_bytes);
}
