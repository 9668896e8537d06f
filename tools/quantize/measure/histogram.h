/* What goes into one linear layer, over all of the calibration text, and the 8-bit numbers that
   hold it best. */
#ifndef QUANTIZE_MEASURE_HISTOGRAM_H
#define QUANTIZE_MEASURE_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd/kernels.h"

/* A number is counted by its upper 16 bits: sign, exponent, 7 bits of the fraction. So no range
   need be known beforehand, one sweep serves every method, and a bin is at most 1/128 of what is in
   it wide. */
enum { HISTOGRAM_BINS = 1 << 16 };

struct histogram {
    size_t n_channel;
    float *min, *max; /* [n_channel]: the least and the largest of each and 0 */
    uint64_t *bin;    /* [HISTOGRAM_BINS] */
};

/* False if there is no memory. All zero is fine to free, and a failed init. */
bool histogram_init(struct histogram *s, size_t n_channel);
void histogram_free(struct histogram *s);

/* As after histogram_init. */
void histogram_clear(struct histogram *s);

/* x: [n, n_channel], rows `stride` apart. NaN and infinities are counted, and ruin the statistics:
   histogram_finite. */
void histogram_add(struct histogram *s, const float *x, size_t n, size_t stride);

/* Of as many channels: the same as if `from` had been added to `into`. */
void histogram_merge(struct histogram *into, const struct histogram *from);

bool histogram_finite(const struct histogram *s);

/* y: [n_channel] = the largest |x| of each channel: for smooth.h */
void histogram_absmax(const struct histogram *s, float *y);

/* How the range is chosen that 256 steps are to cover. It always has 0 in it. */
enum range_method {
    RANGE_MIN_MAX,    /* all that was seen */
    RANGE_PERCENTILE, /* without (100 - param) / 2 percent of the numbers at each end; 0 < param <=
                         100 */
    RANGE_MSE,        /* the one with the least squared error */
};

/* False if something seen was not finite. Scale 1 and zero 0 where only zeros were seen, or
   nothing. */
bool histogram_affine(const struct histogram *s, enum range_method method, double param,
                  struct tft_affine *out);

/* sum (x - q(x))^2 / sum x^2: what share of the signal's power is lost; 0 where there is no signal.
   Of finite statistics. */
double histogram_error(const struct histogram *s, const struct tft_affine *q);

#endif
