/* Scale and minimum of a group of numbers that share them: number i becomes d q + m with the
   nearest integer q from `least` to `most`. All arithmetic is in float, in a fixed order: the same
   bits everywhere. */
#ifndef QUANTIZE_BLOCKS_FIT_H
#define QUANTIZE_BLOCKS_FIT_H

#include <stdbool.h>

struct fit_group {
    const float *x, *weight; /* [n] */
    int n;
    float least, most;
};

/* The q of number x; 0, or `least` if that is more, if d is 0. */
float fit_code(const struct fit_group *g, float x, float d, float m);

/* The sum of weight times squared error. */
float fit_cost(const struct fit_group *g, float d, float m);

/* The best d that a search finds, for m = 0. It may be negative: an uneven number of levels on both
   sides of 0 is used better then. */
float fit_scale(const struct fit_group *g);

/* The best d and m that a search finds; d is not negative. below: m is not above 0. */
void fit_affine(const struct fit_group *g, bool below, float *d, float *m);

#endif
