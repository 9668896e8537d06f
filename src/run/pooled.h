/* From the hidden vectors of a text to its embedding, or to its scores: struct tft_pooled of
   model.h. */
#ifndef TFT_RUN_POOLED_H
#define TFT_RUN_POOLED_H

#include "base/arena.h"
#include "model/model.h"

struct tft_pool {
    const struct tft_model *m;
    enum tft_pooling pooling; /* MEAN, LAST, CLS, RANK or TOKENS */
    enum tft_pooling from;    /* what is made of hidden vectors: MEAN, LAST, CLS or TOKENS */
    bool raw;                 /* a vector is not brought to length 1 */
    uint32_t all, width;      /* numbers of a result, and how many are kept */

    /* the text in hand */
    uint32_t seen; /* hidden vectors */
    double *sum;   /* [D] of them */
    float *x, *y;  /* [the widest vector] */
};

/* Numbers of a result. */
uint32_t tft_pool_width(const struct tft_model *m, enum tft_pooling pooling);

/* Counts, or places, its memory. width: numbers to keep; 0: all. */
void tft_pool_layout(struct tft_pool *p, struct tft_arena *a, const struct tft_model *m,
                     enum tft_pooling pooling, uint32_t width, bool raw);

/* A text begins; its next hidden vector, [D]; its result, [all], which is p's until the next call.
   Not with TOKENS. */
void tft_pool_begin(struct tft_pool *p);
void tft_pool_add(struct tft_pool *p, const float *hidden);
const float *tft_pool_end(struct tft_pool *p);

/* The result of one hidden vector, with TOKENS. */
const float *tft_pool_token(struct tft_pool *p, const float *hidden);

#endif
