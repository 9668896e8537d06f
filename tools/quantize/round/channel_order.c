#include "tools/quantize/round/channel_order.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool channel_ranges_open(struct channel_ranges *r, size_t n)
{
    *r = (struct channel_ranges){
        .n = n, .low = calloc(n, sizeof *r->low), .high = calloc(n, sizeof *r->high)};
    return r->low && r->high;
}

void channel_ranges_close(struct channel_ranges *r)
{
    free(r->low);
    free(r->high);
    *r = (struct channel_ranges){0};
}

void channel_ranges_clear(struct channel_ranges *r)
{
    memset(r->low, 0, r->n * sizeof *r->low);
    memset(r->high, 0, r->n * sizeof *r->high);
    r->spans = 0;
}

void channel_ranges_add(struct channel_ranges *r, const float *x, size_t tokens, size_t stride)
{
    for (size_t t = 0; t < tokens; t += CHANNEL_ORDER_SPAN, r->spans++) {
        size_t n = tokens - t < CHANNEL_ORDER_SPAN ? tokens - t : CHANNEL_ORDER_SPAN;
        for (size_t d = 0; d < r->n; d++) {
            float low = FLT_MAX, high = -FLT_MAX;
            for (size_t i = 0; i < n; i++) {
                low = fminf(low, x[(t + i) * stride + d]);
                high = fmaxf(high, x[(t + i) * stride + d]);
            }
            r->low[d] += (double)low;
            r->high[d] += (double)high;
        }
    }
}

/* ---- k-means */

struct clusters {
    const double *low, *high;            /* [n] features of the channels */
    double centre[2][CHANNEL_ORDER_MAX]; /* [2, k] features of the centres */
    uint32_t n, k, group;
    uint32_t cluster[CHANNEL_ORDER_MAX]; /* [n] of each channel */
};

static void move_centres(struct clusters *c)
{
    for (uint32_t i = 0; i < c->k; i++) {
        double sum[2] = {0, 0}, size = 0;
        for (uint32_t d = 0; d < c->n; d++)
            if (c->cluster[d] == i) {
                sum[0] += c->low[d];
                sum[1] += c->high[d];
                size++;
            }
        c->centre[0][i] = sum[0] / size;
        c->centre[1][i] = sum[1] / size;
    }
}

/* Squared, from channel d to centre i. */
static double distance(const struct clusters *c, uint32_t d, uint32_t i)
{
    double low = c->low[d] - c->centre[0][i], high = c->high[d] - c->centre[1][i];
    return low * low + high * high;
}

/* Assigns the nearest pair of a channel without a cluster and a cluster with room, until every
   channel has a cluster. Returns the sum of their distances. */
static double assign(struct clusters *c)
{
    uint32_t room[CHANNEL_ORDER_MAX], left = c->n;
    double sum = 0;
    for (uint32_t i = 0; i < c->k; i++)
        room[i] = c->n - i * c->group < c->group ? c->n - i * c->group : c->group;
    for (uint32_t d = 0; d < c->n; d++)
        c->cluster[d] = c->k;
    while (left--) {
        double least = INFINITY;
        uint32_t which = 0, to = 0;
        for (uint32_t d = 0; d < c->n; d++)
            for (uint32_t i = 0; i < c->k && c->cluster[d] == c->k; i++)
                if (room[i] && distance(c, d, i) < least) {
                    least = distance(c, d, i);
                    which = d;
                    to = i;
                }
        c->cluster[which] = to;
        room[to]--;
        sum += least;
    }
    return sum;
}

/* Initial clusters: the channels sorted by the width of their range. */
static void assign_by_width(struct clusters *c)
{
    for (uint32_t d = 0; d < c->n; d++) {
        uint32_t rank = 0;
        double width = c->high[d] - c->low[d];
        for (uint32_t i = 0; i < c->n; i++) {
            double other = c->high[i] - c->low[i];
            rank += other < width || (other == width && i < d);
        }
        c->cluster[d] = rank / c->group;
    }
}

void channel_order_choose(const struct channel_ranges *r, size_t first, uint32_t n, uint32_t group,
                          int32_t *order)
{
    struct clusters c = {.low = r->low + first,
                         .high = r->high + first,
                         .n = n,
                         .k = (n + group - 1) / group,
                         .group = group};
    uint32_t best[CHANNEL_ORDER_MAX];
    double least = INFINITY, sum;
    assign_by_width(&c);
    for (move_centres(&c); (sum = assign(&c)) < least; move_centres(&c)) {
        least = sum;
        memcpy(best, c.cluster, sizeof best);
    }
    for (uint32_t i = 0; i < c.k; i++)
        for (uint32_t d = 0; d < n; d++)
            if (best[d] == i)
                *order++ = (int32_t)d;
}

/* ---- weights */

static void permute(float *x, size_t step, size_t n, const int32_t *order)
{
    float old[CHANNEL_ORDER_MAX];
    for (size_t i = 0; i < n; i++)
        old[i] = x[i * step];
    for (size_t i = 0; i < n; i++)
        x[i * step] = old[order[i]];
}

void channel_order_rows(float *w, size_t stride, size_t n, size_t cols, const int32_t *order)
{
    for (size_t j = 0; j < cols; j++)
        permute(w + j, stride, n, order);
}

void channel_order_columns(float *w, size_t stride, size_t rows, size_t n, const int32_t *order)
{
    for (size_t i = 0; i < rows; i++)
        permute(w + i * stride, 1, n, order);
}
