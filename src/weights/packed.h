/* The list of packed formats, a row for each type. Only src/weights/ and tests use the list. */
#ifndef TFT_WEIGHTS_PACKED_H
#define TFT_WEIGHTS_PACKED_H

#include "weights/format.h"
#include "weights/split.h"

enum { TFT_PACKED_FORMATS = 25 };
extern const struct tft_format tft_packed_formats[TFT_PACKED_FORMATS];

#endif
