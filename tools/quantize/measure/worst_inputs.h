/* Which static inputs lose much to their 8 bits: what tuffet quantize says of a model that it
   makes, and tuffet inspect of one that is there. */
#ifndef QUANTIZE_MEASURE_WORST_INPUTS_H
#define QUANTIZE_MEASURE_WORST_INPUTS_H

#include <stdint.h>
#include <stdio.h>

#include "simd/kernels.h"

/* Rounding to steps of range / 255 leaves noise of (range / 255)^2 / 12: for a uniform signal -59
   dB, for real ones -40 to -30 dB. Above this share of the signal's power, -20 dB, an input is
   worth a name. */
#define WORST_INPUTS_ERROR 0.01

enum { WORST_INPUTS_SHOWN = 8 };

struct input_error {
    uint32_t index; /* of struct tft_input */
    double error;   /* |x - q(x)|^2 / |x|^2 */
    struct tft_affine affine;
};

/* Starts from all zero. */
struct worst_inputs {
    uint32_t inputs, n; /* how many there are, and how many of them are above WORST_INPUTS_ERROR */
    struct input_error worst[WORST_INPUTS_SHOWN]; /* the worst of those, worst first */
};

void worst_inputs_add(struct worst_inputs *l, struct input_error input);

/* How many are in worst. */
uint32_t worst_inputs_shown(const struct worst_inputs *l);

/* The range that an input's bytes cover. */
double input_error_min(const struct input_error *input);
double input_error_max(const struct input_error *input);

/* For people, of a model of so many layers. Nothing if there are none. */
void worst_inputs_print(FILE *f, const struct worst_inputs *l, uint32_t n_layer);

#endif
