/* The figures of caches by tuffet inspect --activations, restated from the papers with plain
   loops. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "tools/inspect/cache_cost.h"

enum { DIM = 40, PREFIX = 3, TEXT = 450, N = PREFIX + TEXT };

static float k[N][DIM], v[N][DIM], q[TEXT][DIM];
static double weight[TEXT][N]; /* of each token of the text */

static double dot(const float *a, const float *b)
{
    double sum = 0;
    for (int d = 0; d < DIM; d++)
        sum += (double)a[d] * (double)b[d];
    return sum / sqrt(DIM);
}

/* Weights of a query over n keys. */
static void softmax(double *w, const float *query, float (*keys)[DIM], int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += w[i] = exp(dot(query, keys[i]));
    for (int i = 0; i < n; i++)
        w[i] /= sum;
}

static void make_head(void)
{
    for (int i = 0; i < N; i++)
        for (int d = 0; d < DIM; d++) {
            k[i][d] = 3 * random_even() + 2 * (float)(d == 7);
            v[i][d] = random_even();
        }
    for (int t = 0; t < TEXT; t++) {
        for (int d = 0; d < DIM; d++)
            q[t][d] = 2 * random_even();
        softmax(weight[t], q[t], k, PREFIX + t + 1);
    }
}

/* Averages over the queries, from the function under test. */
static struct cache_cost_found measured(void)
{
    struct cache_cost_found f = {0};
    struct cache_cost_room *room = cache_cost_open(N, DIM, 1 / sqrt(DIM));
    assert_non_null(room);
    float *rows = cache_cost_begin(room, DIM, N, PREFIX);
    memcpy(rows, k, sizeof k);
    memcpy(rows + N * DIM, v, sizeof v);
    for (int t = 0; t < TEXT; t++) {
        float w[N];
        for (int i = 0; i < PREFIX + t + 1; i++)
            w[i] = (float)(weight[t][i] * 5);
        cache_cost_row(room, &f, q[t], w, PREFIX + (uint32_t)t + 1, 5);
    }
    cache_cost_close(room);
    return cache_cost_mean(&f, 1);
}

/* The queries that count: every seventh token of the second half. */
static bool counts(int t) { return t >= TEXT / 2 && t % 7 == 0; }

static int n_queries(void)
{
    int n = 0;
    for (int t = 0; t < TEXT; t++)
        n += counts(t);
    return n;
}

/* ---- the tokens that are kept */

/* kept[i]: whether the cache keeps token i of the text when token t has come. */
typedef void rule_fn(bool kept[TEXT], int t, int size);

static void newest(bool *kept, int t, int size)
{
    for (int i = 2; i <= t; i++)
        kept[i] = t - i < size;
}

/* KIVI's residual: all leave as soon as there are `size`. */
static void fill(bool *kept, int t, int size)
{
    for (int i = 2; i <= t; i++)
        kept[i] = (i - 2) / size == (t - 1) / size;
}

/* LogQuant, algorithm 1, from the first token on. */
static void log_sparse(bool *kept, int t, int size)
{
    int w = size / 3;
    memset(kept, 0, TEXT * sizeof *kept);
    for (int i = 2, n = 0; i <= t; i++) {
        if (n == 3 * w) {
            int place = 0, gone = 0;
            for (int j = 2; j < i; j++)
                if (kept[j] && place++ < 2 * w && place % 2 == 0)
                    kept[j] = false, gone++;
            n -= gone;
        }
        kept[i] = true;
        n++;
    }
}

/* Marks the `count` largest of the tokens from .. end - 1. */
static void mark_largest(bool *kept, const double *of, int from, int end, int count)
{
    for (; count > 0; count--) {
        int best = -1;
        for (int i = from; i < end; i++)
            if (!kept[i] && (best < 0 || of[i] > of[best]))
                best = i;
        if (best < 0)
            return;
        kept[best] = true;
    }
}

static void heavy(bool *kept, int t, int size)
{
    double received[TEXT] = {0};
    for (int earlier = 0; earlier < t; earlier++)
        for (int i = 0; i <= earlier; i++)
            received[i] += weight[earlier][PREFIX + i];
    memset(kept, 0, TEXT * sizeof *kept);
    newest(kept, t, size / 2);
    mark_largest(kept, received, 2, t + 1 - size / 2, size / 2);
}

static void best(bool *kept, int t, int size)
{
    memset(kept, 0, TEXT * sizeof *kept);
    mark_largest(kept, weight[t] + PREFIX, 2, t + 1, size);
}

static void test_kept(void **state)
{
    static rule_fn *const rule[COST_RULES] = {newest, fill, log_sparse, heavy, best};
    (void)state;
    struct cache_cost_found f = measured();
    assert_true(f.queries == n_queries());
    for (int r = 0; r < COST_RULES; r++)
        for (int s = 0; s < COST_SIZES; s++) {
            double share = 0;
            for (int t = 0; t < TEXT; t++) {
                bool kept[TEXT] = {false};
                if (!counts(t))
                    continue;
                rule[r](kept, t, (int)cache_cost_size[s]);
                for (int i = 2; i <= t; i++)
                    share += kept[i] ? weight[t][PREFIX + i] / f.queries : 0;
            }
            assert_float_equal(f.kept[r][s], share, 1e-5);
        }
    assert_true(f.kept[COST_BEST][0] > f.kept[COST_NEWEST][0]);
}

/* ---- 2 bits */

/* AsymKV, equations 4 to 6, for numbers that share a scale. */
static void round_numbers(float **x, int n)
{
    float low = **x, high = **x;
    for (int i = 1; i < n; i++) {
        low = *x[i] < low ? *x[i] : low;
        high = *x[i] > high ? *x[i] : high;
    }
    for (int i = 0; i < n; i++)
        *x[i] = low + rintf((*x[i] - low) / ((high - low) / 3)) * ((high - low) / 3);
}

/* Keys: 32 tokens of a channel; values: 32 channels of a token. */
static void round_rows(float (*x)[DIM], bool by_channel)
{
    int rows = by_channel ? TEXT : DIM, lines = by_channel ? DIM : TEXT;
    for (int line = 0; line < lines; line++)
        for (int from = 0; from < rows; from += 32) {
            float *group[32];
            int n = 0;
            for (; n < 32 && from + n < rows; n++)
                group[n] = by_channel ? &x[PREFIX + from + n][line] : &x[PREFIX + line][from + n];
            round_numbers(group, n);
        }
}

static double square(double x) { return x * x; }

static double output(const double *w, float (*values)[DIM], int n, int d)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += w[i] * (double)values[i][d];
    return sum;
}

/* Adds errors of queries to the shares that lie between powers of the root of two. */
static void add_size(double *share, double error, double part)
{
    for (int i = 0; i < COST_BINS; i++)
        if ((i == 0 || fabs(error) < pow(2, (1 - i) / 2.)) &&
            (i == COST_BINS - 1 || fabs(error) >= pow(2, -i / 2.)))
            share[i] += part;
}

static void test_errors(void **state)
{
    static float kq[N][DIM], vq[N][DIM];
    double sizes[2][COST_BINS] = {{0}};
    (void)state;
    struct cache_cost_found f = measured();
    double want[COST_ERRORS] = {0};
    memcpy(kq, k, sizeof k);
    memcpy(vq, v, sizeof v);
    round_rows(kq, true);
    round_rows(vq, false);
    for (int t = 0; t < TEXT; t++) {
        int n = PREFIX + t + 1;
        double w[N];
        if (!counts(t))
            continue;
        softmax(w, q[t], kq, n);
        for (int i = PREFIX; i < n; i++) {
            for (int d = 0; d < DIM; d++) {
                double size = f.queries * (t + 1) * DIM;
                want[COST_KEY] += square((double)k[i][d] - (double)kq[i][d]) / size;
                want[COST_VALUE] += square((double)v[i][d] - (double)vq[i][d]) / size;
            }
            want[COST_SCORE] += square(dot(q[t], k[i]) - dot(q[t], kq[i])) / f.queries / (t + 1);
        }
        for (int i = 0; i < n; i++)
            want[COST_WEIGHT] += square(w[i] - weight[t][i]) / f.queries / (t + 1);
        for (int d = 0; d < DIM; d++) {
            double is = output(weight[t], v, n, d);
            double of_keys = output(w, v, n, d) - is, of_values = output(weight[t], vq, n, d) - is;
            want[COST_KEY_OUTPUT] += square(of_keys) / f.queries / DIM;
            want[COST_VALUE_OUTPUT] += square(of_values) / f.queries / DIM;
            add_size(sizes[0], of_keys, 1 / f.queries / DIM);
            add_size(sizes[1], of_values, 1 / f.queries / DIM);
        }
    }
    for (int e = 0; e < COST_ERRORS; e++) {
        assert_true(want[e] > 0);
        assert_float_equal(f.error[e] / want[e], 1, 1e-4);
    }
    for (int i = 0; i < COST_BINS; i++) { /* few are so near a border that rounding decides */
        assert_float_equal(f.key_sizes[i], sizes[0][i], 1e-3);
        assert_float_equal(f.value_sizes[i], sizes[1][i], 1e-3);
    }
}

static void test_short_windows_have_no_queries(void **state)
{
    struct cache_cost_found f = {0}, mean = cache_cost_mean(&f, 1);
    (void)state;
    assert_true(mean.queries == 0 && mean.kept[COST_BEST][0] == 0 && mean.error[COST_KEY] == 0);
}

static int setup(void **state)
{
    (void)state;
    make_head();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept), cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_short_windows_have_no_queries)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
