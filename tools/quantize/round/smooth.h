/*
 * SmoothQuant (Xiao et al. 2023, section 4): what goes into a linear layer is divided, channel by
 * channel, by factors that its weights are multiplied by. The product stays, and the outlier
 * channels move from where they are hard to quantize to where they are easy.
 */
#ifndef QUANTIZE_ROUND_SMOOTH_H
#define QUANTIZE_ROUND_SMOOTH_H

#include <stddef.h>

/* max: [cols], zeros to begin with: the largest |w| of each column, of w: [rows, cols], rows
   `stride` apart, and of what was given before. All weights that share an input share its factors:
   q, k and v; gate and up. */
void smooth_columns_max(float *max, const float *w, size_t stride, size_t rows, size_t cols);

/* s: [n] = x^alpha / w^(1 - alpha), eq. 4, of the largest |x| and |w| of each channel. 1 where a
   channel is dead on either side, or the factor is no number to divide by. */
void smooth_factors(float *s, const float *x_max, const float *w_max, size_t n, float alpha);

/* w: [rows, cols], rows `stride` apart: each column j times s[j] */
void smooth_columns(float *w, size_t stride, size_t rows, size_t cols, const float *s);

/* v: [n] / s: the weight of the norm before it, and its bias */
void smooth_divide(float *v, const float *s, size_t n);

#endif
