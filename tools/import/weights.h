/* Copies the tensors of a folder, one after another, into a GGUF file. */
#ifndef IMPORT_WEIGHTS_H
#define IMPORT_WEIGHTS_H

#include "opts.h"
#include "work.h"

struct import_weights {
    const struct import_opts *o;
    struct import_result *r;

    /* private */
    const char *prefix; /* of the folder's names */
    bool tied;
    bool writing;    /* in the second pass, which writes data; the first describes tensors */
    double all, done; /* bytes to read */
};

/* Finds the prefix of the folder's names, and sets im->n_vocab: from config.json, or else to the
   rows of the embedding. */
void import_weights_begin(struct import *im, struct import_weights *w);

/* Describes all tensors. Fails if one is missing, has another shape, or is unknown. */
void import_weights_describe(struct import *im, struct import_weights *w);

/* Writes their data, a row at a time. */
void import_weights_write(struct import *im, struct import_weights *w);

#endif
