/* How many tokens of prompts, or of texts, a pass may have beside other models, whose requests may
   have to wait for it: those of PACE_MS, at the speed of the last passes. */
#ifndef SERVE_PACE_H
#define SERVE_PACE_H

#include <stddef.h>
#include <stdint.h>

enum {
    PACE_MS = 70,
    PACE_FIRST = 32, /* tokens, before the speed is known */
    PACE_LEAST = 8,
};

/* All zero at first. */
struct pace {
    uint64_t token_ns; /* nanoseconds of a token */
};

size_t pace_tokens(const struct pace *p);

/* After a pass. A pass of fewer than PACE_LEAST tokens does not count: it takes the time of reading
   the weights, for one token as for seven. */
void pace_count(struct pace *p, size_t tokens, uint64_t ns);

#endif
