/* Weights that make up for the errors of earlier layers: they are half of the way to the solution
   of correct.h's equation, and lower the error that they are made for. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simd/kernels.h"
#include "tools/quantize/round/correct.h"
#include "random.h"

enum { ROWS = 37, COLS = 72, TOKENS = 300, GROUP = 32 };
static struct tft_kernels kern;
static float x[TOKENS][COLS], d[TOKENS][COLS]; /* by channel: inputs, and what they lack */
static float h[COLS * COLS], gap[COLS * COLS], w[ROWS * COLS];
static uint32_t map[COLS];

/* Inputs that depend on each other, and gaps that depend on the inputs and on chance. */
static void fill(void)
{
    memset(h, 0, sizeof h);
    memset(gap, 0, sizeof gap);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t k = 0; k < COLS; k++)
            x[t][k] = random_normal() + (k ? 0.7f * x[t][k - 1] : 0);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t k = 0; k < COLS; k++)
            d[t][k] = 0.1f * random_normal() - 0.2f * x[t][k] + 0.1f * x[t][(k + 5) % COLS];
    for (size_t i = 0; i < COLS; i++)
        for (size_t j = 0; j < COLS; j++)
            for (size_t t = 0; t < TOKENS; t++) {
                h[i * COLS + j] += x[t][i] * x[t][j];
                gap[i * COLS + j] += x[t][i] * d[t][j];
            }
    for (size_t i = 0; i < ROWS * COLS; i++)
        w[i] = random_normal();
    for (size_t k = 0; k < COLS; k++)
        map[k] = (uint32_t)(COLS - 1 - k); /* its own inverse, and no identity */
}

static struct metric open_metric(const uint32_t *order, int n_threads)
{
    struct metric m;
    assert_true(metric_open(&m, h, COLS, true, order, GROUP, &kern, n_threads));
    return m;
}

static void correct(float *to, const float *from, const uint32_t *order, int n_threads)
{
    struct metric m = open_metric(order, n_threads);
    memcpy(to, from, ROWS * COLS * sizeof *to);
    assert_true(correct_weights(to, ROWS, &m, gap, &kern, n_threads));
    metric_close(&m);
}

/* Solves a v = b by Gauss's elimination; a is symmetric and positive definite. */
static void eliminate(double a[COLS][COLS], double *b)
{
    for (size_t i = 0; i < COLS; i++)
        for (size_t r = i + 1; r < COLS; r++) {
            double f = a[r][i] / a[i][i];
            for (size_t k = i; k < COLS; k++)
                a[r][k] -= f * a[i][k];
            b[r] -= f * b[i];
        }
    for (size_t i = COLS; i-- > 0;) {
        for (size_t k = i + 1; k < COLS; k++)
            b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
}

/* Restates correct.h for a row, by channel. */
static void expect_row(const float *row, const uint32_t *order, double damp, double *v)
{
    static double a[COLS][COLS];
    for (size_t i = 0; i < COLS; i++) {
        v[i] = 0;
        for (size_t k = 0; k < COLS; k++) {
            a[i][k] = (double)h[i * COLS + k] + (i == k ? damp : 0);
            v[i] += (double)row[k] * (double)gap[i * COLS + (order ? order[k] : k)];
        }
    }
    eliminate(a, v);
}

static void half_of_the_way(void **state)
{
    (void)state;
    static float to[ROWS * COLS];
    double v[COLS];
    const uint32_t *const orders[] = {NULL, map};
    for (size_t o = 0; o < 2; o++) {
        fill();
        struct metric m = open_metric(orders[o], 1);
        correct(to, w, orders[o], 1);
        for (size_t r = 0; r < ROWS; r++) {
            expect_row(w + r * COLS, orders[o], (double)m.damp, v);
            for (size_t k = 0; k < COLS; k++) {
                double want = (double)w[r * COLS + k] + v[orders[o] ? orders[o][k] : k] / 2;
                assert_true(fabs((double)to[r * COLS + k] - want) < 1e-4);
            }
        }
        metric_close(&m);
    }
}

/* Of V x against W (x + d), over the text. */
static double error_of(const float *v)
{
    double sum = 0;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t t = 0; t < TOKENS; t++) {
            double e = 0;
            for (size_t k = 0; k < COLS; k++)
                e += (double)v[r * COLS + k] * (double)x[t][k] -
                     (double)w[r * COLS + k] * ((double)x[t][k] + (double)d[t][k]);
            sum += e * e;
        }
    return sum;
}

static void it_lowers_the_error(void **state)
{
    (void)state;
    static float to[ROWS * COLS];
    fill();
    correct(to, w, NULL, 1);
    assert_true(error_of(to) < 0.5 * error_of(w));
}

static void no_gap_no_change(void **state)
{
    (void)state;
    static float to[ROWS * COLS];
    fill();
    memset(gap, 0, sizeof gap);
    correct(to, w, NULL, 1);
    assert_memory_equal(to, w, sizeof w);
}

static void numbers_stay_finite(void **state)
{
    (void)state;
    static float to[ROWS * COLS];
    fill();
    gap[3] = NAN;
    correct(to, w, NULL, 1);
    assert_memory_equal(to, w, sizeof w);
}

static void the_same_on_every_isa_with_any_threads(void **state)
{
    (void)state;
    static float to[ROWS * COLS], again[ROWS * COLS];
    fill();
    correct(to, w, map, 1);
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        tft_kernels_fill(&kern, isa);
        correct(again, w, map, 1 + isa % 3);
        assert_memory_equal(again, to, sizeof to);
    }
    tft_kernels_fill(&kern, tft_kernels_best());
    correct(again, w, map, 3);
    assert_memory_equal(again, to, sizeof to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_of_the_way),
        cmocka_unit_test(it_lowers_the_error),
        cmocka_unit_test(no_gap_no_change),
        cmocka_unit_test(numbers_stay_finite),
        cmocka_unit_test(the_same_on_every_isa_with_any_threads),
    };
    tft_kernels_fill(&kern, tft_kernels_best());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
