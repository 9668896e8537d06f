/*
 * Keeps the codes of a Q4_0 matrix, so that weights which were trained on this lattice are not
 * rounded a second time.
 *
 * Q4_0 has blocks of 32 weights w = d (c - 8) with a float d, which may be negative. As weights of
 * 4 bits (low_bits.h):
 *
 *   w = scale of the row * s * (c' - z)      c' = c, z = 8;  c' = 15 - c, z = 7 if d < 0
 *
 * with s in 1 .. 15 for |d|. The scale of the row is the one with the least sum of squared errors.
 * The only error is that of |d|: none if the |d| of a row are multiples, up to 15, of one number,
 * as where training had one scale for the row; else about 3 % where the largest |d| is twice the
 * smallest. A group of several blocks needs blocks with the same d.
 */
#ifndef QUANTIZE_ROUND_KEEP_CODES_H
#define QUANTIZE_ROUND_KEEP_CODES_H

#include "tools/quantize/round/low_bits.h"
#include "weights/format.h"

/* Fills q, which is open for the matrix. False, and q is undefined, if the codes cannot be kept:
   the tensor is no Q4_0, the weights w: [rows, cols] are not its numbers any more, blocks of a
   group differ, or the error is larger than that of rounding again. The result does not depend on
   n_threads. */
bool keep_codes(struct low_bits *q, const struct tft_mat *from, const float *w, int n_threads);

#endif
