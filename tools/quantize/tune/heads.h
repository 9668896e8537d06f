/* Norms and RoPE of the heads of queries and keys, a token's row at a time, and their gradients. */
#ifndef QUANTIZE_TUNE_HEADS_H
#define QUANTIZE_TUNE_HEADS_H

#include "model/model.h"
#include "tools/quantize/tune/real.h"

struct heads;

/* For n tokens at positions n_prefix, n_prefix + 1, ... NULL if memory is short. close accepts
   NULL. */
struct heads *heads_open(const struct tft_model *m, size_t n_prefix, size_t n);
void heads_close(struct heads *h);

/* y = the row x of token i as attention takes it. y, x: [H E], or of keys [G E]. x becomes the
   input of the norm, which the gradient needs: rotated, if RoPE comes first. */
void heads_run(const struct heads *h, const struct tft_layer *b, bool keys, real *y, real *x,
               size_t i);

/* dx from dy, which is overwritten; x: as left by heads_run. */
void heads_back(const struct heads *h, const struct tft_layer *b, bool keys, real *dx, real *dy,
                const real *x, size_t i);

/* y = the row x of values, [G E], after the norm of each head. back: dx += the gradient of x. */
void heads_values(const struct heads *h, const struct tft_layer *b, real *y, const real *x);
void heads_values_back(const struct heads *h, const struct tft_layer *b, real *dx, const real *dy,
                       const real *x);

#endif
