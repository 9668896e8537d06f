/* Values of a file that nothing has read. */
#ifndef TFT_UNREAD_H
#define TFT_UNREAD_H

#include "model/load.h"

/* Marks the values ARCH.KEY that count as absent: tft_value.ignored. */
void tft_unread_mark(struct tft_load *ld);

/* Fails if a value ARCH.KEY was not read, although it may change what the model computes. Values of
   other names describe the file, or are the tokenizer's and tuffet's own. */
void tft_unread_refuse(struct tft_load *ld);

#endif
