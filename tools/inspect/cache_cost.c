#include "cache_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const cache_cost_rule_name[COST_RULES] = {"newest", "fill", "log2", "heavy", "best"};
const uint32_t cache_cost_size[COST_SIZES] = {48, 96, 192};

struct cache_cost_room {
    uint32_t dim, n, n_prefix;
    uint32_t rows; /* of this head, so far */
    float *k, *v;  /* [n, E] each, v behind k */
    float *kq, *vq;               /* the same in 2 bits */
    double *weight, *score;       /* [n] of a row, with keys of 2 bits */
    double *heavy;                /* [n] what each position has received so far */
    double *sorted;               /* [n] */
    uint32_t *log2[COST_SIZES]; /* [n] positions that the rule keeps, oldest first */
    uint32_t n_log2[COST_SIZES];
};

struct cache_cost_room *cache_cost_open(uint32_t positions, uint32_t head_dim)
{
    size_t n = positions, e = head_dim;
    struct cache_cost_room *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->dim = head_dim;
    r->k = malloc(4 * n * e * sizeof *r->k);
    r->weight = malloc(4 * n * sizeof *r->weight);
    r->log2[0] = malloc(COST_SIZES * n * sizeof *r->log2[0]);
    if (!r->k || !r->weight || !r->log2[0]) {
        cache_cost_close(r);
        return NULL;
    }
    r->score = r->weight + n;
    r->heavy = r->score + n;
    r->sorted = r->heavy + n;
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

float *cache_cost_begin(struct cache_cost_room *r, uint32_t n, uint32_t n_prefix)
{
    size_t size = (size_t)n * r->dim;
    r->n = n;
    r->n_prefix = n_prefix;
    r->rows = 0;
    r->v = r->k + size;
    r->kq = r->v + size;
    r->vq = r->kq + size;
    memset(r->heavy, 0, n * sizeof *r->heavy);
    memset(r->n_log2, 0, sizeof r->n_log2);
    return r->k;
}

/* ---- 2 bits: AsymKV, equations 4 to 6 */

/* to = from in 2 bits: n numbers, `stride` apart, share a least and a largest one. */
static void round_group(float *to, const float *from, size_t n, size_t stride)
{
    float low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        low = fminf(low, from[i * stride]);
        high = fmaxf(high, from[i * stride]);
    }
    float step = (high - low) / (COST_LEVELS - 1);
    for (size_t i = 0; i < n; i++)
        to[i * stride] = step > 0 ? low + rintf((from[i * stride] - low) / step) * step : low;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Groups of the text's keys are 32 tokens of a channel, those of values 32 channels of a token. The
   prefix stays as it is. */
static void round_all(struct cache_cost_room *r)
{
    size_t e = r->dim, n = r->n;
    memcpy(r->kq, r->k, 2 * n * e * sizeof *r->k);
    for (size_t t = r->n_prefix; t < n; t += COST_GROUP)
        for (size_t d = 0; d < e; d++)
            round_group(r->kq + t * e + d, r->k + t * e + d, least(COST_GROUP, n - t), e);
    for (size_t t = r->n_prefix; t < n; t++)
        for (size_t d = 0; d < e; d += COST_GROUP)
            round_group(r->vq + t * e + d, r->v + t * e + d, least(COST_GROUP, e - d), 1);
}

static double mean_square(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return n ? sum / (double)n : 0;
}

/* What attention gives with these weights and values, less what it gives with those of the model:
   the mean square. */
static double output_error(const struct cache_cost_room *r, const double *weight, const float *v,
                           const float *exact, double exact_sum, uint32_t n)
{
    double sum = 0;
    for (uint32_t d = 0; d < r->dim; d++) {
        double out = 0, is = 0;
        for (uint32_t i = 0; i < n; i++) {
            out += weight[i] * (double)v[(size_t)i * r->dim + d];
            is += (double)exact[i] / exact_sum * (double)r->v[(size_t)i * r->dim + d];
        }
        sum += (out - is) * (out - is);
    }
    return sum / r->dim;
}

static double score(const struct cache_cost_room *r, const float *q, const float *k)
{
    double dot = 0;
    for (uint32_t d = 0; d < r->dim; d++)
        dot += (double)q[d] * (double)k[d];
    return dot / sqrt(r->dim);
}

static void add_errors(struct cache_cost_room *r, struct cache_cost_found *f, const float *q,
                       const float *weight, uint32_t n, double sum)
{
    size_t text = (size_t)r->n_prefix * r->dim, numbers = (size_t)(n - r->n_prefix) * r->dim;
    double largest = -INFINITY, all = 0, scores = 0, weights = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float *kq = r->kq + (size_t)i * r->dim, *k = r->k + (size_t)i * r->dim;
        r->score[i] = score(r, q, kq);
        largest = fmax(largest, r->score[i]);
        scores += pow(r->score[i] - score(r, q, k), 2);
    }
    for (uint32_t i = 0; i < n; i++)
        all += r->weight[i] = exp(r->score[i] - largest);
    for (uint32_t i = 0; i < n; i++) {
        r->weight[i] /= all;
        weights += pow(r->weight[i] - (double)weight[i] / sum, 2);
    }
    f->error[COST_KEY] += mean_square(r->k + text, r->kq + text, numbers);
    f->error[COST_SCORE] += scores / (n - r->n_prefix);
    f->error[COST_WEIGHT] += weights / (n - r->n_prefix);
    f->error[COST_KEY_OUTPUT] += output_error(r, r->weight, r->v, weight, sum, n);
    for (uint32_t i = 0; i < n; i++)
        r->weight[i] = (double)weight[i] / sum;
    f->error[COST_VALUE] += mean_square(r->v + text, r->vq + text, numbers);
    f->error[COST_VALUE_OUTPUT] += output_error(r, r->weight, r->vq, weight, sum, n);
}

/* ---- the tokens that are kept */

static double sum_of(const float *weight, uint32_t from, uint32_t end)
{
    double sum = 0;
    for (uint32_t i = from; i < end; i++)
        sum += (double)weight[i];
    return sum;
}

static int larger_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* LogQuant, algorithm 1: of 3 W tokens, every second of the older 2 W goes. */
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

/* The sum over the `count` positions of from .. end - 1 that have the largest of[i], ties and all,
   the earlier first. */
static double sum_of_largest(struct cache_cost_room *r, const double *of, const float *weight,
                             uint32_t from, uint32_t end, uint32_t count)
{
    uint32_t n = end > from ? end - from : 0;
    if (count >= n)
        return sum_of(weight, from, from + n);
    if (!count)
        return 0;
    memcpy(r->sorted, of + from, n * sizeof *r->sorted);
    qsort(r->sorted, n, sizeof *r->sorted, larger_first);
    double least = r->sorted[count - 1], sum = 0;
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
    }
    return mean;
}
