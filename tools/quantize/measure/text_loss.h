/* The float model's loss on a text, -ln p of each next token, from the residual stream after the
   last layer; and the difference to another model's predictions. The stream must not be rotated. */
#ifndef QUANTIZE_MEASURE_TEXT_LOSS_H
#define QUANTIZE_MEASURE_TEXT_LOSS_H

#include "tools/quantize/measure/layers.h"

struct text_loss {
    float *rows;                   /* [a block, D] of the head's matrix */
    float *logits;                 /* [n, a block] */
    struct text_loss_token *token; /* [n] */
};

/* For sequences of at most n tokens. False if memory is short. close accepts all zeros, and a
   failed open. */
bool text_loss_open(struct text_loss *t, const struct tft_model *m, uint32_t n);
void text_loss_close(struct text_loss *t);

/* The mean of -ln p(tokens[i + 1] | tokens[0..i]) over i = 0 .. n - 2; 0 if n < 2. x: [n,
   y->stride] output of the last layer; n is at most the batch that y was opened with. The result
   has the same bits for any number of threads. */
double text_loss_mean(const struct text_loss *t, const struct layers *y, float *x,
                      const int32_t *tokens, uint32_t n);

/* Predictions of the float model, p, and of another one, q, after a token. */
struct text_pair {
    double floats, other; /* -ln p and -ln q of the text's next token */
    double divergence;    /* Kullback-Leibler: the sum of p ln (p / q) over the vocabulary */
    bool same;            /* the most likely token is the same */
};

/* each: [n], after the tokens with the rows x: [n, y->stride] of the residual stream. next: [n] the
   tokens that come next; other: [n] the other model's logits after each, [V]. */
void text_loss_pairs(const struct text_loss *t, const struct layers *y, float *x,
                     const int32_t *next, const float *const *other, uint32_t n,
                     struct text_pair *each);

#endif
