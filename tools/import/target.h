/* A tensor of the GGUF file: the source of its numbers, their changes, and writing, a row at a
   time. */
#ifndef IMPORT_TARGET_H
#define IMPORT_TARGET_H

#include "arch.h"

enum { IMPORT_MOST_NAME = 192 };

struct import_target {
    const struct import_tensor *rule;
    unsigned layer;
    char name[64], from[IMPORT_MOST_NAME]; /* from: the name in the folder; the first one of a
                                              stack */
    const struct safetensor *tensor;
    const unsigned char *data;
    enum tft_dtype type;
    float factor;  /* of NVFP4, in a tensor NAME.scale; 0: there is no such tensor */
    unsigned bits; /* of panels in a W8A8 file: 8, 4, 3 or 2; 0: the tensor has `type` */
    uint32_t n_dims;
    uint64_t ne[4];      /* the shape in the GGUF file */
    uint64_t rows, cols; /* the tensor as rows of `cols` neighbouring numbers */
};

/* The size that a letter of a shape stands for (arch.h). */
uint64_t import_dimension(const struct import *im, char letter);

/* Finds the tensor of the folder with the name `prefix` and one of the alternatives in `from`.
   index: the number within a stack. Writes the name to `name`, even if there is no such tensor. */
struct safetensor *import_find_name(const struct import *im, const char *prefix, const char *from,
                                    unsigned layer, unsigned index, char name[IMPORT_MOST_NAME],
                                    const unsigned char **data);

/* The same for the names of a rule, with the prefix of the folder's names. */
struct safetensor *import_find_rule(const struct import *im, const char *prefix,
                                    const struct import_tensor *rule, unsigned layer,
                                    unsigned index, char name[IMPORT_MOST_NAME],
                                    const unsigned char **data);

/* Whether rows change their order. */
bool import_moves_rows(const struct import *im, const struct import_tensor *rule);

/* The row of the tensor in the folder that becomes row r. */
uint64_t import_source_row(const struct import *im, const struct import_target *t, uint64_t r);

/* A row as codes and scales: its numbers are code * scale. */
struct import_codes {
    float *code, *scale; /* [cols] */
    float *spare;
};

/* False, and a failure, if there is no memory; import_codes_close must follow all the same. */
bool import_codes_open(struct import *im, struct import_codes *s, uint64_t cols);
void import_codes_close(struct import_codes *s);

/* Reads row r of the target. Numbers without codes have the scale 1. */
void import_read_codes(const struct import *im, const char *prefix, const struct import_target *t,
                       uint64_t r, struct import_codes *s);

/* Fails if a number of the row is NaN or infinity. */
void import_check_codes(struct import *im, const struct import_target *t,
                        const struct import_codes *s);

/* The smallest type of GGUF that holds a quantized matrix as it is; NVFP4 only if the target has a
   factor. Reads all of it. */
enum tft_dtype import_type_of_codes(struct import *im, const char *prefix,
                                    const struct import_target *t);

/* Whether to continue: false after a failure. The caller that closes the file reports errors of the
   writer, such as a full disk. */
bool import_goes_on(const struct import *im);

void import_write_data(struct import *im, const char *prefix, const struct import_target *t);

/* Writes row[cols] as numbers of the target's type, F32, F16 or BF16. half: [cols] of scratch. */
void import_write_row(struct import *im, const struct import_target *t, const float *row,
                      uint16_t *half);

/* Releases the memory of tensors of the folder that have been written. */
void import_forget_source(const struct import *im, const char *prefix,
                          const struct import_target *t);

#endif
