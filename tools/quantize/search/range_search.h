/*
 * Finds the inputs that lose most with a static range. A static range covers the numbers of the
 * calibration text. A token that is an outlier each time it comes, like the template's tokens in
 * some models, widens the range for all others, or is clipped. No prefix takes such tokens, because
 * they come again and again. A per-token range covers them, at a cost in time (docs/quantize.md).
 *
 * The loss of an input is measured with per-token ranges at every other input: the divergence of
 * the model's predictions from the predictions with per-token ranges everywhere. So losses do not
 * mask each other, and are nearly additive. In models of many blocks, all inputs of a block are
 * measured together, and the inputs of the worst blocks one by one; the loss of any other block is
 * distributed to its inputs in the same shares.
 */
#ifndef QUANTIZE_SEARCH_RANGE_SEARCH_H
#define QUANTIZE_SEARCH_RANGE_SEARCH_H

#include "model/model.h"
#include "tools/quantize/measure/divergence.h"

struct range_search {
    double *nats;    /* [tft_model_inputs] of each input that is static; else 0 */
    uint32_t *order; /* [n] the static inputs, largest loss first */
    uint32_t n;
};

/* m: a W8A8 model, opened by tft_model_open; its ranges are the same on return. o: the text.
   TFT_OK, and *r is not usable, if *stopped. The caller frees *r. */
enum tft_status range_search(struct range_search *r, struct tft_model *m,
                             const struct divergence_opts *o, bool *stopped, struct tft_error *err);
void range_search_free(struct range_search *r);

/* The input with this index (tft_input_index). */
struct tft_input *range_search_input(struct tft_model *m, uint32_t index);

#endif
