/*
 * The place of each token of a sequence: a slot, or a block of codes.
 *
 * After the model's prefix a session has slots of floats and blocks of codes. A new token goes into
 * a slot. When the policy's slots are full, the session quantizes some tokens: they wait in their
 * slots until they fill a block, and are then quantized together. The place of a token depends only
 * on its position and on the number of tokens after it, not on the split into passes. Keys and
 * values have separate states: the knobs `kr` and `vr` may give them different rules.
 *
 * The slots after the prefix, in this order, oldest token first in each part:
 *
 *      sinks     the first tokens of the sequence, never quantized
 *      named     tokens that the session's filter named, and so were not quantized
 *      waiting   due tokens, until they fill a block
 *      kept      all others
 */
#ifndef TFT_RETAIN_H
#define TFT_RETAIN_H

#include "policy.h"

struct tft_retained {
    uint32_t sinks, named, waiting, kept; /* slots in use */
    uint32_t blocks;                      /* full blocks */
    const bool *is_named; /* [tokens held] the filter's answers, at most policy.keep true; NULL: no
                             filter */
};

/* The most slots ever in use, for a sequence of any length; and the most after a quantization.
   UINT32_MAX if the policy quantizes nothing. */
uint32_t tft_retain_slots(const struct tft_kv_policy *p, enum tft_kv_which which);
uint32_t tft_retain_stay(const struct tft_kv_policy *p, enum tft_kv_which which);

/* The most quantizations that a pass of n tokens can cause. */
uint32_t tft_retain_quantizations(const struct tft_kv_policy *p, enum tft_kv_which which,
                                  uint32_t n);

/* The number of tokens that fit before a quantization; 0: a quantization is due. */
uint32_t tft_retain_room(const struct tft_kv_policy *p, enum tft_kv_which which,
                         const struct tft_retained *r);

/* Whether `held` tokens can be in these places, by their counts. */
bool tft_retain_holds(const struct tft_kv_policy *p, enum tft_kv_which which,
                      const struct tft_retained *r, uint32_t held);

/* Adds n <= room tokens. */
void tft_retain_add(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t n);

/* Removes the last n tokens, which must be in slots. */
void tft_retain_remove(struct tft_retained *r, uint32_t n);

/*
 * Carries out the quantization that is due. With n = r->waiting + r->kept before the call:
 *
 *      order: [n]     slots, counted from the end of the named slots, in their new order: first the
 *                     slots that leave for blocks, then the staying slots. NULL: only count.
 *      other: [2 n]   workspace; NULL with order
 *
 * Returns the number `leave` of leading entries of `order` that leave, a multiple of the block. The
 * entries become blocks r->blocks - leave / block .. r->blocks - 1.
 */
uint32_t tft_retain_quantize(const struct tft_kv_policy *p, enum tft_kv_which which,
                          struct tft_retained *r, uint32_t *order, uint32_t *other);

#endif
