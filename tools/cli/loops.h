/*
 * Finds loops in an answer: the same span of 8 to 256 tokens four times over, at its end. A model
 * that has begun a loop rarely leaves it. Rules of dashes, indents and rows of zeros are no loops:
 * a span of fewer than 8 tokens counts once it fills 128 tokens.
 */
#ifndef LOOPS_H
#define LOOPS_H

#include <stdbool.h>
#include <stdint.h>

enum { LOOPS_LEAST = 8, LOOPS_MOST = 256, LOOPS_TIMES = 4, LOOPS_FILL = 128 };

/* Starts from all zero. */
struct loops {
    uint64_t n;                    /* tokens so far */
    int32_t last[LOOPS_MOST];      /* the newest tokens, number i at i % LOOPS_MOST */
    uint32_t same[LOOPS_MOST + 1]; /* [span] how many of the newest tokens in a row are the same as
                                      `span` tokens before */
};

/* Adds a token to the answer. Returns whether the answer ends in a loop. Takes 256 comparisons. */
bool loops_take(struct loops *l, int32_t id);

#endif
