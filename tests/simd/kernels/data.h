/* Random operands for kernels on integers, in buffers of check_buf. */
#ifndef TFT_CHECK_DATA_H
#define TFT_CHECK_DATA_H

#include "check.h"

/* ---- gemm_i8 */

struct check_product {
    size_t M, N, cols, ldx, ldy, step; /* as in struct tft_gemm_i8; step is xq_step */
    size_t used; /* cols of struct tft_gemm_i8 */
    int add;
    uint8_t *x;
    float *bias, *y; /* bias may be NULL; y before the product */
    struct tft_affine *xq;
    struct tft_panels w;
};

/* A byte: 0 if kind is 0, 255 if it is 1, otherwise random. */
uint8_t check_byte(struct check *c, size_t kind);
/* A weight: -127 if kind is 0, 127 if it is 1, one of the two if it is 2, otherwise random. */
int8_t check_weight(struct check *c, size_t kind);

/* The scale is sometimes a power of two, so that numbers are exact and ties occur. */
struct tft_affine check_affine(struct check *c);

struct check_product check_product(struct check *c, size_t M, size_t N, size_t cols,
                                   size_t byte_kind, size_t weight_kind);

/* ---- blocks of codes */

struct check_block {
    struct tft_coded b;
    size_t rows, columns; /* of the panels, with padding */
    uint8_t *code;        /* [rows, columns] */
    unsigned levels[TFT_CODED_DIM]; /* [columns] */
};

/* The quads of keys of `dim` channels: all of width `bits`, or random if bits is TFT_BITS_COUNT. */
void check_quads(struct check *c, uint16_t quads[TFT_BITS_COUNT], size_t dim, enum tft_bits bits);

struct check_block check_keys(struct check *c, size_t tokens, size_t dim, size_t group,
                              const uint16_t quads[TFT_BITS_COUNT]);
struct check_block check_values(struct check *c, size_t tokens, size_t dim, size_t group,
                                enum tft_bits bits);

/* Numbers to be folded. Sometimes all have one magnitude or are equal, which gives the largest
   sums; sometimes they are too small to be folded, or one is NaN, infinite or huge. */
void check_fill_factors(struct check *c, float *x, size_t n);

#endif
