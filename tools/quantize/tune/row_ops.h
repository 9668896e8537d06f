/*
 * What a block does to one token's row by itself, and the gradients of that. dy is the gradient of
 * the loss in y, dx in x. Sums are in the order of the elements, so that the same numbers come out
 * everywhere.
 */
#ifndef QUANTIZE_TUNE_ROW_OPS_H
#define QUANTIZE_TUNE_ROW_OPS_H

#include "model/model.h"
#include "tools/quantize/tune/real.h"

/* y = norm(x) of n numbers, as tft_rmsnorm_fn and tft_layernorm_fn; y may be x. */
void row_norm(real *y, const real *x, const struct tft_norm *w, size_t n, float eps);
/* dx += */
void row_norm_back(real *dx, const real *dy, const real *x, const struct tft_norm *w, size_t n,
                    float eps);

/* Heads of x: [width] turned by a position's angles, c and s: [n_rot]; or, with back, the other
   way: that is the gradient, in place. */
void row_rope(const struct tft_model *m, real *x, size_t width, const float *c, const float *s,
               bool back);

/* y = silu(g) * u, or gelu(g) where u is NULL. */
void row_activate(real *y, const real *g, const real *u, size_t n);
/* dg and du =, from dy and what went in; du is NULL where u is. */
void row_activate_back(real *dg, real *du, const real *dy, const real *g, const real *u, size_t n);

/* tft_hadamard_fn; it is its own transpose, so this is its gradient too. */
void row_hadamard(real *x, size_t n, size_t block);

/*
 * The quantizer q (CushionCache, eq. 3) is in the gradient what it is without rounding, and its
 * scale and zero-point are constants (section 4.2): 1 within its range, 0 beyond. |x - q(x)|^2 (eq.
 * 6) is another matter: with a rounding of slope 1 it would have no gradient, and so there q(x) is
 * a constant.
 */
double row_error(const real *x, size_t n, const struct tft_affine *q);
/* dx = the gradient in q(x) on entry, in x on return, plus weight times that of half of |x -
   q(x)|^2. */
void row_quantize_back(real *dx, const real *x, size_t n, const struct tft_affine *q, real weight);

#endif
