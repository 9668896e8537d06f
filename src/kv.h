/*
 * The KV cache of a session: per layer and KV head, keys in panels of 16 positions ([E, 16], see kernels.h), values in rows of E.
 * Position p of a sequence is slot p.
 */
#ifndef TFT_KV_H
#define TFT_KV_H

#include "model.h"

struct tft_kv {
    enum tft_num num;  /* F16 or F32 */
    uint32_t capacity; /* positions, a multiple of 16 */
    uint32_t n_head_kv, head_dim;
    char *k; /* [n_layer, G, capacity / 16, E, 16] */
    char *v; /* [n_layer, G, capacity, E] */
};

/* Takes the cache for `capacity` positions (rounded up to a panel) from the arena. */
void tft_kv_layout(struct tft_kv *kv, struct tft_arena *a, const struct tft_model *m, uint32_t capacity, enum tft_num num);

/* The keys of a layer and head from position `from` on, a multiple of 16; the values, from any position. */
void *tft_kv_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from);
void *tft_kv_values(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from);

/* Stores a head's key and value [E] at `pos`. A panel's first position clears the panel, so that no kernel ever reads
   memory that was not written. */
void tft_kv_put(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer, uint32_t head, uint32_t pos,
                const float *k, const float *v);

#endif
