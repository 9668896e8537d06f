/* Slots of keys and values as floats; int8.c has slots of bytes. */
#include "kv.h"

#include <string.h>

#include "simd/half.h"

/* The byte offset of slot `from`: in kv->v, or in kv->k if the slot begins a panel. A head has E
   numbers for each slot, then the scales and sums of bytes. E and the number of heads are the
   layer's. */
static size_t offset(const struct tft_kv *kv, enum tft_kv_which which, uint32_t layer,
                     uint32_t head, uint32_t from)
{
    bool floats = !tft_kv_in_bytes(kv, layer);
    uint32_t dim = tft_kv_heads(kv, layer).dim;
    uint32_t slots = kv->ring ? kv->ring[layer].slots[which] : kv->capacity[which];
    size_t each = tft_kv_slots_bytes(&kv->policy, floats, dim, which, slots),
           number = tft_kv_number_bytes(&kv->policy, floats, dim),
           before = ((size_t)layer * kv->n_head_kv + head) * each;
    if (kv->ring) {
        before = kv->ring[layer].at[which] + head * each;
        from %= slots;
    }
    return before + from * number;
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
    if (tft_kv_in_bytes(kv, layer)) {
        tft_kv_store_int8(kv, kern, layer, head, TFT_KV_V, slot, v);
        return;
    }
    kern->narrow[kv->num](tft_kv_values(kv, layer, head, slot), v, tft_kv_heads(kv, layer).dim);
}

void tft_kv_store_key(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                      uint32_t head, uint32_t slot, const float *k)
{
    if (tft_kv_in_bytes(kv, layer)) {
        tft_kv_store_int8(kv, kern, layer, head, TFT_KV_K, slot, k);
        return;
    }
    uint32_t column = slot % TFT_KEY_PANEL, dim = tft_kv_heads(kv, layer).dim;
    void *panel = tft_kv_keys(kv, layer, head, slot - column);
    if (column == 0)
        memset(panel, 0, (size_t)dim * TFT_KEY_PANEL * tft_num_bytes(kv->num));
    for (uint32_t d = 0; d < dim; d++)
        if (kv->num == TFT_NUM_F16)
            ((uint16_t *)panel)[d * TFT_KEY_PANEL + column] = tft_f32_to_f16(k[d]);
        else
            ((float *)panel)[d * TFT_KEY_PANEL + column] = k[d];
}

/* The f16 numbers of a slot's key, or value, *step apart. */
static uint16_t *row(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                     enum tft_kv_which which, uint32_t slot, size_t *step)
{
    uint32_t column = slot % TFT_KEY_PANEL;
    *step = which == TFT_KV_K ? TFT_KEY_PANEL : 1;
    if (which == TFT_KV_K)
        return (uint16_t *)tft_kv_keys(kv, layer, head, slot - column) + column;
    return tft_kv_values(kv, layer, head, slot);
}

void tft_kv_read(const struct tft_kv *kv, uint32_t layer, uint32_t head, enum tft_kv_which which,
                 uint32_t slot, float *x)
{
    size_t dim = tft_kv_heads(kv, layer).dim, step;
    if (tft_kv_in_bytes(kv, layer)) {
        tft_kv_read_int8(kv, layer, head, which, slot, x);
        return;
    }
    const uint16_t *from = row(kv, layer, head, which, slot, &step);
    for (size_t d = 0; d < dim; d++)
        x[d] = tft_f16_to_f32(from[d * step]);
}

/* tft_kv_take_int8 and tft_kv_give_int8 of f16 */
static void take(const struct tft_kv *kv, uint32_t layer, uint32_t head, enum tft_kv_which which,
                 uint32_t slot, char *to)
{
    size_t dim = tft_kv_heads(kv, layer).dim, step;
    const uint16_t *from = row(kv, layer, head, which, slot, &step);
    for (size_t d = 0; d < dim; d++)
        memcpy(to + d * sizeof *from, from + d * step, sizeof *from);
}

static void give(const struct tft_kv *kv, uint32_t layer, uint32_t head, enum tft_kv_which which,
                 uint32_t slot, const char *from)
{
    size_t dim = tft_kv_heads(kv, layer).dim, step;
    uint16_t *to = row(kv, layer, head, which, slot, &step);
    for (size_t d = 0; d < dim; d++)
        memcpy(to + d * step, from + d * sizeof *to, sizeof *to);
}

void tft_kv_move(const struct tft_kv *kv, uint32_t layer, uint32_t head, enum tft_kv_which which,
                 uint32_t to, const uint32_t *slot, uint32_t n, char *rows)
{
    bool bytes = tft_kv_in_bytes(kv, layer);
    size_t size = tft_kv_row_bytes(kv, tft_kv_heads(kv, layer).dim);
    for (uint32_t i = 0; i < n; i++)
        (bytes ? tft_kv_take_int8 : take)(kv, layer, head, which, slot[i], rows + i * size);
    for (uint32_t i = 0; i < n; i++)
        (bytes ? tft_kv_give_int8 : give)(kv, layer, head, which, to + i, rows + i * size);
}

void tft_kv_drop_slots(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from,
                       uint32_t n, uint32_t used)
{
    for (uint32_t t = from; tft_kv_in_bytes(kv, layer) && t + n < used; t++)
        tft_kv_move_int8(kv, layer, head, t, t + n);
    if (tft_kv_in_bytes(kv, layer))
        return;
    size_t dim = tft_kv_heads(kv, layer).dim, size = tft_num_bytes(kv->num), row = dim * size,
           panel = TFT_KEY_PANEL * row;
    uint32_t column = from % TFT_KEY_PANEL, whole = tft_kv_panels(from), end = tft_kv_panels(used);
    memmove(tft_kv_values(kv, layer, head, from), tft_kv_values(kv, layer, head, from + n),
            (used - from - n) * row);
    char *k = tft_kv_keys(kv, layer, head, 0);
    for (size_t d = 0; column && d < dim; d++) { /* keep the earlier columns */
        char *to = k + (whole - TFT_KEY_PANEL) * row + (d * TFT_KEY_PANEL + column) * size;
        memcpy(to, to + n / TFT_KEY_PANEL * panel, (TFT_KEY_PANEL - column) * size);
    }
    if (end > whole + n)
        memmove(k + whole * row, k + (whole + n) * row, (end - whole - n) * row);
}

/* Copies a token of a head from one slot to another. */
static void move_token(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t to,
                       uint32_t from)
{
    size_t size = tft_num_bytes(kv->num), step = TFT_KEY_PANEL * size,
           dim = tft_kv_heads(kv, layer).dim;
    uint32_t new_column = to % TFT_KEY_PANEL, column = from % TFT_KEY_PANEL;
    char *new_key = (char *)tft_kv_keys(kv, layer, head, to - new_column) + new_column * size,
         *key = (char *)tft_kv_keys(kv, layer, head, from - column) + column * size;
    for (size_t d = 0; d < dim; d++)
        memcpy(new_key + d * step, key + d * step, size);
    memcpy(tft_kv_values(kv, layer, head, to), tft_kv_values(kv, layer, head, from),
           dim * size);
}

/* Moves tokens in the order of their positions. Each token moves to an earlier place in the ring,
   and no later token still needs that place. */
void tft_kv_drop_from_ring(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                           const uint32_t *dropped, uint32_t n)
{
    uint32_t used = kv->n_prefix + kv->held, end = tft_kv_panels(used), gone = 0,
             slots = kv->ring[layer].slots[TFT_KV_K], oldest = end > slots ? end - slots : 0;
    for (uint32_t t = kv->n_prefix + kv->policy.sinks; t < used; t++) {
        if (gone < n && tft_kv_drops(kv, dropped, gone, t))
            gone++;
        else if (gone && t - gone >= oldest)
            move_token(kv, layer, head, t - gone, t);
    }
}
