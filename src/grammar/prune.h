/* Removes the unusable parts of a compiled grammar. */
#ifndef TFT_PRUNE_H
#define TFT_PRUNE_H

#include "automaton.h"

struct tft_prune {
    struct tft_grammar *g; /* its calls still name rules */
    const struct tft_allocator *a;
    const uint32_t *start; /* [n_rule] the first state of each rule, 0: never called */
    uint32_t n_rule;
};

/* Removes edges and calls that lead to no end. On failure, *wrong is the reason, and *rule the rule
   at fault, or 0. TFT_ERR_UNSUPPORTED: a rule begins with itself, or the root matches nothing.
   TFT_ERR_NOMEM. */
enum tft_status tft_prune(struct tft_prune *p, uint32_t *rule, const char **wrong);

#endif
