/*
 * Weights for inputs that differ from the float model's. After layers with rounded weights, a
 * matrix reads x where the float model reads x + d. The weights V with the least
 *
 *   sum over the text:  |V x - W (x + d)|^2  +  damp |V - W|^2
 *
 * are V = W + W D (H + damp)^-1, where D is the sum of d x^T, and H and damp are the metric's (QEP:
 * Arai and Ichikawa 2025; GPTAQ: Li et al. 2025). W moves half of the way to V: V fits the text of
 * the calibration, and with it also makes up for what only this text has.
 */
#ifndef QUANTIZE_ROUND_CORRECT_H
#define QUANTIZE_ROUND_CORRECT_H

#include "tools/quantize/round/metric.h"

/* w: [rows, n] changes in place. m: with correlations. gap: [n, n] = the sum of x d^T by channel,
   times the factor of the metric's h. Numbers that would not be finite stay as they were. The
   result does not depend on kern or n_threads. False if memory is short. */
bool correct_weights(float *w, size_t rows, const struct metric *m, const float *gap,
                     const struct tft_kernels *kern, int n_threads);

#endif
