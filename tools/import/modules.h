/*
 * Folders of sentence-transformers: modules.json lists what comes after the transformer. Pooling
 * becomes a value, Dense without a bias and an activation becomes a tensor, Normalize is what
 * embedding does anyway; others are refused by name. Prompts of config_sentence_transformers.json
 * become values.
 */
#ifndef IMPORT_MODULES_H
#define IMPORT_MODULES_H

#include "work.h"

/* The modules of a folder; all NULL and 0 if it has no modules.json. */
struct import_modules {
    json_t *list, *pooling, *prompts; /* modules.json, the module Pooling's config.json,
                                         config_sentence_transformers.json */
    size_t n_dense;
};

/* Reads modules.json, and adds the matrices of Dense modules to the folder's tensors, with the
   names "dense.0.weight" and "dense.1.weight". import_modules_close must follow, also on
   failure. */
enum tft_status import_modules_open(struct import_modules *m, struct import_folder *f,
                                    struct tft_error *err);
void import_modules_close(struct import_modules *m);

/* Writes the values. */
void import_modules_values(struct import *im, const struct import_modules *m);

#endif
