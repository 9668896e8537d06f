/* Writes W8A8 models with the shapes of well-known models and random weights, so that speed can be
   measured without a model. */
#ifndef SHAPE_H
#define SHAPE_H

#include <stdbool.h>

#include "tuffet.h"

#define SHAPE_NAMES "smollm2-135m|qwen2.5-0.5b|llama-3.2-1b"

/* The columns of a group of codes. */
enum { SHAPE_GROUP = 64 };

/* Writes the model `name` with weights of 8, 4, 3 or 2 bits to a file. progress: NULL, or called from time to time with done = 0 ..
   1; if it returns false, the writing stops, and the result is TFT_OK without a file. TFT_ERR_ARG
   if the name is not one of SHAPE_NAMES, or there are no such weights. */
enum tft_status shape_write(const char *name, unsigned bits, const char *path,
                            bool (*progress)(double done), struct tft_error *err);

#endif
