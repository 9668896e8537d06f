/* Blocks of codes: the addresses of their records, and their form for kernels. */
#include "fisher.h"

#include <math.h>
#include <string.h>

static const struct tft_fisher_head *fisher_of(const struct tft_kv_layer *y, uint32_t head,
                                               enum tft_kv_which which)
{
    return y->fisher[which] ? &y->fisher[which][head] : NULL;
}

size_t tft_kv_record_bytes(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                           enum tft_kv_which which)
{
    const struct tft_kv_layer *y = &kv->layer[layer];
    const struct tft_fisher_head *h = fisher_of(y, head, which);
    return h ? h->codes : which == TFT_KV_K ? y->k_bytes : y->v_bytes;
}

char *tft_kv_key_record(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b)
{
    const struct tft_kv_layer *y = &kv->layer[layer];
    const struct tft_fisher_head *h = fisher_of(y, head, TFT_KV_K);
    if (h)
        return tft_fisher_block(kv, h, b).codes;
    return kv->codes + y->k_at + ((size_t)head * kv->n_blocks + b) * y->k_bytes;
}

char *tft_kv_value_record(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b)
{
    const struct tft_kv_layer *y = &kv->layer[layer];
    const struct tft_fisher_head *h = fisher_of(y, head, TFT_KV_V);
    if (h)
        return tft_fisher_block(kv, h, b).codes;
    return kv->codes + y->v_at + ((size_t)head * kv->n_blocks + b) * y->v_bytes;
}

const uint16_t *tft_kv_f16_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                                   uint32_t b)
{
    return (const uint16_t *)tft_kv_key_record(kv, layer, head, b);
}

const uint16_t *tft_kv_f16_values(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                                     uint32_t b)
{
    return (const uint16_t *)tft_kv_value_record(kv, layer, head, b);
}

/* A record of a head of `dim` channels. */
static struct tft_coded view(const struct tft_kv *kv, const struct tft_kernels *kern,
                             const struct tft_kv_side *side, const char *codes, size_t code_bytes,
                             uint32_t dim, float *room)
{
    size_t n = tft_kv_scales(kv, side, dim);
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
        .dim = dim,
        .group = side->axis == TFT_KV_TOKEN ? kv->policy.group : 0,
        .scale = room,
        .mid = room + n,
    };
}

struct tft_coded tft_kv_key_codes(const struct tft_kv *kv, const struct tft_kernels *kern,
                                uint32_t layer, uint32_t head, uint32_t b, float *room)
{
    const struct tft_kv_layer *y = &kv->layer[layer];
    struct tft_coded c = view(kv, kern, &kv->policy.k, tft_kv_key_record(kv, layer, head, b),
                              y->k_codes, tft_kv_heads(kv, layer).dim, room);
    memcpy(c.quads, y->quads[head], sizeof c.quads);
    return c;
}

struct tft_coded tft_kv_value_codes(const struct tft_kv *kv, const struct tft_kernels *kern,
                                  uint32_t layer, uint32_t head, uint32_t b, float *room)
{
    const struct tft_kv_layer *y = &kv->layer[layer];
    struct tft_coded c = view(kv, kern, &kv->policy.v, tft_kv_value_record(kv, layer, head, b),
                              y->v_codes, tft_kv_heads(kv, layer).dim, room);
    c.quads[y->v_bits] = (uint16_t)(kv->block / TFT_QUAD);
    return c;
}

static void drop_gains(const struct tft_kv *kv, const struct tft_fisher_head *h, uint32_t used,
                       uint32_t n)
{
    memmove(tft_fisher_block(kv, h, 0).gains, tft_fisher_block(kv, h, n).gains,
            (size_t)(used - n) * TFT_FISHER_GAIN_BYTES);
}

void tft_kv_drop_blocks(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t n)
{
    memmove(tft_kv_key_record(kv, layer, head, 0), tft_kv_key_record(kv, layer, head, n),
            (kv->at[TFT_KV_K].blocks - n) * tft_kv_record_bytes(kv, layer, head, TFT_KV_K));
    memmove(tft_kv_value_record(kv, layer, head, 0), tft_kv_value_record(kv, layer, head, n),
            (kv->at[TFT_KV_V].blocks - n) * tft_kv_record_bytes(kv, layer, head, TFT_KV_V));
    for (enum tft_kv_which i = 0; tft_kv_is_fisher(&kv->policy) && i < TFT_KV_SIDES; i++)
        drop_gains(kv, &kv->layer[layer].fisher[i][head], kv->at[i].blocks, n);
    if (tft_kv_is_fisher(&kv->policy))
        tft_fisher_drop_exact(kv, layer, head, n);
}
