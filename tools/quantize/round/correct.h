/*
 * Weights for inputs that differ from the float model's. After layers with rounded weights, a
 * matrix reads x where the float model reads x + d. The weights V with the least
 *
 *   sum over the text:  |V x - W (x + d) - r|^2  +  damp |V - W|^2
 *
 * are V = W + (W D + R) (H + damp)^-1, where D is the sum of d x^T, R that of r x^T, and H and damp
 * are the metric's (QEP: Arai and Ichikawa 2025; GPTAQ: Li et al. 2025). r is how far the residual
 * stream that the outputs are added to is below the float model's: a matrix makes up for that, too.
 * W moves half of the way to V: V fits the text of the calibration, and with it also makes up for
 * what only this text has.
 */
#ifndef QUANTIZE_ROUND_CORRECT_H
#define QUANTIZE_ROUND_CORRECT_H

#include "tools/quantize/round/metric.h"

/* Sums over the text, by channel of x and times the factor of the metric's h; NULL: zeros. */
struct correct_for {
    const float *gap;    /* [n, n] of x d^T */
    const float *stream; /* [rows, n] of r x^T */
};

/* w: [rows, n] changes in place. m: with correlations. Numbers that would not be finite stay as
   they were. The result does not depend on kern or n_threads. False if memory is short. */
bool correct_weights(float *w, size_t rows, const struct metric *m, const struct correct_for *f,
                     const struct tft_kernels *kern, int n_threads);

#endif
