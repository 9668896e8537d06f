/* Opening models of the registry in ways that the public header does not have. */
#ifndef TFT_MODELS_OPEN_H
#define TFT_MODELS_OPEN_H

#include "model/model.h"

/* tft_model_open, but tensors that no format uses in place are not expanded: for tools that take
   such a matrix one row at a time. Sessions of such a model cannot compute. */
enum tft_status tft_model_open_unexpanded(struct tft_model **out, const char *path,
                                          const struct tft_model_opts *opts, struct tft_error *err);

#endif
