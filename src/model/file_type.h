/* The number type of a model's file, by the name that other programs have for it. */
#ifndef TFT_MODEL_FILE_TYPE_H
#define TFT_MODEL_FILE_TYPE_H

#include "file/file.h"

/* "Q4_K_M", by general.file_type; without it, the type with most bytes of all tensors: "Q4_K". A
   constant. */
const char *tft_file_type(const struct tft_source *s);

#endif
