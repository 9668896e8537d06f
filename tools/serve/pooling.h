/* Pooling: how a model makes one vector of a text, by its file or the program's options. */
#ifndef SERVE_POOLING_H
#define SERVE_POOLING_H

#include "tuffet.h"

/* How the vectors of a text's tokens become one. */
enum pooling {
    POOLING_MEAN,
    POOLING_LAST,  /* the last token's */
    POOLING_OTHER, /* the file asks for an unsupported one */
};

/* The pooling of that name; without a name, the one of the model's file, or else the mean. False
   after an error message: no such pooling. */
bool pooling_choose(enum pooling *p, const char *name, const struct tft_model *m);

/* Whether a text ends in EOS, as in models trained for the vector of the last token. */
bool pooling_adds_eos(const struct tft_model *m);

#endif
