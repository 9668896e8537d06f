/*
 * A model of floats to one of W8A8: weights int8, and for every linear layer's input a scale and a
 * zero-point fixed from text (CushionCache, section 3; DESIGN 3). The conversion goes through the
 * model once, a layer at a time, with the whole calibration text:
 *
 *      x = embed(text)
 *      for each layer:   expand its weights to f32;  x = layer(x), watching what each linear layer
 *                        takes;
 *                        scales from what was seen;  fold, rotate, quantize and write the weights
 *
 * (where the residual stream is rotated, x is from the start, and so are the weights as soon as
 * they are expanded: all that follows sees another model of the same outputs) so that what is in
 * memory is a layer's weights, x, and the statistics of one layer.
 */
#ifndef QUANTIZE_QUANTIZE_H
#define QUANTIZE_QUANTIZE_H

#include "tools/quantize/inputs.h"
#include "tools/quantize/options.h"

/* m: opened by tft_model_open_unexpanded, and afterwards as it was. result: [inputs]. On failure
   there is no file, and err says why; TFT_OK without a file if *stopped. */
enum tft_status quantize(struct tft_model *m, const char *path, const struct quantize_opts *o,
                         struct quantize_input *result, bool *stopped, struct tft_error *err);

#endif
