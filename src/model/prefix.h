/* The prefixes of a model file: keys and values that come before every sequence. CushionCache
   (section 4), IntactKV. keys.h has their keys and tensors. */
#ifndef TFT_PREFIX_H
#define TFT_PREFIX_H

#include "model/load.h"

/* Sets m->prefix_bos, all that a tokenizer opened by itself has to know of the prefix. */
void tft_prefix_bos(struct tft_load *ld);

/* Load the prefix, and the named prefixes. Call them in this order, after the architecture has
   loaded. */
void tft_prefix_load(struct tft_load *ld);
void tft_prefix_load_named(struct tft_load *ld);

#endif
