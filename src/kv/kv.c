#include "kv.h"

#include <string.h>

#include "simd/half.h"

void tft_kv_layout(struct tft_kv *kv, struct tft_arena *a, const struct tft_model *m,
                   uint32_t capacity, const struct tft_kv_policy *policy)
{
    uint32_t slots = capacity;
    if (policy->coded && tft_retain_slots(policy) < slots)
        slots = tft_retain_slots(policy);
    *kv = (struct tft_kv){
        .policy = *policy,
        .num = policy->num,
        .capacity = (m->n_prefix + slots + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL * TFT_KEY_PANEL,
        .n_head_kv = m->n_head_kv,
        .head_dim = m->head_dim,
        .n_prefix = m->n_prefix,
    };
    size_t rows = 0;
    if (!tft_mul((size_t)m->n_host * m->n_head_kv, kv->capacity, &rows))
        a->failed = true;
    kv->k = tft_arena_take(a, rows, kv->head_dim * tft_num_bytes(kv->num));
    kv->v = tft_arena_take(a, rows, kv->head_dim * tft_num_bytes(kv->num));
}

/* Both halves of the cache have E numbers per slot of a head, whole panels at a time. */
static size_t offset(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from)
{
    size_t row = ((size_t)layer * kv->n_head_kv + head) * kv->capacity + from;
    return row * kv->head_dim * tft_num_bytes(kv->num);
}

void *tft_kv_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from)
{
    return kv->k + offset(kv, layer, head, from);
}

void *tft_kv_values(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from)
{
    return kv->v + offset(kv, layer, head, from);
}

void tft_kv_put(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                uint32_t head, uint32_t slot, const float *k, const float *v)
{
    kern->narrow[kv->num](tft_kv_values(kv, layer, head, slot), v, kv->head_dim);

    uint32_t column = slot % TFT_KEY_PANEL, e = kv->head_dim;
    void *panel = tft_kv_keys(kv, layer, head, slot - column);
    if (column == 0)
        memset(panel, 0, (size_t)e * TFT_KEY_PANEL * tft_num_bytes(kv->num));
    for (uint32_t d = 0; d < e; d++)
        if (kv->num == TFT_NUM_F16)
            ((uint16_t *)panel)[d * TFT_KEY_PANEL + column] = tft_f32_to_f16(k[d]);
        else
            ((float *)panel)[d * TFT_KEY_PANEL + column] = k[d];
}

void tft_kv_drop(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from, uint32_t n,
                 uint32_t used)
{
    size_t size = tft_num_bytes(kv->num), row = kv->head_dim * size, panel = TFT_KEY_PANEL * row;
    uint32_t whole = (from + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL, column = from % TFT_KEY_PANEL;
    uint32_t panels = (used + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL, gone = n / TFT_KEY_PANEL;
    char *v = tft_kv_values(kv, layer, head, from), *k = tft_kv_keys(kv, layer, head, 0);
    memmove(v, v + n * row, (used - from - n) * row);
    if (column) /* of this panel the first columns stay */
        for (uint32_t d = 0; d < kv->head_dim; d++) {
            char *to = k + (whole - 1) * panel + (d * TFT_KEY_PANEL + column) * size;
            memcpy(to, to + gone * panel, (TFT_KEY_PANEL - column) * size);
        }
    if (panels > whole + gone)
        memmove(k + whole * panel, k + (whole + gone) * panel, (panels - whole - gone) * panel);
}
