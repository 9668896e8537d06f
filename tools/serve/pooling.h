/* How a model makes one vector of a text: by what its file says, or the program's options. */
#ifndef SERVE_POOLING_H
#define SERVE_POOLING_H

#include "tuffet.h"

/* What becomes of the vectors of a text's tokens. */
enum pooling {
    POOLING_MEAN,
    POOLING_LAST,  /* that of the last token */
    POOLING_OTHER, /* the file asks for one that tuffet does not have */
};

/* The pooling of that name; without a name, that of the model's file, or else the mean. False after
   an error message: there is no such pooling. */
bool pooling_choose(enum pooling *p, const char *name, const struct tft_model *m);

/* Whether a text ends in EOS, as for models that were trained for the vector of the last token. */
bool pooling_adds_eos(const struct tft_model *m);

#endif
