/* The head of a model over the tokens of one sequence: the loss of prediction. */
#ifndef QUANTIZE_TUNE_HEAD_H
#define QUANTIZE_TUNE_HEAD_H

#include <stdint.h>

#include "tools/quantize/tune/real.h"

struct tape;

/* Returns the mean over i < n - 1 of -log p(token[i + 1]); x: [n, D], output of the last block. dx:
   NULL, or [n, D] its gradient. */
double head_run(struct tape *t, const int32_t *token, const real *x, real *dx);

#endif
