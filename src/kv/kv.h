/*
 * The KV cache of a session. Slots: per layer and KV head, keys in panels of 16 ([E, 16], see
 * kernels.h), values in rows of E. Position p of a sequence is slot p, unless the policy is a
 * quantized one: then slots have the tokens that are not in blocks of codes (retain.h, coded.h).
 */
#ifndef TFT_KV_H
#define TFT_KV_H

#include "kv_policy.h"
#include "model/model.h"
#include "retain.h"

struct tft_kv {
    struct tft_kv_policy policy;
    enum tft_num num;  /* F16 or F32 */
    uint32_t capacity; /* slots, a multiple of 16 */
    uint32_t n_head_kv, head_dim;
    char *k; /* [n_host, G, capacity / 16, E, 16] */
    char *v; /* [n_host, G, capacity, E] */

    /* where the policy has codes */
    uint32_t n_prefix;      /* the first slots */
    uint32_t block;         /* tokens of a block */
    uint32_t n_blocks;      /* room for them */
    struct tft_retained at; /* where the session's tokens are */
    uint32_t whole;         /* so many first tokens were there when blocks last took some: there is
                               no way back beyond that */
    struct tft_coded_layer *layer; /* [n_layer] */
    char *codes;
    struct tft_coded_scratch *scratch; /* [n_threads] */
};

/* Takes slots for `capacity` tokens and the prefix from the arena, or for those of them that have
   no codes. */
void tft_kv_layout(struct tft_kv *kv, struct tft_arena *a, const struct tft_model *m,
                   uint32_t capacity, const struct tft_kv_policy *policy);

/* The keys of a layer and head from slot `from` on, a multiple of 16; the values, from any slot. */
void *tft_kv_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from);
void *tft_kv_values(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from);

/* Takes out n slots from `from` on, n a multiple of 16; those behind them, up to `used`, close
   up. */
void tft_kv_drop(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from, uint32_t n,
                 uint32_t used);

/* Stores a head's key and value [E] in a slot. A panel's first position clears the panel, so that
   no kernel ever reads memory that was not written. */
void tft_kv_put(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                uint32_t head, uint32_t slot, const float *k, const float *v);

#endif
