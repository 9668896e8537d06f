/* Writes W8A8 models with the shapes of well-known models and random weights, so that speed can be
   measured without a model. */
#ifndef SHAPE_H
#define SHAPE_H

#include <stdbool.h>

#include "tuffet.h"

#define SHAPE_NAMES "smollm2-135m|qwen2.5-0.5b|llama-3.2-1b"

/* Writes the model `name` to a file. progress: NULL, or called from time to time with done = 0 ..
   1; if it returns false, the writing stops, and the result is TFT_OK without a file. TFT_ERR_ARG
   if the name is not one of SHAPE_NAMES. */
enum tft_status shape_write(const char *name, const char *path, bool (*progress)(double done),
                            struct tft_error *err);

#endif
