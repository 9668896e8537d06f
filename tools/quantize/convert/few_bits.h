/* Rounds the matrices of a layer that get few bits: to codes (round/low_bits.h), or to blocks of a
   plain GGUF file (round/grid.h). */
#ifndef QUANTIZE_CONVERT_FEW_BITS_H
#define QUANTIZE_CONVERT_FEW_BITS_H

#include "tools/quantize/convert/conversion.h"

/* l: after convert_prepare. */
void few_bits_round(struct conversion *c, uint32_t l);

/* The text goes on through the rounded layer; the layer's inputs give the ranges. */
void few_bits_run(struct conversion *c, uint32_t l);

#endif
