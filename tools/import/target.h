/* One tensor of the GGUF file: where its numbers are, what becomes of them, and how they are
   written, a row at a time. */
#ifndef IMPORT_TARGET_H
#define IMPORT_TARGET_H

#include "arch.h"

enum { IMPORT_MOST_NAME = 192 };

struct import_target {
    const struct import_tensor *rule;
    unsigned layer;
    char name[64], from[IMPORT_MOST_NAME]; /* from: of a stack, the first of it */
    const struct safetensor *tensor;
    const unsigned char *data;
    enum tft_dtype type;
    uint32_t n_dims;
    uint64_t ne[4];      /* in the GGUF file */
    uint64_t rows, cols; /* as it is gone through: rows of numbers that stay together */
};

/* Whether `name` ends so. */
bool import_ends(const char *name, const char *with);

/* What a letter of a shape stands for (arch.h). */
uint64_t import_dimension(const struct import *im, char letter);

/* The folder's tensor of one of the names `from` behind `prefix`; index: which of a stack. Its name
   is put into `name`, also if there is none. */
struct safetensor *import_find_name(const struct import *im, const char *prefix, const char *from,
                                    unsigned layer, unsigned index, char name[IMPORT_MOST_NAME],
                                    const unsigned char **data);

/* The same of a rule; `prefix`: of the folder's names. */
struct safetensor *import_find_rule(const struct import *im, const char *prefix,
                                    const struct import_tensor *rule, unsigned layer,
                                    unsigned index, char name[IMPORT_MOST_NAME],
                                    const unsigned char **data);

/* Whether rows do not keep their order. */
bool import_moves_rows(const struct import *im, const struct import_tensor *rule);

/* False after a failure. An error of the writer, such as a full disk, is reported where the file is
   closed. */
bool import_goes_on(const struct import *im);

void import_write_data(struct import *im, const char *prefix, const struct import_target *t);

#endif
