/* A matrix that a folder holds as codes and scales, and its numbers, row by row. quantized.c finds
   such matrices. */
#ifndef IMPORT_MATRIX_H
#define IMPORT_MATRIX_H

#include "safetensors.h"

/* A tensor that a matrix is made of; all NULL: the matrix has none. */
struct import_part {
    const struct safetensor *t;
    const unsigned char *data;
    const struct safetensors *shard;
};

enum import_form {
    IMPORT_INT8,   /* I8 [rows, cols] */
    IMPORT_PACKED, /* a stream of bits for each row, in words or bytes; less 2^(bits-1) */
    IMPORT_GPTQ,   /* a stream of bits down each column of the tensor, which is a row of the
                       matrix */
    IMPORT_AWQ,    /* 8 rows in a word */
    IMPORT_FP8,    /* e4m3 */
    IMPORT_FP4,    /* e2m1, two in a byte, the low half first */
    IMPORT_FORMS
};

/* A number of row r and column c is (code - zero) * scale. A scale and a zero point are for `tall`
   rows and `wide` columns. */
struct import_matrix {
    struct safetensor as; /* how the import sees it: as.matrix is this matrix */
    enum import_form form;
    struct import_part codes, scale, zero;
    struct import_part index;  /* the group of each column, in place of c / wide */
    struct import_part factor; /* one number that all scales are multiplied by, or divided by */
    struct import_part input, input_zero; /* the static range of the matrix's inputs */
    bool divides;                         /* scales are divided by the factor */
    bool old_words; /* PACKED: no code is in two words; the upper bits of a word are unused */
    bool less_1;    /* GPTQ: zero points are stored as one less */
    unsigned bits;
    uint64_t rows, cols, tall, wide;
    uint64_t across, down; /* scales of a row, of a column */
    char name[192];        /* of `as` */
};

/* The numbers of row r: code[cols], which have the zero point subtracted, times scale[cols]. */
void import_matrix_row(const struct import_matrix *m, uint64_t r, float *code, float *scale);

/* Whether the zero points can be used: those of old GPTQ folders may be damaged. */
bool import_matrix_zeros_fit(const struct import_matrix *m);

/* The number that all scales are multiplied by; 0: there is none. */
float import_matrix_factor(const struct import_matrix *m);

/* The first number of a tensor of floats. */
float import_part_number(const struct import_part *p);

/* Releases the memory of the pages of a matrix, as import_folder_forget does. */
void import_matrix_forget(const struct import_matrix *m);

#endif
