/* A histogram of the numbers at one input of linear layers, over all of the calibration text, and
   the 256 steps that represent these numbers best. */
#ifndef QUANTIZE_MEASURE_HISTOGRAM_H
#define QUANTIZE_MEASURE_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd/kernels.h"

/* The bin of a number is its upper 16 bits: sign, exponent, 7 bits of the fraction. So the range
   need not be known beforehand, one sweep of the text serves every range method, and a bin is at
   most 1/128 of its numbers wide. */
enum { HISTOGRAM_BINS = 1 << 16 };

struct histogram {
    size_t n_channel;
    float *min, *max; /* [n_channel] of each channel's numbers and 0 */
    uint64_t *bin;    /* [HISTOGRAM_BINS] of all channels */
};

/* False if memory is short. free accepts all zeros, and a failed init. */
bool histogram_init(struct histogram *h, size_t n_channel);
void histogram_free(struct histogram *h);

/* Back to the state after histogram_init. */
void histogram_clear(struct histogram *h);

/* x: [n, n_channel], rows `stride` apart. NaN and infinities are counted; histogram_finite then
   returns false. */
void histogram_add(struct histogram *h, const float *x, size_t n, size_t stride);

/* Adds the numbers of `from`, which has the same number of channels. */
void histogram_merge(struct histogram *into, const struct histogram *from);

bool histogram_finite(const struct histogram *h);

/* y: [n_channel] = the largest |x| of each channel, for smooth.h. */
void histogram_absmax(const struct histogram *h, float *y);

/* How to choose the range that the 256 steps cover. Every range contains 0. */
enum range_method {
    RANGE_MIN_MAX,    /* all numbers */
    RANGE_PERCENTILE, /* all but (100 - param) / 2 percent of the numbers at each end; 0 < param <=
                         100 */
    RANGE_MSE,        /* the range with the least squared error */
};

/* Fills *out. False if there was a NaN or an infinity. Scale 1 and zero-point 0 if all numbers were
   0, or there were none. */
bool histogram_affine(const struct histogram *h, enum range_method method, double param,
                      struct tft_affine *out);

/* sum (x - q(x))^2 / sum x^2: the share of the signal's power that 8 bits lose. 0 if there is no
   signal. All numbers must be finite. */
double histogram_error(const struct histogram *h, const struct tft_affine *q);

/* The share of the numbers that become 0 or 255, the bytes at the ends: numbers outside the range,
   or within half a step of its ends. 0 if there are no numbers. All must be finite. */
double histogram_ends(const struct histogram *h, const struct tft_affine *q);

#endif
