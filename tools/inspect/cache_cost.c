#include "cache_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const cache_cost_rule_name[COST_RULES] = {"newest", "fill", "log2", "heavy", "best"};
const uint32_t cache_cost_size[COST_SIZES] = {48, 96, 192};

struct cache_cost_room {
    uint32_t dim, n, n_prefix;
    double scale; /* of scores */
    uint32_t rows;                   /* of this head, so far */
    float *k, *v;                    /* [n, E] each, v after k */
    float *dk, *dv;                  /* [n, E] errors of 2 bits */
    double *key_error, *value_error; /* [n] sums of squares of dk and dv, up to each position */
    double *weight, *change;         /* [n] of a row, and its error from keys of 2 bits */
    double *heavy;                   /* [n] attention that each position has received so far */
    double *sorted;                  /* [n] */
    double *output;                  /* [E] */
    uint32_t *log2[COST_SIZES];      /* [n] positions that the rule keeps, oldest first */
    uint32_t n_log2[COST_SIZES];
};

struct cache_cost_room *cache_cost_open(uint32_t positions, uint32_t head_dim, double scale)
{
    size_t n = positions, e = head_dim;
    struct cache_cost_room *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->scale = scale;
    r->k = calloc(4 * n, e * sizeof *r->k);
    r->weight = malloc((6 * n + e) * sizeof *r->weight);
    r->log2[0] = malloc(COST_SIZES * n * sizeof *r->log2[0]);
    if (!r->k || !r->weight || !r->log2[0]) {
        cache_cost_close(r);
        return NULL;
    }
    r->change = r->weight + n;
    r->heavy = r->change + n;
    r->sorted = r->heavy + n;
    r->key_error = r->sorted + n;
    r->value_error = r->key_error + n;
    r->output = r->value_error + n;
    for (int i = 1; i < COST_SIZES; i++)
        r->log2[i] = r->log2[i - 1] + n;
    return r;
}

void cache_cost_close(struct cache_cost_room *r)
{
    if (!r)
        return;
    free(r->k);
    free(r->weight);
    free(r->log2[0]);
    free(r);
}

float *cache_cost_begin(struct cache_cost_room *r, uint32_t head_dim, uint32_t n, uint32_t n_prefix)
{
    size_t size = (size_t)n * head_dim;
    r->dim = head_dim;
    r->n = n;
    r->n_prefix = n_prefix;
    r->rows = 0;
    r->v = r->k + size;
    r->dk = r->v + size;
    r->dv = r->dk + size;
    memset(r->heavy, 0, n * sizeof *r->heavy);
    memset(r->n_log2, 0, sizeof r->n_log2);
    return r->k;
}

/* ---- 2 bits: AsymKV, equations 4 to 6 */

/* to = the error of `from` in 2 bits: n numbers, `stride` apart, share a least and a largest
   number. */
static void round_group(float *to, const float *from, size_t n, size_t stride)
{
    float low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        low = fminf(low, from[i * stride]);
        high = fmaxf(high, from[i * stride]);
    }
    float step = (high - low) / (COST_LEVELS - 1);
    for (size_t i = 0; i < n; i++) {
        float x = from[i * stride];
        to[i * stride] = (step > 0 ? low + rintf((x - low) / step) * step : low) - x;
    }
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* sum: [n] of the squares of x: [n, E], up to each row */
static void sum_squares(double *sum, const float *x, size_t n, size_t e)
{
    for (size_t i = 0; i < n; i++) {
        sum[i] = i ? sum[i - 1] : 0;
        for (size_t d = 0; d < e; d++)
            sum[i] += (double)x[i * e + d] * (double)x[i * e + d];
    }
}

/* Groups of the text's keys are 32 tokens of a channel, groups of values 32 channels of a token.
   The prefix stays exact. */
static void round_all(struct cache_cost_room *r)
{
    size_t e = r->dim, n = r->n;
    memset(r->dk, 0, 2 * n * e * sizeof *r->dk);
    for (size_t t = r->n_prefix; t < n; t += COST_GROUP)
        for (size_t d = 0; d < e; d++)
            round_group(r->dk + t * e + d, r->k + t * e + d, least(COST_GROUP, n - t), e);
    for (size_t t = r->n_prefix; t < n; t++)
        for (size_t d = 0; d < e; d += COST_GROUP)
            round_group(r->dv + t * e + d, r->v + t * e + d, least(COST_GROUP, e - d), 1);
    sum_squares(r->key_error, r->dk, n, e);
    sum_squares(r->value_error, r->dv, n, e);
}

static int size_bin(double x)
{
    double bin = -floor(2 * log2(fabs(x)));
    return bin < 0 ? 0 : bin < COST_BINS - 1 ? (int)bin : COST_BINS - 1;
}

/* The mean square of attention's output, sum_i weight[i] rows[i]. rows: [n, E]. Adds the size of
   each of its numbers to sizes[COST_BINS]. */
static double output_square(struct cache_cost_room *r, const double *weight, const float *rows,
                            uint32_t n, double *sizes)
{
    double sum = 0;
    memset(r->output, 0, r->dim * sizeof *r->output);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t d = 0; d < r->dim; d++)
            r->output[d] += weight[i] * (double)rows[(size_t)i * r->dim + d];
    for (uint32_t d = 0; d < r->dim; d++) {
        sum += r->output[d] * r->output[d];
        sizes[size_bin(r->output[d])] += 1.0 / r->dim;
    }
    return sum / r->dim;
}

/* The error in the score of position i from its key in 2 bits. */
static double score_change(const struct cache_cost_room *r, const float *q, uint32_t i)
{
    const float *dk = r->dk + (size_t)i * r->dim;
    float dot = 0;
    for (uint32_t d = 0; d < r->dim; d++)
        dot += q[d] * dk[d];
    return (double)dot * r->scale;
}

/* Softmax turns changes x of the scores into weights that are proportional to w exp(x). */
static void add_errors(struct cache_cost_room *r, struct cache_cost_found *f, const float *q,
                       const float *weight, uint32_t n, double sum)
{
    double text = n - r->n_prefix, largest = -INFINITY, all = 0, scores = 0, weights = 0;
    for (uint32_t i = 0; i < n; i++) {
        r->weight[i] = (double)weight[i] / sum;
        r->change[i] = score_change(r, q, i);
        scores += r->change[i] * r->change[i];
        largest = fmax(largest, r->change[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        all += r->change[i] = r->weight[i] * exp(r->change[i] - largest);
    for (uint32_t i = 0; i < n; i++) {
        r->change[i] = r->change[i] / all - r->weight[i];
        weights += r->change[i] * r->change[i];
    }
    f->error[COST_KEY] += r->key_error[n - 1] / (text * r->dim);
    f->error[COST_SCORE] += scores / text;
    f->error[COST_WEIGHT] += weights / text;
    f->error[COST_KEY_OUTPUT] += output_square(r, r->change, r->v, n, f->key_sizes);
    f->error[COST_VALUE] += r->value_error[n - 1] / (text * r->dim);
    f->error[COST_VALUE_OUTPUT] += output_square(r, r->weight, r->dv, n, f->value_sizes);
}

/* ---- the tokens that are kept */

static double sum_of(const float *weight, uint32_t from, uint32_t end)
{
    double sum = 0;
    for (uint32_t i = from; i < end; i++)
        sum += (double)weight[i];
    return sum;
}

static void swap(double *a, double *b)
{
    double was = *a;
    *a = *b;
    *b = was;
}

/* Element `at` of x: [n] in descending order (Hoare 1961, "Find"). Reorders x. */
static double sorted_at(double *x, size_t n, size_t at)
{
    for (;;) { /* x becomes: numbers above the pivot, equal ones, and from `below` on less */
        double pivot = x[n / 2];
        size_t above = 0, below = n, i = 0;
        while (i < below)
            if (x[i] > pivot)
                swap(&x[i++], &x[above++]);
            else if (x[i] < pivot)
                swap(&x[i], &x[--below]);
            else
                i++;
        if (at >= above && at < below)
            return pivot;
        if (at < above) {
            n = above;
        } else {
            x += below;
            n -= below;
            at -= below;
        }
    }
}

/* LogQuant, algorithm 1: of 3 W tokens, every second one of the older 2 W is dropped. */
static void log2_add(struct cache_cost_room *r, int size, uint32_t position)
{
    uint32_t w = cache_cost_size[size] / 3, *kept = r->log2[size], n = r->n_log2[size], stay = 0;
    if (n == 3 * w) {
        for (uint32_t i = 0; i < n; i += i < 2 * w ? 2 : 1)
            kept[stay++] = kept[i];
        n = stay;
    }
    kept[n] = position;
    r->n_log2[size] = n + 1;
}

/* The sum over the `count` positions of from .. end - 1 with the largest of[i], ties and all, the
   earlier first. */
static double sum_of_largest(struct cache_cost_room *r, const double *of, const float *weight,
                             uint32_t from, uint32_t end, uint32_t count)
{
    uint32_t n = end > from ? end - from : 0;
    if (count >= n)
        return sum_of(weight, from, from + n);
    if (!count)
        return 0;
    memcpy(r->sorted, of + from, n * sizeof *r->sorted);
    double least = sorted_at(r->sorted, n, count - 1), sum = 0;
    uint32_t above = 0;
    for (uint32_t i = 0; i < n; i++)
        above += r->sorted[i] > least;
    uint32_t equal = count - above;
    for (uint32_t i = from; i < end; i++)
        if (of[i] > least || (of[i] == least && equal && equal--))
            sum += (double)weight[i];
    return sum;
}

static void add_kept(struct cache_cost_room *r, struct cache_cost_found *f, const float *weight,
                     uint32_t n, double sum)
{
    uint32_t from = r->n_prefix + COST_FIRST, text = n - from;
    for (int s = 0; s < COST_SIZES; s++) {
        uint32_t size = cache_cost_size[s], newest = size < text ? size : text;
        double is[COST_RULES] = {0};
        is[COST_NEWEST] = sum_of(weight, n - newest, n);
        is[COST_FILL] = sum_of(weight, n - text % size, n);
        for (uint32_t i = 0; i < r->n_log2[s]; i++)
            is[COST_LOG2] += (double)weight[r->log2[s][i]];
        uint32_t half = newest < size / 2 ? newest : size / 2;
        is[COST_HEAVY] = sum_of(weight, n - half, n) +
                              sum_of_largest(r, r->heavy, weight, from, n - half, size / 2);
        for (uint32_t i = from; i < n; i++)
            r->weight[i] = (double)weight[i];
        is[COST_BEST] = sum_of_largest(r, r->weight, weight, from, n, size);
        for (int rule = 0; rule < COST_RULES; rule++)
            f->kept[rule][s] += is[rule] / sum;
    }
}

void cache_cost_row(struct cache_cost_room *r, struct cache_cost_found *f, const float *q,
                   const float *weight, uint32_t n, double sum)
{
    uint32_t row = r->rows++, all = r->n - r->n_prefix;
    if (row == 0)
        round_all(r);
    if (row >= COST_FIRST)
        for (int s = 0; s < COST_SIZES; s++)
            log2_add(r, s, n - 1);
    if (row >= COST_FIRST && row >= all / 2 && row % COST_STEP == 0) {
        f->queries++;
        add_kept(r, f, weight, n, sum);
        add_errors(r, f, q, weight, n, sum);
    }
    for (uint32_t i = 0; i < n; i++)
        r->heavy[i] += (double)weight[i] / sum;
}

struct cache_cost_found cache_cost_mean(const struct cache_cost_found *f, uint32_t n)
{
    struct cache_cost_found mean = {0};
    for (uint32_t h = 0; h < n; h++)
        mean.queries += f[h].queries;
    for (uint32_t h = 0; h < n && mean.queries > 0; h++) {
        for (int rule = 0; rule < COST_RULES; rule++)
            for (int s = 0; s < COST_SIZES; s++)
                mean.kept[rule][s] += f[h].kept[rule][s] / mean.queries;
        for (int e = 0; e < COST_ERRORS; e++)
            mean.error[e] += f[h].error[e] / mean.queries;
        for (int i = 0; i < COST_BINS; i++) {
            mean.key_sizes[i] += f[h].key_sizes[i] / mean.queries;
            mean.value_sizes[i] += f[h].value_sizes[i] / mean.queries;
        }
    }
    return mean;
}
