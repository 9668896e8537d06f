/*
 * W8A8 files of folders with int8 inputs: matrices become panels, with the folder's codes where
 * panels hold them, and inputs have the folder's ranges (docs/file-format.md).
 */
#ifndef IMPORT_W8A8_H
#define IMPORT_W8A8_H

#include "target.h"

/* The change of a matrix, relative to each row. */
struct import_loss {
    bool codes;        /* some row was rounded from numbers that are no codes of int8 */
    uint64_t ends;     /* codes of -128 that became -127 */
    double largest;    /* error of a number, relative to the row's largest */
    double error, all; /* squares of the errors and of the numbers, summed */
};

/* Whether the architecture's matrices are those of a W8A8 file, one for one. */
bool import_w8a8_fits(const struct import *im);

/* Allocates the inputs: all have ranges by token. */
void import_w8a8_begin(struct import *im);
void import_w8a8_free(struct import *im);

/* Whether a target is a matrix, which a W8A8 file holds as panels. */
bool import_w8a8_is_matrix(const struct import_target *t);

/* The bits of the panels that hold the target: 2, 3 or 4 if all codes fit, else 8. Takes the range
   of the target's inputs. */
unsigned import_w8a8_plan(struct import *im, const char *prefix, const struct import_target *t);

/* The group of codes in rows of `cols`. */
unsigned import_w8a8_group(uint64_t cols);

/* Writes the values. codes: [n] bits + 256 * group, as TFT_KEY_WEIGHT_CODES. */
void import_w8a8_values(struct import *im, const int32_t *codes, size_t n);

/* Describes the target's three tensors, and returns their bytes; and writes their data. */
uint64_t import_w8a8_describe(struct import *im, const struct import_target *t);
void import_w8a8_write(struct import *im, const char *prefix, const struct import_target *t,
                       struct import_loss *loss);

#endif
