/* The static inputs that lose most to 8 bits. tuffet quantize lists them for the model that it
   writes, tuffet inspect for an existing model. */
#ifndef QUANTIZE_MEASURE_WORST_INPUTS_H
#define QUANTIZE_MEASURE_WORST_INPUTS_H

#include <stdint.h>

#include "simd/kernels.h"
#include "tools/quantize/sink.h"

/* An input is listed above this share of its power, -20 dB. Rounding to steps of range / 255 leaves
   noise of (range / 255)^2 / 12: -59 dB for a uniform signal, -40 to -30 dB for real ones. */
#define WORST_INPUTS_ERROR 0.01

enum { WORST_INPUTS_SHOWN = 8 };

struct input_error {
    uint32_t index; /* of struct tft_input */
    double error;   /* |x - q(x)|^2 / |x|^2 */
    struct tft_affine affine;
};

/* All zeros at first. */
struct worst_inputs {
    uint32_t inputs; /* added so far */
    uint32_t n;      /* inputs with an error above WORST_INPUTS_ERROR */
    struct input_error worst[WORST_INPUTS_SHOWN]; /* the largest such errors, largest first */
};

void worst_inputs_add(struct worst_inputs *w, struct input_error input);

/* Elements of `worst`. */
uint32_t worst_inputs_shown(const struct worst_inputs *w);

/* Ends of the range that an input's bytes cover. */
double input_error_min(const struct input_error *input);
double input_error_max(const struct input_error *input);

/* Prints a table, or nothing if n is 0. n_layer: layers of the model. */
void worst_inputs_print(struct sink *to, const struct worst_inputs *w, uint32_t n_layer);

#endif
