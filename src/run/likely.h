/*
 * Ranks the tokens of a vocabulary by their logits, only as far as the caller asks. A sampler
 * rarely asks for more than a few dozen of 100,000 tokens. One read of the logits finds the largest
 * of each block. Then candidates are collected in layers, from the largest logit down. A layer
 * skips blocks with no logit in it, and only collected candidates are sorted.
 */
#ifndef TFT_LIKELY_H
#define TFT_LIKELY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd/kernels.h"

static inline size_t tft_likely_layers(size_t n)
{
    return (n + TFT_TOPS - 1) / TFT_TOPS;
}

struct tft_candidate {
    float logit;
    int32_t id;
};

/* Which of the V logits of a token a sampler asks for. If several processes have parts of them
   (backend/mpi), they send no others. */
struct tft_asked {
    size_t k;      /* the k largest; V: all */
    float inverse; /* 1 / temperature, if a rough sum of the weights of all others is asked for too;
                      0: it is not */
};

/* Order: larger logits first, then smaller ids. NaN has no place in it. */
struct tft_likely {
    const struct tft_kernels *kern;
    const float *logits;     /* [n] */
    size_t n;
    struct tft_candidate *c; /* [n] room; [0, n_ranked) are in order, [n_ranked, end) are a heap */
    float *tops;             /* [tft_likely_layers(n)] room; the largest logit of each block */
    float unit;              /* widths of layers are multiples of it, > 0 */
    float best;              /* the largest logit */
    float floor;             /* smaller logits do not count from now on: the caller may raise it */
    size_t n_ranked, end;
    int layer;   /* number of layers collected so far */
    float above; /* logits from here on have been collected */
};

/* Finds the largest logit. The caller has set the members up to unit. Returns its token; of equals
   the first; 0 if all are NaN. */
int32_t tft_likely_begin(struct tft_likely *l);

/* Makes number i of the order c[i]. Returns false if there are not so many. */
bool tft_likely_has(struct tft_likely *l, size_t i);

#endif
