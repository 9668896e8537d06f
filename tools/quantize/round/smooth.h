/*
 * SmoothQuant (Xiao et al. 2023, section 4): divides each channel of a linear layer's input by a
 * factor, and multiplies the weights of that channel by it. The product stays, and outlier channels
 * move from the inputs, where they are hard to quantize, to the weights, where they are easy.
 */
#ifndef QUANTIZE_ROUND_SMOOTH_H
#define QUANTIZE_ROUND_SMOOTH_H

#include <stddef.h>

/* Raises max: [cols], zeros at first, to the largest |w| of each column; w: [rows, cols], rows
   `stride` apart. Call it for all matrices that share an input, as they share its factors: q, k and
   v; gate and up. */
void smooth_columns_max(float *max, const float *w, size_t stride, size_t rows, size_t cols);

/* s: [n] = x^alpha / w^(1 - alpha), eq. 4, from the largest |x| and |w| of each channel. 1 if all x
   or all w of the channel are 0, or if s or 1 / s is not a normal number. */
void smooth_factors(float *s, const float *x_max, const float *w_max, size_t n, float alpha);

/* Multiplies each column j by s[j]; w: [rows, cols], rows `stride` apart. */
void smooth_columns(float *w, size_t stride, size_t rows, size_t cols, const float *s);

/* Divides each row i by s[i]; w: [rows, cols]. For the layer that makes the divided input. */
void smooth_rows(float *w, size_t rows, size_t cols, const float *s);

/* v: [n] /= s. For the weight and the bias of the norm that produces the input. */
void smooth_divide(float *v, const float *s, size_t n);

#endif
