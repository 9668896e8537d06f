/*
 * In which order a KV cache has the channels of a head, so that those which share a scale reach
 * about as far (SKVQ, section 3.1, eq. 1).
 *
 * "We extract the distribution feature of each channel and then use the KMeans algorithm", as RPTQ
 * (Yuan et al. 2023) does with each channel's least and largest number. Here these are the means,
 * over spans of CHANNEL_ORDER_SPAN tokens, of the least and the largest, so that no single token decides.
 * The paper's clusters are of any size and go over all heads, their mean size is given; our groups
 * lie in a head and are equal, and so are the clusters: each takes no more than it has room for,
 * the nearest pairs of channel and centre first.
 */
#ifndef QUANTIZE_ROUND_CHANNEL_ORDER_H
#define QUANTIZE_ROUND_CHANNEL_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHANNEL_ORDER_SPAN = 64, CHANNEL_ORDER_MAX = 256 }; /* channels of a head */

/* What the channels of some heads side by side reach. */
struct channel_ranges {
    size_t n;
    double *low, *high; /* [n] sums of spans */
    size_t spans;
};

/* False without memory. All zero is fine to close. */
bool channel_ranges_open(struct channel_ranges *r, size_t n);
void channel_ranges_close(struct channel_ranges *r);
void channel_ranges_clear(struct channel_ranges *r);

/* x: [tokens, n], rows `stride` apart. Tokens that do not fill a span are a shorter one. */
void channel_ranges_add(struct channel_ranges *r, const float *x, size_t tokens, size_t stride);

/* to: [n <= CHANNEL_ORDER_MAX] which channel comes where: those with the same place / group are of one
   cluster. Of n channels from `first` on. */
void channel_order_choose(const struct channel_ranges *r, size_t first, uint32_t n, uint32_t group,
                    int32_t *to);

/* Rows of w: [n, cols], rows `stride` apart: row i becomes what row order[i] was. Columns likewise,
   of each of `rows` rows. order: [n <= CHANNEL_ORDER_MAX] */
void channel_order_rows(float *w, size_t stride, size_t n, size_t cols, const int32_t *order);
void channel_order_columns(float *w, size_t stride, size_t rows, size_t n, const int32_t *order);

#endif
