/* Exact tokens of FISHER caches: fisher.h. */
#include "fisher.h"

#include <string.h>

#include "simd/half.h"

struct tft_fisher_exact *tft_fisher_exact(const struct tft_kv *kv, const struct tft_fisher_head *h)
{
    return (struct tft_fisher_exact *)(void *)(kv->codes + h->exact_at);
}

size_t tft_fisher_exact_bytes(uint32_t dim)
{
    return sizeof(struct tft_fisher_exact) +
           (size_t)TFT_FISHER_EXACT * TFT_KV_SIDES * dim * sizeof(uint16_t);
}

/* The exact tokens of a head. A saved session may claim more than there is room for. */
static struct tft_fisher_exact *sound(const struct tft_kv *kv, uint32_t layer, uint32_t head)
{
    struct tft_fisher_exact *e = tft_fisher_exact(kv, &kv->layer[layer].fisher[TFT_KV_K][head]);
    e->n = e->n < TFT_FISHER_EXACT ? e->n : TFT_FISHER_EXACT;
    return e;
}

/* The squared norm of a value. */
static float square_of(const float *v, uint32_t dim)
{
    float sum = 0;
    for (uint32_t d = 0; d < dim; d++)
        sum += v[d] * v[d];
    return sum;
}

float tft_fisher_least(const struct tft_fisher_head *values)
{
    const float gauss = 0.3352f; /* the step of 4 bits, in deviations: Max 1960, table II */
    float sum = 0;
    for (uint32_t p = values->pad; p < values->end; p++) {
        float deviation = values->fine[p] / gauss;
        sum += values->mean[p] * values->mean[p] + deviation * deviation;
    }
    return sum / 5;
}

void tft_fisher_keep_exact(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b,
                           const uint32_t *slot)
{
    struct tft_fisher_exact *e = sound(kv, layer, head);
    float least = tft_fisher_least(&kv->layer[layer].fisher[TFT_KV_V][head]);
    uint32_t dim = tft_kv_heads(kv, layer).dim, first = b * TFT_FISHER_BLOCK;
    float x[TFT_KV_SIDES][TFT_CODED_DIM];
    while (e->n && e->place[e->n - 1] >= first) /* of a text that was there before */
        e->n--;
    for (uint32_t t = 0; t < TFT_FISHER_BLOCK && e->n < TFT_FISHER_EXACT; t++) {
        uint16_t *to = e->number + (size_t)e->n * TFT_KV_SIDES * dim;
        tft_kv_read(kv, layer, head, TFT_KV_V, slot[t], x[TFT_KV_V]);
        if (!(square_of(x[TFT_KV_V], dim) < least))
            continue;
        tft_kv_read(kv, layer, head, TFT_KV_K, slot[t], x[TFT_KV_K]);
        for (uint32_t i = 0; i < TFT_KV_SIDES * dim; i++)
            to[i] = tft_f32_to_f16(x[i / dim][i % dim]);
        e->place[e->n++] = first + t;
    }
}

void tft_fisher_drop_exact(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t n)
{
    struct tft_fisher_exact *e = sound(kv, layer, head);
    uint32_t dim = tft_kv_heads(kv, layer).dim, gone = 0;
    while (gone < e->n && e->place[gone] < n * TFT_FISHER_BLOCK)
        gone++;
    e->n -= gone;
    for (uint32_t i = 0; i < e->n; i++)
        e->place[i] = e->place[i + gone] - n * TFT_FISHER_BLOCK;
    memmove(e->number, tft_fisher_exact_row(e, TFT_KV_K, gone, dim),
            (size_t)e->n * TFT_KV_SIDES * dim * sizeof *e->number);
}
