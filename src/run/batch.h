/* What a session takes from the batch that it is opened with. */
#ifndef TFT_BATCH_H
#define TFT_BATCH_H

#include "work.h"

struct tft_batch;

/* The workspace of its passes. */
struct tft_work *tft_batch_work(const struct tft_batch *b);

#endif
