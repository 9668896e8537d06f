/* Types of GGUF that hold a quantized matrix without loss. A matrix is seen row by row, as codes
   and scales; what remains possible after the last row is chosen from. */
#ifndef IMPORT_BLOCKS_H
#define IMPORT_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "file/file.h"

enum { IMPORT_BLOCK = 32 };

struct import_blocks {
    bool q2_0, q4_0, q4_1, q8_0, mxfp4, nvfp4; /* codes */
    bool bf16, f16;                            /* the numbers */
    float factor;                              /* of all numbers, for NVFP4 */
};

/* All types are possible for rows of so many numbers. factor: of a matrix that may be NVFP4, which
   has it beside its blocks; else 0. */
struct import_blocks import_blocks_all(uint64_t cols, float factor);

/* Excludes types. False if only F32 is left. */
bool import_blocks_see(struct import_blocks *b, const float *code, const float *scale,
                       uint64_t cols);

/* The smallest type. */
enum tft_dtype import_blocks_type(const struct import_blocks *b);

/* Whether a type has codes. */
bool import_blocks_has(enum tft_dtype type);

/* to: a row of such a type, with the numbers code * scale; of NVFP4, over the factor. */
void import_blocks_row(unsigned char *to, enum tft_dtype type, const float *code,
                       const float *scale, uint64_t cols, float factor);

#endif
