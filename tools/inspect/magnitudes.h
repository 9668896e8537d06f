/*
 * How large the numbers are that a part of a model works on, exactly: the largest and where they
 * are, and the order statistics of CushionCache, table 5 and figure 2.
 */
#ifndef INSPECT_MAGNITUDES_H
#define INSPECT_MAGNITUDES_H

#include <stddef.h>
#include <stdint.h>

#include "simd/kernels.h"

/* n rows of `width` numbers: floats, or bytes as a linear layer takes them. */
struct magnitudes_rows {
    size_t n, width, stride;  /* stride: how far the next row is, in floats or in bytes */
    const float *x;           /* NULL: */
    const uint8_t *bytes;
    const struct tft_affine *q; /* row i is held by q[i * step] */
    size_t step;
};

enum { MAGNITUDES_TOP = 3 };

/* The k-th largest of N magnitudes is that at [k - 1] of them all sorted, largest first. What is no
   number is larger than infinity. */
struct magnitudes {
    float top[MAGNITUDES_TOP];      /* k = 1, 2, 3; 0 where there are fewer */
    /* where those are: of equals the first; anything where it is 0 */
    size_t row[MAGNITUDES_TOP], column[MAGNITUDES_TOP];
    float tenth;                    /* k = N / 10, rounded up: a tenth of all are as large */
    float median;                   /* k = N / 2, rounded up */
};

/* row: [width], room to work in. row_top: [n] gets the largest of each row; may be NULL. Of no rows
   all is 0. */
struct magnitudes magnitudes_of(const struct magnitudes_rows *r, float *row, float *row_top);

#endif
