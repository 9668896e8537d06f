/*
 * The angles of RoPE (Su et al. 2021, section 3.4.2), the same bits on every machine: a libm may
 * round sin, cos and pow differently from the next, so these come from sums and products alone, in
 * double precision and good to 1e-15.
 */
#ifndef TFT_ROPE_H
#define TFT_ROPE_H

#include <stdbool.h>
#include <stdint.h>

/* freq[i] = base^(-2i / n_rot) for i < n_rot / 2 */
void tft_rope_freqs(double *freq, uint32_t n_rot, double base);

/* c, s: [n_rot] in the layout of tft_rope_fn, for a token at `pos` */
void tft_rope_angles(float *c, float *s, const double *freq, uint32_t n_rot, bool halves,
                     uint32_t pos);

#define TFT_ROPE_MAX 0x1p30 /* the largest angle that is still reduced exactly enough */

/* Exposed for the tests. x > 0; |x| < TFT_ROPE_MAX */
double tft_rope_log(double x);
double tft_rope_exp(double x);
void tft_rope_sincos(double x, double *sin, double *cos);

#endif
