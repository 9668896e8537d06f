/* Random operands of the kernels on integers. All is freed after the case. */
#ifndef TFT_CHECK_DATA_H
#define TFT_CHECK_DATA_H

#include "check.h"

/* ---- products of bytes */

struct check_product {
    size_t M, N, cols, ldx, ldy, step;
    int add;
    uint8_t *x;
    float *bias, *y; /* bias perhaps NULL; y as it is before */
    struct tft_affine *xq;
    struct tft_panels w;
};

/* One byte of a kind of data: 0, 255, or at random; a weight: -127, 127, either of them, or at
   random. */
uint8_t check_byte(struct check *c, size_t kind);
int8_t check_weight(struct check *c, size_t kind);

/* A power of two now and then, so that numbers are exact and ties occur. */
struct tft_affine check_affine(struct check *c);

struct check_product check_product(struct check *c, size_t M, size_t N, size_t cols,
                                   size_t byte_kind, size_t weight_kind);

/* ---- blocks of codes */

struct check_block {
    struct tft_coded b;
    size_t rows, columns; /* of a panel's rows and columns: padding too */
    uint8_t *code;        /* [rows, columns] */
    unsigned levels[TFT_CODED_SPAN];
};

/* How many quads of keys of `dim` channels have how many bits: where `bits` is TFT_BITS_COUNT, as
   is drawn. */
void check_quads(struct check *c, uint16_t quads[TFT_BITS_COUNT], size_t dim, enum tft_bits bits);

struct check_block check_keys(struct check *c, size_t tokens, size_t dim, size_t group,
                              const uint16_t quads[TFT_BITS_COUNT]);
struct check_block check_values(struct check *c, size_t tokens, size_t dim, size_t group,
                                enum tft_bits bits);

/* Numbers to be folded: sometimes all of one size or all alike, so that their sums are the largest
   there are, sometimes too small, sometimes with what is no number or not finite. */
void check_fill_factors(struct check *c, float *x, size_t n);

#endif
