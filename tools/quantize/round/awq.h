/*
 * AWQ (Lin et al. 2024, sections 3.2 and 4): before weights are rounded to nearest, the columns
 * that read large inputs are multiplied by factors, and the inputs are divided by them. The product
 * stays, and the errors of these columns count for less:
 *
 *   s = size^alpha of each channel, alpha of 0, 0.05 .. 1 with the least loss      eq. 4, 5
 *
 * The paper's size is the mean of |x|; here it is the root of the mean of x^2, which the moments of
 * the inputs have. The loss is the squared error of the outputs if the errors of a row's weights
 * are uncorrelated: the sum of e^2 E[x^2]. Some rows are rounded with each alpha to find it.
 * Clipped ranges, the other half of AWQ's code, are part of every rounding here (low_bits.h).
 */
#ifndef QUANTIZE_ROUND_AWQ_H
#define QUANTIZE_ROUND_AWQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd/kernels.h"

enum { AWQ_STEPS = 20, AWQ_ROWS = 128 }; /* of alpha; most rows of a matrix that are tried */

/* s: [n] = size^(alpha / 2), divided by the root of the product of the least and the largest, so
   that factors are above and below 1. size: [n] sums of squares. A channel below 0.0001 of the mean
   counts as 0.0001 of the mean. All 1 if all sizes are 0, or one is NaN or infinity. */
void awq_factors(float *s, const float *size, size_t n, double alpha);

enum { AWQ_READERS = 4 };
struct awq_matrix {
    const float *w; /* [rows, n] */
    size_t rows;
    uint32_t bits;  /* 2 .. 4 */
    uint32_t group; /* weights that share a scale and a zero */
};

/* An input, and the low-bit matrices that read it. */
struct awq_input {
    size_t n;            /* channels */
    const float *moment; /* [n] sums of x^2 */
    const float *size;   /* [n] likewise; equal for channels that must have one factor */
    struct awq_matrix reader[AWQ_READERS];
    size_t n_readers;
};

/* s: [n] = the factors with the least loss; all 1 (alpha = 0) if none is better. The result does
   not depend on kern or n_threads. progress: NULL, or called with the share done; false: stop.
   False if memory is short, or if it was stopped. */
struct awq_how {
    const struct tft_kernels *kern;
    int n_threads;
    bool (*progress)(void *user, double done);
    void *user;
};
bool awq_choose(float *s, const struct awq_input *x, const struct awq_how *how);

#endif
