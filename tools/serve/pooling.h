/* Pooling: how a model makes one vector of a text, by its file or the program's options. */
#ifndef SERVE_POOLING_H
#define SERVE_POOLING_H

#include "tuffet.h"

/* The pooling of that name; without a name, the one of the model's file, or else the mean; never
   TFT_POOLING_NONE. False after an error message: no such pooling. */
bool pooling_choose(enum tft_pooling *p, const char *name, const struct tft_model *m);

/* Whether the model has no sessions here, and makes vectors or scores alone: an encoder or a
   reranker. */
bool pooling_is_all(const struct tft_model *m, enum tft_pooling pooling);

#endif
