/* Which files of a repository are the model. */
#ifndef PULL_CHOICE_H
#define PULL_CHOICE_H

#include "files.h"

enum choice {
    CHOICE_GGUF,   /* some: a GGUF file, or all parts of a split one, the first part first */
    CHOICE_FOLDER, /* some: config.json and the files beside it, without shards of an index */
    CHOICE_NONE,   /* no file is a model, or none has this name */
    CHOICE_MANY,   /* several are, and none is the default */
    CHOICE_PARTS,  /* a part of the split file is missing */
    CHOICE_MEMORY, /* out of memory */
};

/* Chooses among `all` and adds to `some`. quant: a part of the file's name that ends before "." or
   "-", or its whole path, in capitals or not; empty: Q4_K_M, or else Q8_0, or else the only file,
   or else a folder of safetensors. */
enum choice choice_make(const struct pull_files *all, const char *quant, struct pull_files *some);

/* Whether a path may be the model itself: a GGUF file, and of a split one the first part. */
bool choice_is_model(const char *path);

/* Whether `quant` of choice_make chooses the path. */
bool choice_matches(const char *path, const char *quant);

/* The part of a file's name that chooses it, "Q4_K_M" of "dir/x-Q4_K_M-00001-of-00002.gguf".
   Returns its length; *label is in path. */
size_t choice_label(const char *path, const char **label);

/* How many parts the file has by its name; 1: it is not split. *prefix: the length of the path
   before "-00001-of-". *no: which part it is, from 1. */
unsigned choice_parts(const char *path, size_t *prefix, unsigned *no);

#endif
