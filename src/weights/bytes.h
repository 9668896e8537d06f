/* Shared functions of the two formats of W8A8 files: int8 panels (i8.c) and panels of codes
   (low.c). */
#ifndef TFT_WEIGHTS_BYTES_H
#define TFT_WEIGHTS_BYTES_H

#include <float.h>

#include "weights/format.h"

/* The product p with rows [begin, end) of a matrix: scales and row sums from `begin` on, and the
   data unless they are codes. */
static inline struct tft_gemm_i8 tft_bytes_product(const struct tft_product *p,
                                                   const struct tft_panels *rows, size_t begin,
                                                   size_t end)
{
    return (struct tft_gemm_i8){
        .y = p->y,
        .ldy = p->ldy,
        .x = p->bytes,
        .ldx = p->ldx,
        .xq = p->affine,
        .xq_step = p->step,
        .w = rows,
        .bias = p->bias ? p->bias + begin : NULL,
        .add = p->add,
        .M = p->n,
        .N = end - begin,
    };
}

/* The flaw of a row with numbers that add up to `sum`; NULL: none. */
static inline const char *tft_bytes_row_flaw(const struct tft_mat *w, size_t row, int32_t sum)
{
    if (w->rowsum[row] != sum)
        return "does not add up to its rowsum";
    if (!(w->scale[row] > 0 && w->scale[row] <= FLT_MAX))
        return "has a scale that is not a positive number";
    return NULL;
}

#endif
