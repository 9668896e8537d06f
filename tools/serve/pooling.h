/* Pooling: how a model makes one vector of a text, by its file or the program's options. */
#ifndef SERVE_POOLING_H
#define SERVE_POOLING_H

#include "tuffet.h"

/* The pooling of that name; without a name, the one of the model's file, or else the mean; never
   TFT_POOLING_NONE. False after an error message: no such pooling. */
bool pooling_choose(enum tft_pooling *p, const char *name, const struct tft_model *m);

#endif
