/*
 * Where each token of a sequence is: which slot, or which block of codes.
 *
 * Behind the model's prefix a session has slots, which hold floats, and blocks, which hold codes.
 * A new token goes into a slot. When the policy's slots are full, some tokens are evicted; as soon
 * as the evicted ones fill a block they are quantized together. The place of a token depends on its
 * position and on how many tokens follow it, never on how the tokens were fed. Keys and values have
 * each a state of their own: with the knobs `kr` and `vr` they follow different rules.
 *
 * The slots behind the prefix, in this order, oldest token first in each part:
 *
 *      sinks     the first tokens of the sequence; they are never evicted
 *      named     tokens that the session's filter named; they stayed when their turn came
 *      waiting   evicted tokens that wait until they fill a block
 *      kept      all others
 */
#ifndef TFT_RETAIN_H
#define TFT_RETAIN_H

#include "policy.h"

struct tft_retained {
    uint32_t sinks, named, waiting, kept; /* slots in use */
    uint32_t blocks;                      /* full blocks */
    const bool *is_named; /* [tokens held] the filter's answers, at most policy.keep of them true;
                             NULL: no filter */
};

/* The most slots that are ever in use, of a sequence of any length; and the most after an
   eviction. UINT32_MAX where the policy evicts nothing. */
uint32_t tft_retain_slots(const struct tft_kv_policy *p, enum tft_kv_which which);
uint32_t tft_retain_stay(const struct tft_kv_policy *p, enum tft_kv_which which);

/* The most evictions that a pass of n tokens can cause. */
uint32_t tft_retain_evictions(const struct tft_kv_policy *p, enum tft_kv_which which, uint32_t n);

/* How many tokens can be added before an eviction; 0: it is due now. */
uint32_t tft_retain_room(const struct tft_kv_policy *p, enum tft_kv_which which,
                         const struct tft_retained *r);

/* Whether `held` tokens can be in these places, as far as numbers tell. */
bool tft_retain_holds(const struct tft_kv_policy *p, enum tft_kv_which which,
                      const struct tft_retained *r, uint32_t held);

/* Adds n <= room tokens. */
void tft_retain_add(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t n);

/* Removes the last n tokens, none of which is in a block. */
void tft_retain_remove(struct tft_retained *r, uint32_t n);

/*
 * Evicts what is due. With n = r->waiting + r->kept before the call:
 *
 *      order: [n]     slots, counted from behind the named ones, in their new order: first the
 *                     ones that leave for blocks, then those that stay. NULL: only count.
 *      other: [2 n]   workspace; NULL with order
 *
 * Returns how many leading entries of `order` leave, a multiple of the block; they become blocks
 * r->blocks - leave / block .. r->blocks - 1.
 */
uint32_t tft_retain_evict(const struct tft_kv_policy *p, enum tft_kv_which which,
                          struct tft_retained *r, uint32_t *order, uint32_t *other);

#endif
