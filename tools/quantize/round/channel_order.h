/*
 * The order of a head's channels in a KV cache, chosen so that channels that share a scale have
 * similar ranges (SKVQ, section 3.1, eq. 1), and its fusion into weights.
 *
 * "We extract the distribution feature of each channel and then use the KMeans algorithm", as RPTQ
 * (Yuan et al. 2023) does with each channel's minimum and maximum. Here the features are the means
 * of minimum and maximum over spans of CHANNEL_ORDER_SPAN tokens, so that no single token decides.
 * The paper's clusters have any size and extend over all heads; it gives only their mean size. Our
 * groups and clusters have equal sizes and lie within a head: a full cluster takes no more
 * channels, and the nearest pairs of channel and centre are assigned first.
 */
#ifndef QUANTIZE_ROUND_CHANNEL_ORDER_H
#define QUANTIZE_ROUND_CHANNEL_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CHANNEL_ORDER_MAX: channels of a head */
enum { CHANNEL_ORDER_SPAN = 64, CHANNEL_ORDER_MAX = 512 };

/* The ranges of n channels. */
struct channel_ranges {
    size_t n;
    double *low, *high; /* [n] sums over the spans */
    size_t spans;
};

/* False if memory is short. close accepts all zeros. */
bool channel_ranges_open(struct channel_ranges *r, size_t n);
void channel_ranges_close(struct channel_ranges *r);
void channel_ranges_clear(struct channel_ranges *r);

/* x: [tokens, n], rows `stride` apart. The last span is shorter if tokens is no multiple of
   CHANNEL_ORDER_SPAN. */
void channel_ranges_add(struct channel_ranges *r, const float *x, size_t tokens, size_t stride);

/* Orders channels first .. first + n - 1; order: [n <= CHANNEL_ORDER_MAX], the channel (0 .. n - 1)
   at each place. Places with the same place / group are of one cluster. */
void channel_order_choose(const struct channel_ranges *r, size_t first, uint32_t n, uint32_t group,
                          int32_t *order);

/* Row i of w becomes the former row order[i]; w: [n, cols], rows `stride` apart. columns does the
   same to the columns of w: [rows, n]. order: [n <= CHANNEL_ORDER_MAX] */
void channel_order_rows(float *w, size_t stride, size_t n, size_t cols, const int32_t *order);
void channel_order_columns(float *w, size_t stride, size_t rows, size_t n, const int32_t *order);

#endif
