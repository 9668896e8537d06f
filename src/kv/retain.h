/*
 * Which tokens of a sequence are where. Behind the prefix a session has slots, of floats, and
 * blocks, of codes. A token comes into a slot; when as many are there as the policy keeps, some are
 * given up, and as soon as those fill a block they are quantized together. Where a token is depends
 * on its position and on how many came after it, not on how they were fed.
 *
 * The slots behind the prefix, in this order: sinks, tokens that a filter has named and that so
 * were not given up when it was their turn, tokens given up that wait for their block to be full,
 * tokens kept, oldest first.
 */
#ifndef TFT_RETAIN_H
#define TFT_RETAIN_H

#include "kv_policy.h"

struct tft_retained {
    uint32_t sinks, named, waiting, kept; /* slots */
    uint32_t blocks;
    const bool *names; /* [tokens held] which of them the filter has named, policy.keep at most;
                          NULL: none */
};

/* The most slots that are ever in use, and the most that are after some have been given up. */
uint32_t tft_retain_slots(const struct tft_kv_policy *p);
uint32_t tft_retain_stay(const struct tft_kv_policy *p);

/* How many tokens can come into slots before some are given up: 0 if that is due. */
uint32_t tft_retain_room(const struct tft_kv_policy *p, const struct tft_retained *r);

/* n <= room tokens have come. */
void tft_retain_add(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t n);

/* Gives up what is due. order: [3 (waiting + kept)], or NULL: those slots, counted from behind the
   named ones, in the order that they are to have (in its first third; the others are workspace);
   the first ones, whole blocks of them, are returned as their number and leave for r->blocks - n /
   block .. r->blocks - 1, the next ones are named from now on. */
uint32_t tft_retain_evict(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t *order);

/* The next tokens of a sequence that all come to the same blocks: `from` up to, not with, `to`. */
struct tft_chunk {
    uint32_t from, to;
    bool evict;                 /* some are given up before they come, from here: */
    struct tft_retained before;
    uint32_t slot, blocks;      /* where the first of them goes, counted from behind the prefix;
                                   blocks that they see */
};

/* The next ones of those up to n, which then are in r. */
struct tft_chunk tft_retain_chunk(const struct tft_kv_policy *p, struct tft_retained *r,
                                  uint32_t from, uint32_t n);

/* The last n tokens, none of which is in a block, leave again. */
void tft_retain_remove(struct tft_retained *r, uint32_t n);

/* Tokens from .. n - 1 have come. *since: how many there were when some were last given up. */
void tft_retain_advance(const struct tft_kv_policy *p, struct tft_retained *r, uint32_t from,
                        uint32_t n, uint32_t *since);

#endif
