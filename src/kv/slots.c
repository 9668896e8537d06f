/* Slots: keys and values as floats. */
#include "kv.h"

#include <string.h>

#include "simd/half.h"

/* Byte of slot `from`, in k if it begins a panel, or in v: both have E numbers for each slot of a
   head. */
static size_t offset(const struct tft_kv *kv, enum tft_kv_which which, uint32_t layer,
                     uint32_t head, uint32_t from)
{
    size_t row = ((size_t)layer * kv->n_head_kv + head) * kv->capacity[which] + from;
    if (kv->ring) {
        const struct tft_kv_ring *r = &kv->ring[layer];
        row = r->row[which] + (size_t)head * r->slots[which] + from % r->slots[which];
    }
    return row * kv->head_dim * tft_num_bytes(kv->num);
}

void *tft_kv_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from)
{
    return kv->k + offset(kv, TFT_KV_K, layer, head, from);
}

void *tft_kv_values(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from)
{
    return kv->v + offset(kv, TFT_KV_V, layer, head, from);
}

void tft_kv_store_value(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                        uint32_t head, uint32_t slot, const float *v)
{
    kern->narrow[kv->num](tft_kv_values(kv, layer, head, slot), v, kv->head_dim);
}

void tft_kv_store_key(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t slot,
                      const float *k)
{
    uint32_t column = slot % TFT_KEY_PANEL, dim = kv->head_dim;
    void *panel = tft_kv_keys(kv, layer, head, slot - column);
    if (column == 0)
        memset(panel, 0, (size_t)dim * TFT_KEY_PANEL * tft_num_bytes(kv->num));
    for (uint32_t d = 0; d < dim; d++)
        if (kv->num == TFT_NUM_F16)
            ((uint16_t *)panel)[d * TFT_KEY_PANEL + column] = tft_f32_to_f16(k[d]);
        else
            ((float *)panel)[d * TFT_KEY_PANEL + column] = k[d];
}

void tft_kv_drop_slots(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from,
                       uint32_t n, uint32_t used)
{
    size_t size = tft_num_bytes(kv->num), row = kv->head_dim * size, panel = TFT_KEY_PANEL * row;
    uint32_t end = tft_kv_panels(used);
    if (kv->ring && end > kv->ring[layer].slots[TFT_KV_K] + from)
        from = end - kv->ring[layer].slots[TFT_KV_K]; /* the ring has none before */
    for (uint32_t to = from; to + n < used; to++)
        memcpy(tft_kv_values(kv, layer, head, to), tft_kv_values(kv, layer, head, to + n), row);
    for (uint32_t to = from - from % TFT_KEY_PANEL; to + n < used; to += TFT_KEY_PANEL) {
        uint32_t column = to < from ? from - to : 0; /* those before it stay */
        char *k = tft_kv_keys(kv, layer, head, to), *next = tft_kv_keys(kv, layer, head, to + n);
        for (uint32_t d = 0; column && d < kv->head_dim; d++) {
            size_t at = (d * TFT_KEY_PANEL + column) * size;
            memcpy(k + at, next + at, (TFT_KEY_PANEL - column) * size);
        }
        if (!column)
            memcpy(k, next, panel);
    }
}
