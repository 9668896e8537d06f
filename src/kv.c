#include "kv.h"

#include <string.h>

#include "half.h"

void tft_kv_layout(struct tft_kv *kv, struct tft_arena *a, const struct tft_model *m, uint32_t capacity, enum tft_num num)
{
    *kv = (struct tft_kv){
        .num = num,
        .capacity = (capacity + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL * TFT_KEY_PANEL,
        .n_head_kv = m->n_head_kv,
        .head_dim = m->head_dim,
    };
    size_t rows = 0;
    if (!tft_mul((size_t)m->n_layer * m->n_head_kv, kv->capacity, &rows))
        a->failed = true;
    kv->k = tft_arena_take(a, rows, kv->head_dim * tft_num_bytes(num));
    kv->v = tft_arena_take(a, rows, kv->head_dim * tft_num_bytes(num));
}

/* Both halves of the cache have E numbers per position of a head, whole panels at a time. */
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

void tft_kv_put(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer, uint32_t head, uint32_t pos,
                const float *k, const float *v)
{
    kern->narrow[kv->num](tft_kv_values(kv, layer, head, pos), v, kv->head_dim);

    uint32_t column = pos % TFT_KEY_PANEL, e = kv->head_dim;
    void *panel = tft_kv_keys(kv, layer, head, pos - column);
    if (column == 0)
        memset(panel, 0, (size_t)e * TFT_KEY_PANEL * tft_num_bytes(kv->num));
    for (uint32_t d = 0; d < e; d++)
        if (kv->num == TFT_NUM_F16)
            ((uint16_t *)panel)[d * TFT_KEY_PANEL + column] = tft_f32_to_f16(k[d]);
        else
            ((float *)panel)[d * TFT_KEY_PANEL + column] = k[d];
}
