/*
 * The steps of a block that work on one token's row alone, and their gradients. dy is the gradient
 * of the loss with respect to y, dx to x. Sums run in the order of the elements, so the results
 * have the same bits on every machine.
 */
#ifndef QUANTIZE_TUNE_ROW_OPS_H
#define QUANTIZE_TUNE_ROW_OPS_H

#include "model/model.h"
#include "tools/quantize/tune/real.h"

/* y = norm(x) of n numbers, as in tft_rmsnorm_fn and tft_layernorm_fn; y = x if w is empty. y may
   be x. */
void row_norm(real *y, const real *x, const struct tft_norm *w, size_t n, float eps);
/* Adds to dx. */
void row_norm_back(real *dx, const real *dy, const real *x, const struct tft_norm *w, size_t n,
                   float eps);

/* RoPE in place: rotates the heads of x: [width], of `dim` numbers each, by a position's angles,
   cos and sin: [n_rot]. halves: partners are n_rot / 2 apart; otherwise they are neighbours. back:
   rotates the other way, which makes dx from dy. */
struct row_angles {
    const float *cos, *sin;
    size_t n_rot, dim;
    bool halves;
};
void row_rope(real *x, size_t width, const struct row_angles *a, bool back);

/* y = a(g) * u, or a(g) if u is NULL; a is gelu or silu. */
void row_activate(real *y, const real *g, const real *u, size_t n, bool gelu);
/* Sets dg and du from dy and the inputs. du is NULL if u is. */
void row_activate_back(real *dg, real *du, const real *dy, const real *g, const real *u, size_t n,
                       bool gelu);

/* c tanh(x / c), and its slope from the result y: 1 - (y / c)^2, or 1 if c is 0, no cap. */
real row_softcap(real x, real c);
real row_softcap_slope(real y, real c);

/* tft_hadamard_fn in place. The transform is its own transpose, so this is its gradient too. */
void row_hadamard(real *x, size_t n, size_t block);

/*
 * The gradient of the quantizer q (CushionCache, eq. 3) is the gradient of clamping alone, 1 within
 * its range and 0 beyond: rounding counts as the identity, and scale and zero-point are constants
 * (section 4.2). The error |x - q(x)|^2 (eq. 6) takes q(x) as a constant instead: with rounding as
 * the identity the error would have no gradient.
 */
/* The sum of (x - q(x))^2. */
double row_error(const real *x, size_t n, const struct tft_affine *q);
/* dx: the gradient of q(x) on entry; on return the gradient of x, plus weight times the gradient of
   |x - q(x)|^2 / 2. */
void row_quantize_back(real *dx, const real *x, size_t n, const struct tft_affine *q, real weight);

#endif
