/* The state of a search for a cushion, saved to a file so that a stopped search can resume. */
#ifndef QUANTIZE_SEARCH_CUSHION_CHECKPOINT_H
#define QUANTIZE_SEARCH_CUSHION_CHECKPOINT_H

#include "tools/quantize/search/cushion.h"

struct candidate {
    double loss;
    int64_t token; /* 64 bits wide, so that the struct has no padding */
};

struct checkpoint {
    struct cushion found; /* round[tried] is the current round */
    uint32_t sampled;     /* 1: the round's samples were chosen */
    uint32_t layers;      /* of the round's first stages; 0: the stages have not begun */
    uint32_t stage;       /* the current one; after the last stage come the finalists */
    uint32_t window;      /* of the sample: the stage tries candidates on it; CHECKPOINT_NONE: not
                             chosen yet */
    uint32_t n, next;     /* candidates of the stage, and the number already tried */
    double done;          /* work of the round so far, in tokens times layers */
    double alone;         /* L_q of the round's first sample, without a further token */
    double nats;          /* mean -ln p of the round's samples, without a further token */
    struct candidate *candidate; /* [V] */
};
enum { CHECKPOINT_NONE = INT32_MAX };

/* key: a hash of all inputs of the search. False if the file could not be written; the old file, if
   any, then remains. */
bool checkpoint_save(const char *path, uint32_t key, const struct checkpoint *c, uint32_t n_vocab);

/* c->candidate must have room for n_vocab. Only the rounds of `found` are loaded; the tokens follow
   from them. False if there is no intact file with this key; then only the candidates may have
   changed. */
bool checkpoint_load(const char *path, uint32_t key, struct checkpoint *c, uint32_t n_vocab);

#endif
