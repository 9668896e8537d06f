/*
 * Magnitudes of the numbers in a part of a model: the largest ones and their places, and the order
 * statistics of CushionCache, table 5 and figure 2. All results are exact.
 */
#ifndef INSPECT_MAGNITUDES_H
#define INSPECT_MAGNITUDES_H

#include <stddef.h>
#include <stdint.h>

#include "simd/kernels.h"

/* n rows of `width` numbers: floats, or the bytes of a quantized input. */
struct magnitudes_rows {
    size_t n, width, stride;    /* stride: from row to row, in floats or in bytes */
    const float *x;             /* NULL: the rows are bytes */
    const uint8_t *bytes;
    const struct tft_affine *q; /* row i is quantized by q[i * step]; NULL: in groups (packed.h) */
    size_t step;
};

enum { MAGNITUDES_TOP = 3 };

/* The k-th largest of N magnitudes is number k - 1 of all when sorted, largest first. NaN counts as
   larger than infinity. */
struct magnitudes {
    float top[MAGNITUDES_TOP]; /* k = 1, 2, 3; 0 if there are fewer numbers */
    /* their places: of equal ones the first; undefined if top is 0 */
    size_t row[MAGNITUDES_TOP], column[MAGNITUDES_TOP];
    float tenth;  /* k = N / 10, rounded up: a tenth of all numbers are as large */
    float median; /* k = N / 2, rounded up */
};

/* row: [width], scratch. row_top: [n], gets the largest magnitude of each row; may be NULL. Without
   rows, all results are 0. */
struct magnitudes magnitudes_of(const struct magnitudes_rows *r, float *row, float *row_top);

#endif
