/*
 * The angles of RoPE (Su et al. 2021, section 3.4.2), with the same bits on every machine. Two
 * libms may round sin, cos and pow differently, so these functions use sums and products alone, in
 * double precision, with errors below 1e-15.
 */
#ifndef TFT_ROPE_H
#define TFT_ROPE_H

#include <stdbool.h>
#include <stdint.h>

/* freq: [n_rot / 2], freq[i] = base^(-2i / n_rot) */
void tft_rope_freqs(double *freq, uint32_t n_rot, double base);

/* c, s: [n_rot] cosines and signed sines as tft_rope_fn takes them, for a token at `pos` */
void tft_rope_angles(float *c, float *s, const double *freq, uint32_t n_rot, bool halves,
                     uint32_t pos);

#define TFT_ROPE_MAX 0x1p30 /* larger angles lose too many bits when they are reduced */

/* For the tests. log: x > 0; sincos: |x| < TFT_ROPE_MAX */
double tft_rope_log(double x);
double tft_rope_exp(double x);
void tft_rope_sincos(double x, double *sin, double *cos);

#endif
