/* How likely text is to the model of floats, by what its layers have left in a residual stream that
   is not rotated. */
#ifndef QUANTIZE_MEASURE_TEXT_LOSS_H
#define QUANTIZE_MEASURE_TEXT_LOSS_H

#include "tools/quantize/measure/layers.h"

struct text_loss {
    float *rows;               /* [a block, D] of the head */
    float *logits;             /* [n, a block] */
    struct text_loss_token *token; /* [n] */
};

/* For sequences of n tokens at most. False if there is no memory. All zero is fine to close, and a
   failed open. */
bool text_loss_open(struct text_loss *g, const struct tft_model *m, uint32_t n);
void text_loss_close(struct text_loss *g);

/* The mean of -ln p(tokens[i + 1] | all before it), i = 0 .. n - 2; 0 where there is none. x: [n,
   y->stride] what the last layer has left of the tokens; no more of them than a pass has room for.
   The same bits for any number of threads. */
double text_loss_mean(const struct text_loss *g, const struct layers *y, float *x,
                      const int32_t *tokens, uint32_t n);

#endif
