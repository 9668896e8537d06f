/* Sorts without taking memory, in O(n log n) for every input. */
#ifndef TFT_HEAPSORT_H
#define TFT_HEAPSORT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether item a comes before item b. The order must be strict and total. */
typedef bool tft_before(const void *ctx, const void *a, const void *b);

/* Sorts items[n] of `size` bytes each, 1 to 16. */
void tft_heapsort(void *items, size_t n, size_t size, tft_before *before, const void *ctx);

#endif
