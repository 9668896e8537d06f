/* Runs of the calibration text through a layer, which count its inputs. */
#ifndef QUANTIZE_CONVERT_RUNS_H
#define QUANTIZE_CONVERT_RUNS_H

#include "tools/quantize/convert/conversion.h"

/* After each window; user: the conversion. */
bool runs_on_window(void *user, double done);

/* Inputs of matrices that get few bits, as bits (1 << which). */
uint32_t runs_to_round(const struct conversion *c, struct tft_layer *b);

/* With correlations, one input after another is measured, with the errors of the matrices before
   it, and its matrices are rounded. */
uint32_t runs_stages(const struct conversion *c, struct tft_layer *b);

/* Sums the moments of the next input of `left` in a run of the text through the layer; without
   correlations, of all of them. */
void runs_moments(struct conversion *c, uint32_t l, uint32_t left);

/* Runs the text through the layer, to count its inputs. If weights will be rounded to few bits,
   this only measures: the text goes on after the rounding. */
void runs_measure(struct conversion *c, uint32_t l);

/* The ranges of an input (tft_input_index); of all inputs of layer l. */
void runs_finish_input(struct conversion *c, uint32_t index);
void runs_finish_inputs(struct conversion *c, uint32_t l);

#endif
