/* Numbers at the ends of their ranges at calibration, as the file tells. */
#ifndef TFT_MODEL_ENDS_H
#define TFT_MODEL_ENDS_H

#include "model/model.h"

/* The share of the input with this index (tft_input_index), 0..1; NaN if the file does not have
   it. */
double tft_input_ends(const struct tft_model *m, uint32_t index);

#endif
