/*
 * Which inputs lose most with a range that is fixed beforehand. A static range holds what the
 * calibration text has; a token that is an outlier each time it comes, as those of a template are
 * in some models, widens it for all others, or is clipped. No prefix takes such tokens, because
 * they come again and again. A range by token holds them, at a cost in time (docs/quantize.md).
 *
 * The loss of an input is measured alone, where every other input has ranges by token: the
 * divergence of the model's predictions from those with ranges by token everywhere. So losses do
 * not hide behind each other, and are nearly additive. In models of many blocks, all inputs of a
 * block are measured together, and those of the worst blocks one by one; what the inputs of the
 * others lose is shared out as in these.
 */
#ifndef QUANTIZE_SEARCH_RANGE_SEARCH_H
#define QUANTIZE_SEARCH_RANGE_SEARCH_H

#include "model/model.h"
#include "tools/quantize/measure/divergence.h"

struct range_search {
    double *nats;    /* [tft_model_inputs] of each input that is static; else 0 */
    uint32_t *order; /* [n] the static inputs, that with the largest loss first */
    uint32_t n;
};

/* m: a W8A8 model, as tft_model_open gives it; its ranges are the same on return. o: the text.
   TFT_OK, and *r is of no use, if *stopped. The caller frees *r. */
enum tft_status range_search(struct range_search *r, struct tft_model *m,
                             const struct divergence_opts *o, bool *stopped, struct tft_error *err);
void range_search_free(struct range_search *r);

/* The input with this index (tft_input_index). */
struct tft_input *range_search_input(struct tft_model *m, uint32_t index);

#endif
