/* W8A8 models of well-known shapes with random weights, so that speed can be measured without
   any. */
#ifndef SHAPE_H
#define SHAPE_H

#include <stdbool.h>

#include "tuffet.h"

#define SHAPE_NAMES "smollm2-135m|qwen2.5-0.5b|llama-3.2-1b"

/* Writes the file. `progress` (or NULL) is told 0..1 now and then, and stops it by returning false:
   TFT_OK then, and no file. TFT_ERR_ARG for a name that is none of SHAPE_NAMES. */
enum tft_status shape_write(const char *name, const char *path, bool (*progress)(double done),
                            struct tft_error *err);

#endif
