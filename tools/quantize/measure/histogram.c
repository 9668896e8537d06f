#include "tools/quantize/measure/histogram.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/quantize/round/affine.h"

bool histogram_init(struct histogram *s, size_t n_channel)
{
    *s = (struct histogram){.n_channel = n_channel};
    s->min = calloc(n_channel ? n_channel : 1, sizeof *s->min);
    s->max = calloc(n_channel ? n_channel : 1, sizeof *s->max);
    s->bin = calloc(HISTOGRAM_BINS, sizeof *s->bin);
    if (s->min && s->max && s->bin)
        return true;
    histogram_free(s);
    return false;
}

void histogram_free(struct histogram *s)
{
    free(s->min);
    free(s->max);
    free(s->bin);
    *s = (struct histogram){0};
}

void histogram_clear(struct histogram *s)
{
    memset(s->min, 0, s->n_channel * sizeof *s->min);
    memset(s->max, 0, s->n_channel * sizeof *s->max);
    memset(s->bin, 0, HISTOGRAM_BINS * sizeof *s->bin);
}

void histogram_add(struct histogram *s, const float *x, size_t n, size_t stride)
{
    for (size_t i = 0; i < n; i++, x += stride)
        for (size_t k = 0; k < s->n_channel; k++) {
            uint32_t bits;
            memcpy(&bits, &x[k], sizeof bits);
            s->bin[bits >> 16]++;
            s->min[k] = x[k] < s->min[k] ? x[k] : s->min[k];
            s->max[k] = x[k] > s->max[k] ? x[k] : s->max[k];
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

/* Bins of one sign from 0 to what is not finite. */
enum { NEGATIVE = 0x8000, NOT_FINITE = 0x7f80 };

bool histogram_finite(const struct histogram *s)
{
    for (size_t b = NOT_FINITE; b < NEGATIVE; b++)
        if (s->bin[b] || s->bin[NEGATIVE + b])
            return false;
    return true;
}

void histogram_absmax(const struct histogram *s, float *y)
{
    for (size_t k = 0; k < s->n_channel; k++)
        y[k] = fmaxf(-s->min[k], s->max[k]);
}

/* ---- ranges */

struct range {
    double low, high; /* low <= 0 <= high */
};

static struct range whole(const struct histogram *s)
{
    struct range r = {0, 0};
    for (size_t k = 0; k < s->n_channel; k++) {
        r.low = fmin(r.low, s->min[k]);
        r.high = fmax(r.high, s->max[k]);
    }
    return r;
}

/* ---- errors */

static double edge(size_t bin)
{
    uint32_t bits = (uint32_t)bin << 16;
    float x;
    if (bin == NOT_FINITE)
        return 0x1p128;
    memcpy(&x, &bits, sizeof x);
    return x;
}

struct sums {
    double error, power;
};

/*
 * The numbers of a bin and a sign, taken to be spread evenly over that part of it which was seen. A
 * bin that is narrow beside a step is one point; a wider one, near the ends of the range, is
 * several: a single one would fall on a step or between two by chance.
 */
static void sum_bin(struct sums *sum, size_t bin, int sign, double count, double most,
                    const struct tft_affine *q)
{
    double from = edge(bin), width = fmin(edge(bin + 1), most) - from;
    int points = width * 4 < q->scale ? 1 : 8;
    if (bin == 0) { /* zero, or what is nothing beside anything */
        points = 1;
        width = 0;
    }
    for (int i = 0; i < points; i++) {
        float x = (float)(sign * (from + width * (i + 0.5) / points));
        double e = affine_error(x, q);
        sum->error += e * e * count / points;
        sum->power += (double)x * x * count / points;
    }
}

static struct sums sums_of(const struct histogram *s, struct range r, const struct tft_affine *q)
{
    struct sums sum = {0, 0};
    for (size_t b = 0; b < NOT_FINITE; b++) {
        if (s->bin[b])
            sum_bin(&sum, b, 1, (double)s->bin[b], r.high, q);
        if (s->bin[NEGATIVE + b])
            sum_bin(&sum, b, -1, (double)s->bin[NEGATIVE + b], -r.low, q);
    }
    return sum;
}

double histogram_error(const struct histogram *s, const struct tft_affine *q)
{
    struct sums sum = sums_of(s, whole(s), q);
    return sum.power > 0 ? sum.error / sum.power : 0;
}

/* ---- methods */

/* The magnitude that `skip` numbers of one sign are beyond, between the edges of its bin as if they
   were spread evenly. */
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

static struct range percentile(const struct histogram *s, double percent)
{
    struct range r = whole(s);
    double n = 0;
    for (size_t b = 0; b < HISTOGRAM_BINS; b++)
        n += (double)s->bin[b];
    double skip = n * (100 - percent) / 200;
    return (struct range){-beyond(s->bin + NEGATIVE, -r.low, skip), beyond(s->bin, r.high, skip)};
}

struct search {
    const struct histogram *s;
    struct range whole, best;
    double error;
};

/* Whether it is better than the best, and then it is the best. */
static bool try(struct search *a, double low, double high)
{
    struct range r = {fmax(low, a->whole.low), fmin(high, a->whole.high)};
    struct tft_affine q = affine_cover(r.low, r.high);
    double error = sums_of(a->s, a->whole, &q).error;
    if (error >= a->error)
        return false;
    a->error = error;
    a->best = r;
    return true;
}

/* Every pair of ends that are a power of two below those seen: from a range that an outlier
   stretches a thousandfold, no small step at either end leads anywhere. Then each end by itself, in
   ever smaller steps, to 1 %. */
static struct range least_error(const struct histogram *s)
{
    enum { HALVINGS = 12 };
    struct search a = {.s = s, .whole = whole(s), .error = DBL_MAX};
    a.best = a.whole;
    for (int i = 0; i <= HALVINGS; i++)
        for (int j = 0; j <= HALVINGS; j++)
            try(&a, ldexp(a.whole.low, -i), ldexp(a.whole.high, -j));
    for (double ratio = sqrt(2); ratio > 1.01; ratio = sqrt(ratio))
        while (try(&a, a.best.low * ratio, a.best.high) ||
               try(&a, a.best.low / ratio, a.best.high) ||
               try(&a, a.best.low, a.best.high * ratio) || try(&a, a.best.low, a.best.high / ratio))
            continue;
    return a.best;
}

bool histogram_affine(const struct histogram *s, enum range_method method, double param,
                  struct tft_affine *out)
{
    if (!histogram_finite(s))
        return false;
    struct range r = method == RANGE_MIN_MAX      ? whole(s)
                     : method == RANGE_PERCENTILE ? percentile(s, param)
                                                  : least_error(s);
    *out = affine_cover(r.low, r.high);
    return true;
}
