#include "tools/quantize/measure/histogram.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/quantize/round/affine.h"

bool histogram_init(struct histogram *h, size_t n_channel)
{
    *h = (struct histogram){.n_channel = n_channel};
    h->min = calloc(n_channel ? n_channel : 1, sizeof *h->min);
    h->max = calloc(n_channel ? n_channel : 1, sizeof *h->max);
    h->bin = calloc(HISTOGRAM_BINS, sizeof *h->bin);
    if (h->min && h->max && h->bin)
        return true;
    histogram_free(h);
    return false;
}

void histogram_free(struct histogram *h)
{
    free(h->min);
    free(h->max);
    free(h->bin);
    *h = (struct histogram){0};
}

void histogram_clear(struct histogram *h)
{
    memset(h->min, 0, h->n_channel * sizeof *h->min);
    memset(h->max, 0, h->n_channel * sizeof *h->max);
    memset(h->bin, 0, HISTOGRAM_BINS * sizeof *h->bin);
}

void histogram_add(struct histogram *h, const float *x, size_t n, size_t stride)
{
    for (size_t i = 0; i < n; i++, x += stride)
        for (size_t k = 0; k < h->n_channel; k++) {
            uint32_t bits;
            memcpy(&bits, &x[k], sizeof bits);
            h->bin[bits >> 16]++;
            h->min[k] = x[k] < h->min[k] ? x[k] : h->min[k];
            h->max[k] = x[k] > h->max[k] ? x[k] : h->max[k];
        }
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (size_t k = 0; k < into->n_channel; k++) {
        into->min[k] = fminf(into->min[k], from->min[k]);
        into->max[k] = fmaxf(into->max[k], from->max[k]);
    }
    for (size_t b = 0; b < HISTOGRAM_BINS; b++)
        into->bin[b] += from->bin[b];
}

/* Bins NEGATIVE and up are of negative numbers. Of each sign, bins NOT_FINITE and up are infinity
   and NaN. */
enum { NEGATIVE = 0x8000, NOT_FINITE = 0x7f80 };

bool histogram_finite(const struct histogram *h)
{
    for (size_t b = NOT_FINITE; b < NEGATIVE; b++)
        if (h->bin[b] || h->bin[NEGATIVE + b])
            return false;
    return true;
}

void histogram_absmax(const struct histogram *h, float *y)
{
    for (size_t k = 0; k < h->n_channel; k++)
        y[k] = fmaxf(-h->min[k], h->max[k]);
}

/* ---- ranges */

struct range {
    double low, high; /* low <= 0 <= high */
};

static struct range full_range(const struct histogram *h)
{
    struct range r = {0, 0};
    for (size_t k = 0; k < h->n_channel; k++) {
        r.low = fmin(r.low, h->min[k]);
        r.high = fmax(r.high, h->max[k]);
    }
    return r;
}

/* ---- errors */

/* The least magnitude in a bin. */
static double edge(size_t bin)
{
    uint32_t bits = (uint32_t)bin << 16;
    float x;
    if (bin == NOT_FINITE)
        return 0x1p128;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The points that stand for a bin's numbers: x[i] = sign * (from + i * step), each for `share` of
   the numbers. */
struct points {
    double from, step, share;
    int n;
};

/*
 * A bin's numbers are assumed to be spread evenly over the part of the bin below `most`. A bin that
 * is narrow compared with a step of q counts as one point. A wider one, near the ends of the range,
 * counts as several: a single point would fall on a step or between two by chance.
 */
static struct points points_of(size_t bin, double most, const struct tft_affine *q)
{
    double from = edge(bin), to = edge(bin + 1), width = (to < most ? to : most) - from;
    if (bin == 0) /* zero and numbers too small to matter */
        return (struct points){from, 0, 1, 1};
    if (width * 4 < q->scale)
        return (struct points){from + width / 2, 0, 1, 1};
    return (struct points){from + width / 16, width / 8, 0.125, 8};
}

static double bin_error(size_t bin, int sign, double count, double most,
                        const struct tft_affine *q)
{
    struct points p = points_of(bin, most, q);
    double sum = 0;
    for (int i = 0; i < p.n; i++) {
        double e = affine_error((float)(sign * (p.from + i * p.step)), q);
        sum += e * e;
    }
    return sum * (count * p.share);
}

static double bin_power(size_t bin, double count, double most, const struct tft_affine *q)
{
    struct points p = points_of(bin, most, q);
    double sum = 0;
    for (int i = 0; i < p.n; i++)
        sum += (p.from + i * p.step) * (p.from + i * p.step);
    return sum * (count * p.share);
}

/* The magnitudes that occur are in bins first .. end - 1 of either sign. */
struct span {
    size_t first, end;
};

static struct span span_of(const struct histogram *h)
{
    struct span s = {NOT_FINITE, 0};
    for (size_t b = 0; b < NOT_FINITE; b++)
        if (h->bin[b] || h->bin[NEGATIVE + b]) {
            s.first = b < s.first ? b : s.first;
            s.end = b + 1;
        }
    return s;
}

/* sum (x - q(x))^2; or some number not below `limit`, if the sum is not below it. The largest
   numbers come first: if they are beyond the range, they decide. */
static double error_of(const struct histogram *h, struct span span, struct range r,
                       const struct tft_affine *q, double limit)
{
    double sum = 0;
    for (size_t b = span.end; b-- > span.first && sum < limit;) {
        if (h->bin[b])
            sum += bin_error(b, 1, (double)h->bin[b], r.high, q);
        if (h->bin[NEGATIVE + b])
            sum += bin_error(b, -1, (double)h->bin[NEGATIVE + b], -r.low, q);
    }
    return sum;
}

double histogram_error(const struct histogram *h, const struct tft_affine *q)
{
    struct span span = span_of(h);
    struct range r = full_range(h);
    double power = 0;
    for (size_t b = span.first; b < span.end; b++)
        power += bin_power(b, (double)h->bin[b], r.high, q) +
                 bin_power(b, (double)h->bin[NEGATIVE + b], -r.low, q);
    return power > 0 ? error_of(h, span, r, q, INFINITY) / power : 0;
}

/* How many of a bin's numbers become 0 or 255. */
static double bin_ends(size_t bin, int sign, double count, double most, const struct tft_affine *q)
{
    struct points p = points_of(bin, most, q);
    double sum = 0;
    for (int i = 0; i < p.n; i++) {
        float byte = rintf((float)(sign * (p.from + i * p.step)) * q->inverse) + (float)q->zero;
        sum += byte <= 0 || byte >= 255;
    }
    return sum * (count * p.share);
}

double histogram_ends(const struct histogram *h, const struct tft_affine *q)
{
    struct span span = span_of(h);
    struct range r = full_range(h);
    double n = 0, ends = 0;
    for (size_t b = span.first; b < span.end; b++) {
        double positive = (double)h->bin[b], negative = (double)h->bin[NEGATIVE + b];
        n += positive + negative;
        ends += bin_ends(b, 1, positive, r.high, q) + bin_ends(b, -1, negative, -r.low, q);
    }
    return n > 0 ? ends / n : 0;
}

/* ---- methods */

/* The magnitude that `skip` numbers of one sign exceed. Numbers of a bin are taken to be spread
   evenly between its edges. */
static double beyond(const uint64_t *bin, double most, double skip)
{
    for (size_t b = NOT_FINITE; b-- > 0;) {
        double count = (double)bin[b];
        if (count > skip) {
            double from = edge(b), to = fmin(edge(b + 1), most);
            return to - (to - from) * (skip / count);
        }
        skip -= count;
    }
    return 0;
}

static struct range percentile(const struct histogram *h, double percent)
{
    struct range r = full_range(h);
    double n = 0;
    for (size_t b = 0; b < HISTOGRAM_BINS; b++)
        n += (double)h->bin[b];
    double skip = n * (100 - percent) / 200;
    return (struct range){-beyond(h->bin + NEGATIVE, -r.low, skip), beyond(h->bin, r.high, skip)};
}

struct mse_search {
    const struct histogram *h;
    struct span span;
    struct range whole, range; /* of all numbers, and the best so far */
    double error;
};

/* Returns whether the range has a smaller error than the best so far, and records it if so. */
static bool try_range(struct mse_search *best, double low, double high)
{
    struct range r = {fmax(low, best->whole.low), fmin(high, best->whole.high)};
    struct tft_affine q = affine_cover(r.low, r.high);
    double error = error_of(best->h, best->span, best->whole, &q, best->error);
    if (error >= best->error)
        return false;
    best->error = error;
    best->range = r;
    return true;
}

/* First tries every pair of ends that are the observed ends over powers of two: if an outlier
   stretches the range a thousandfold, no small step at either end lowers the error. Then moves each
   end by itself, in ever smaller steps, down to 1 %. */
static struct range least_error(const struct histogram *h)
{
    enum { HALVINGS = 12 };
    struct mse_search best = {
        .h = h, .span = span_of(h), .whole = full_range(h), .error = DBL_MAX};
    best.range = best.whole;
    for (int i = 0; i <= HALVINGS; i++)
        for (int j = 0; j <= HALVINGS; j++)
            try_range(&best, ldexp(best.whole.low, -i), ldexp(best.whole.high, -j));
    for (double ratio = sqrt(2); ratio > 1.01; ratio = sqrt(ratio))
        while (try_range(&best, best.range.low * ratio, best.range.high) ||
               try_range(&best, best.range.low / ratio, best.range.high) ||
               try_range(&best, best.range.low, best.range.high * ratio) ||
               try_range(&best, best.range.low, best.range.high / ratio))
            continue;
    return best.range;
}

bool histogram_affine(const struct histogram *h, enum range_method method, double param,
                      struct tft_affine *out)
{
    if (!histogram_finite(h))
        return false;
    struct range r = method == RANGE_MIN_MAX      ? full_range(h)
                     : method == RANGE_PERCENTILE ? percentile(h, param)
                                                  : least_error(h);
    *out = affine_cover(r.low, r.high);
    return true;
}
