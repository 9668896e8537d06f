/* Models that are split into several GGUF files (llama.cpp, gguf-split): NAME-00001-of-0000N.gguf
   and so on. */
#ifndef TFT_SPLIT_H
#define TFT_SPLIT_H

#include "file.h"

/* Whether a GGUF file is a part: split.count is above 1. */
bool tft_split_is_part(const struct tft_source *s);

/* Opens the other parts of s, which is any one of them and was opened at `at`: s becomes the whole
   model, with the values of the first part and the tensors of all. After a failure, s is closed. */
enum tft_status tft_split_join(struct tft_source *s, const struct tft_place *at,
                               struct tft_error *err);

#endif
