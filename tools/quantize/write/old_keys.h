#ifndef QUANTIZE_OLD_KEYS_H
#define QUANTIZE_OLD_KEYS_H

#include "file/file.h"

/* Whether a key describes the old file itself and not the model, such as its checksum. Of tuffet's
   own keys the form of GELU and the prompts for embeddings are the model's. */
bool describes_old_file(struct tft_str key);

/* Whether a key of these names the types of the tensors. */
bool describes_types(struct tft_str key);

#endif
