/* The factors of a layer's inputs, which fold.h divides them by. */
#ifndef QUANTIZE_CONVERT_FACTORS_H
#define QUANTIZE_CONVERT_FACTORS_H

#include "tools/quantize/convert/conversion.h"

/* SmoothQuant: runs the layer once without smoothing, to choose the factors. */
void factors_smooth(struct conversion *c, struct tft_layer *b, uint32_t l);

/* AWQ: chooses the factors of all inputs, from moments and weights that are rotated already. */
void factors_awq(struct conversion *c, struct tft_layer *b);

#endif
