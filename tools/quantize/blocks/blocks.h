/*
 * Floats to blocks of ggml's types, for plain GGUF files. src/file/dequant.c reads the blocks, and
 * dequant.h names who defines them.
 *
 *   fit.h       the scale, or the scale and the minimum, with the least cost
 *   of_32.c     Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0: blocks of 32 numbers with one scale
 *   of_256.c    Q3_K to Q6_K: blocks of 256 numbers, scales of scales
 *
 * A number costs its weight times the square of its error. The weight of a column is the mean
 * square of the input that it is multiplied by, so that the cost is the expected square of the
 * product's error, if the errors of columns are uncorrelated.
 */
#ifndef QUANTIZE_BLOCKS_BLOCKS_H
#define QUANTIZE_BLOCKS_BLOCKS_H

#include "file/file.h"

/* Whether blocks_row writes a type: F32, F16, BF16, and the types above. */
bool blocks_writes(enum tft_dtype type);

/* to: the n numbers x as `type`; n is a multiple of its block. x: finite. weight: [n], not
   negative, not all 0. */
void blocks_row(unsigned char *to, enum tft_dtype type, const float *x, const float *weight,
                size_t n);

/* Types whose codes can be chosen apart from the scales (round/grid.h): the number of codes, 8 to
   64; 0: another type. blocks_codes writes the codes of n numbers into blocks whose scales it
   keeps. */
unsigned blocks_levels(enum tft_dtype type);
void blocks_codes(unsigned char *to, enum tft_dtype type, const uint8_t *code, size_t n);
void codes_q4_0(unsigned char *to, const uint8_t *code);
void codes_q4_1(unsigned char *to, const uint8_t *code);
void codes_q5_0(unsigned char *to, const uint8_t *code);
void codes_q5_1(unsigned char *to, const uint8_t *code);
void codes_q3_k(unsigned char *to, const uint8_t *code);
void codes_q4_k(unsigned char *to, const uint8_t *code);
void codes_q5_k(unsigned char *to, const uint8_t *code);
void codes_q6_k(unsigned char *to, const uint8_t *code);

/* One block each, as blocks_row. */
void blocks_q4_0(unsigned char *to, const float *x, const float *weight);
void blocks_q4_1(unsigned char *to, const float *x, const float *weight);
void blocks_q5_0(unsigned char *to, const float *x, const float *weight);
void blocks_q5_1(unsigned char *to, const float *x, const float *weight);
void blocks_q8_0(unsigned char *to, const float *x, const float *weight);
void blocks_q3_k(unsigned char *to, const float *x, const float *weight);
void blocks_q4_k(unsigned char *to, const float *x, const float *weight);
void blocks_q5_k(unsigned char *to, const float *x, const float *weight);
void blocks_q6_k(unsigned char *to, const float *x, const float *weight);

#endif
