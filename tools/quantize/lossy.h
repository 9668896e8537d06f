/* Which static inputs lose much to their 8 bits: what tuffet quantize says of a model that it
   makes, and tuffet inspect of one that is there. */
#ifndef QUANTIZE_LOSSY_H
#define QUANTIZE_LOSSY_H

#include <stdint.h>
#include <stdio.h>

#include "simd/kernels.h"

/* Rounding to steps of range / 255 leaves noise of (range / 255)^2 / 12: for a uniform signal -59
   dB, for real ones -40 to -30 dB. Above this share of the signal's power, -20 dB, an input is
   worth a name. */
#define LOSSY 0.01

enum { LOSSY_SHOWN = 8 };

struct lossy_input {
    uint32_t index; /* of struct tft_input */
    double error;   /* |x - q(x)|^2 / |x|^2 */
    struct tft_affine affine;
};

/* Starts from all zero. */
struct lossy {
    uint32_t inputs, n; /* how many there are, and how many of them are above LOSSY */
    struct lossy_input worst[LOSSY_SHOWN]; /* the worst of those, worst first */
};

void lossy_add(struct lossy *l, struct lossy_input input);

/* How many are in worst. */
uint32_t lossy_shown(const struct lossy *l);

/* The range that an input's bytes cover. */
double lossy_min(const struct lossy_input *input);
double lossy_max(const struct lossy_input *input);

/* For people, of a model of so many layers. Nothing if there are none. */
void lossy_print(FILE *f, const struct lossy *l, uint32_t n_layer);

#endif
