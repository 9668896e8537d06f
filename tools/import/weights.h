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
    unsigned first;     /* the block of the file whose names in the folder have the number 0 */
    bool tied;
    enum { IMPORT_PLAN, IMPORT_DESCRIBE, IMPORT_WRITE } pass;
    struct import_plan {
        enum tft_dtype type;
        uint8_t bits; /* of panels, or 0, as in struct import_target */
        bool coded;   /* the folder has the matrix as codes */
        float factor; /* of NVFP4, as in struct import_target */
        uint64_t cols;
    } *plan; /* [n_plan] in the order of the targets */
    size_t n_plan, at;
    uint64_t ends;    /* weights of -128 in W8A8 files */
    size_t with_ends; /* their matrices */
    double ends_rms;  /* the largest of these matrices' errors */
    double all, done; /* bytes to read */
};

/* Finds the prefix of the folder's names, and sets im->n_vocab: from config.json, or else to the
   rows of the embedding. */
void import_weights_begin(struct import *im, struct import_weights *w);

/* Chooses the types of all tensors. Fails if one is missing or has another shape. Quantized
   matrices are read. import_weights_end must follow, also on failure. */
void import_weights_plan(struct import *im, struct import_weights *w);
void import_weights_end(struct import_weights *w);

/* Writes the values of a W8A8 file, if the plan is one: after all other values. */
void import_weights_values(struct import *im, const struct import_weights *w);

/* Describes all tensors. Fails if one is unknown. */
void import_weights_describe(struct import *im, struct import_weights *w);

/* Writes their data, a row at a time. */
void import_weights_write(struct import *im, struct import_weights *w);

#endif
