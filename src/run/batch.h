/* The part of a batch that its sessions use. */
#ifndef TFT_BATCH_H
#define TFT_BATCH_H

#include "work.h"

struct tft_batch;

/* The workspace of its passes. */
struct tft_work *tft_batch_work(const struct tft_batch *b);

#endif
