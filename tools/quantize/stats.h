/* What goes into one linear layer, over all of the calibration text, and the 8-bit numbers that
   hold it best. */
#ifndef QUANTIZE_STATS_H
#define QUANTIZE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd/kernels.h"

/* A number is counted by its upper 16 bits: sign, exponent, 7 bits of the fraction. So no range
   need be known beforehand, one sweep serves every method, and a bin is at most 1/128 of what is in
   it wide. */
enum { STATS_BINS = 1 << 16 };

struct stats {
    size_t n_channel;
    float *min, *max; /* [n_channel]: the least and the largest of each and 0 */
    uint64_t *bin;    /* [STATS_BINS] */
};

/* False if there is no memory. All zero is fine to free, and a failed init. */
bool stats_init(struct stats *s, size_t n_channel);
void stats_free(struct stats *s);

/* As after stats_init. */
void stats_clear(struct stats *s);

/* x: [n, n_channel], rows `stride` apart. NaN and infinities are counted, and ruin the statistics:
   stats_finite. */
void stats_add(struct stats *s, const float *x, size_t n, size_t stride);

/* Of as many channels: the same as if `from` had been added to `into`. */
void stats_merge(struct stats *into, const struct stats *from);

bool stats_finite(const struct stats *s);

/* y: [n_channel] = the largest |x| of each channel: for smooth.h */
void stats_absmax(const struct stats *s, float *y);

/* How the range is chosen that 256 steps are to cover. It always has 0 in it. */
enum stats_method {
    STATS_MIN_MAX,    /* all that was seen */
    STATS_PERCENTILE, /* without (100 - param) / 2 percent of the numbers at each end; 0 < param <=
                         100 */
    STATS_MSE,        /* the one with the least squared error */
};

/* False if something seen was not finite. Scale 1 and zero 0 where only zeros were seen, or
   nothing. */
bool stats_affine(const struct stats *s, enum stats_method method, double param,
                  struct tft_affine *out);

/* low <= 0 <= high: the bytes that cover this range. Scale 1 and zero 0 where it is empty. */
struct tft_affine stats_cover(double low, double high);

/* What is left of x when the kernels have made a byte of it: kernels.h, "Integers" */
double stats_lost(float x, const struct tft_affine *q);

/* sum (x - q(x))^2 / sum x^2: what share of the signal's power is lost; 0 where there is no signal.
   Of finite statistics. */
double stats_error(const struct stats *s, const struct tft_affine *q);

#endif
