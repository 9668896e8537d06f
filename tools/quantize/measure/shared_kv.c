#include "tools/quantize/measure/shared_kv.h"

#include <string.h>

#include "tools/quantize/array.h"

static bool borrows(const struct tft_layer *b)
{
    return b->mixer == TFT_MIX_ATTENTION && !b->k.w.rows;
}

static const struct shared_kv_layer *find(const struct shared_kv *k, const struct tft_layer *b)
{
    for (uint32_t i = 0; i < k->n; i++)
        if (b->mixer == TFT_MIX_ATTENTION && k->of[i].layer == b->kv_layer)
            return &k->of[i];
    return NULL;
}

static size_t slot_bytes(const struct tft_kv *kv, uint32_t layer, enum tft_kv_which which)
{
    struct tft_kv_heads heads = tft_kv_heads(kv, layer);
    size_t slots = kv->ring ? kv->ring[layer].slots[which] : kv->capacity[which];
    return slots * heads.n * heads.dim * tft_num_bytes(kv->num);
}

bool shared_kv_open(struct shared_kv *k, const struct tft_model *m, const struct tft_kv *kv,
                    size_t n_windows)
{
    *k = (struct shared_kv){0};
    for (uint32_t l = 0; l < m->n_layer && k->n < SHARED_KV_MOST; l++) {
        const struct tft_layer *b = &m->layer[l];
        if (!borrows(b) || find(k, b))
            continue;
        struct shared_kv_layer *of = &k->of[k->n++];
        of->layer = b->kv_layer;
        for (int i = 0; i < TFT_KV_SIDES; i++)
            of->bytes[i] = slot_bytes(kv, b->kv_layer, (enum tft_kv_which)i);
        of->rows = array_alloc(1, n_windows, of->bytes[TFT_KV_K] + of->bytes[TFT_KV_V], 1);
        if (!of->rows)
            return false;
    }
    return true;
}

void shared_kv_close(struct shared_kv *k)
{
    for (uint32_t i = 0; i < k->n; i++)
        free(k->of[i].rows);
    *k = (struct shared_kv){0};
}

static char *rows_of(const struct shared_kv_layer *of, size_t window)
{
    return of->rows + window * (of->bytes[TFT_KV_K] + of->bytes[TFT_KV_V]);
}

void shared_kv_keep(const struct shared_kv *k, const struct tft_kv *kv, const struct tft_layer *b,
                    size_t window)
{
    const struct shared_kv_layer *of = find(k, b);
    if (!of || borrows(b))
        return;
    char *to = rows_of(of, window);
    memcpy(to, tft_kv_keys(kv, of->layer, 0, 0), of->bytes[TFT_KV_K]);
    memcpy(to + of->bytes[TFT_KV_K], tft_kv_values(kv, of->layer, 0, 0), of->bytes[TFT_KV_V]);
}

void shared_kv_restore(const struct shared_kv *k, const struct tft_kv *kv,
                       const struct tft_layer *b, size_t window)
{
    const struct shared_kv_layer *of = find(k, b);
    if (!of || !borrows(b))
        return;
    const char *from = rows_of(of, window);
    memcpy(tft_kv_keys(kv, of->layer, 0, 0), from, of->bytes[TFT_KV_K]);
    memcpy(tft_kv_values(kv, of->layer, 0, 0), from + of->bytes[TFT_KV_K], of->bytes[TFT_KV_V]);
}
