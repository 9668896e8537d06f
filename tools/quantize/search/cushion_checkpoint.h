/* Where a search for a cushion has got to, in a file, so that one that was stopped goes on from
   there: cushion.h. */
#ifndef QUANTIZE_SEARCH_CUSHION_CHECKPOINT_H
#define QUANTIZE_SEARCH_CUSHION_CHECKPOINT_H

#include "tools/quantize/search/cushion.h"

struct candidate {
    double loss;
    int64_t token; /* so wide that there is no padding */
};

/* What a search would lose. */
struct checkpoint {
    struct cushion found; /* round[tried] is the one in hand */
    uint32_t sampled; /* 1: the round has its samples */
    uint32_t layers;  /* of its first stages; 0: it has not begun with them */
    uint32_t stage;   /* after the last one the finalists are asked what they cost */
    uint32_t window;  /* of the round's sample that the stage tries its candidates on;
                         CHECKPOINT_NONE: not chosen yet */
    uint32_t n, next; /* candidates of the stage, and how many of them have been tried */
    double done;      /* work of the round */
    double alone;     /* L_q of the round's first sample without a further token */
    double nats;      /* -ln p of a token of its samples without one */
    struct candidate *candidate; /* [V] */
};
enum { CHECKPOINT_NONE = INT32_MAX };

/* key: what the search depends on, so that a file of another one is not taken for this. False if
   the file could not be written; there is the old one then, or none. */
bool checkpoint_save(const char *path, uint32_t key, const struct checkpoint *c, uint32_t n_vocab);

/* c->candidate is room for n_vocab. Of `found` it has the rounds, from which the tokens follow.
   False, and c as it was but for the candidates, if there is no whole file of this key. */
bool checkpoint_load(const char *path, uint32_t key, struct checkpoint *c, uint32_t n_vocab);

#endif
