/* Weights that make up for the errors of earlier layers: they are half of the way to the solution
   of correct.h's equation, and lower the error that they are made for. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simd/kernels.h"
#include "tools/quantize/round/correct.h"
#include "random.h"

enum { ROWS = 70, COLS = 72, TOKENS = 300, GROUP = 32 };
static struct tft_kernels kern;
static float x[TOKENS][COLS], d[TOKENS][COLS]; /* by channel: inputs, and what they lack */
static float lack[TOKENS][ROWS]; /* what the stream lacks that the outputs are added to */
static float h[COLS * COLS], gap[COLS * COLS], stream[ROWS * COLS], w[ROWS * COLS];
static const struct correct_for both = {gap, stream}, inputs = {.gap = gap},
                                outputs = {.stream = stream};
static uint32_t map[COLS];

/* Inputs that depend on each other, and gaps that depend on the inputs and on chance. */
static void fill(void)
{
    memset(h, 0, sizeof h);
    memset(gap, 0, sizeof gap);
    memset(stream, 0, sizeof stream);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t k = 0; k < COLS; k++)
            x[t][k] = random_normal() + (k ? 0.7f * x[t][k - 1] : 0);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t k = 0; k < COLS; k++)
            d[t][k] = 0.1f * random_normal() - 0.2f * x[t][k] + 0.1f * x[t][(k + 5) % COLS];
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < ROWS; i++)
            lack[t][i] = 0.5f * random_normal() + x[t][i] - 0.3f * x[t][COLS - 1 - i];
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j++)
            for (size_t t = 0; t < TOKENS; t++)
                stream[i * COLS + j] += lack[t][i] * x[t][j];
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

static void correct(float *to, const float *from, const struct correct_for *f,
                    const uint32_t *order, int n_threads)
{
    struct metric m = open_metric(order, n_threads);
    memcpy(to, from, ROWS * COLS * sizeof *to);
    assert_true(correct_weights(to, ROWS, &m, f, &kern, n_threads));
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

/* Restates correct.h for row i, by channel. */
static void expect_row(size_t at, const struct correct_for *f, const uint32_t *order, double damp,
                       double *v)
{
    static double a[COLS][COLS];
    for (size_t i = 0; i < COLS; i++) {
        v[i] = f->stream ? (double)f->stream[at * COLS + i] : 0;
        for (size_t k = 0; k < COLS; k++) {
            a[i][k] = (double)h[i * COLS + k] + (i == k ? damp : 0);
            v[i] += f->gap ? (double)w[at * COLS + k] *
                                 (double)f->gap[i * COLS + (order ? order[k] : k)]
                           : 0;
        }
    }
    eliminate(a, v);
}

static void expect_half(const struct correct_for *f, const uint32_t *order)
{
    static float to[ROWS * COLS];
    double v[COLS];
    fill();
    struct metric m = open_metric(order, 1);
    correct(to, w, f, order, 1);
    for (size_t i = 0; i < ROWS; i++) {
        expect_row(i, f, order, (double)m.damp, v);
        for (size_t k = 0; k < COLS; k++) {
            double want = (double)w[i * COLS + k] + v[order ? order[k] : k] / 2;
            assert_true(fabs((double)to[i * COLS + k] - want) < 1e-4);
        }
    }
    metric_close(&m);
}

static void half_of_the_way(void **state)
{
    (void)state;
    const struct correct_for *const of[] = {&both, &inputs, &outputs};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        expect_half(of[i], NULL);
        expect_half(of[i], map);
    }
}

/* Of V x against W (x + d) + r, over the text. */
static double error_of(const float *v)
{
    double sum = 0;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t t = 0; t < TOKENS; t++) {
            double e = -(double)lack[t][i];
            for (size_t k = 0; k < COLS; k++)
                e += (double)v[i * COLS + k] * (double)x[t][k] -
                     (double)w[i * COLS + k] * ((double)x[t][k] + (double)d[t][k]);
            sum += e * e;
        }
    return sum;
}

static void it_lowers_the_error(void **state)
{
    (void)state;
    static float to[ROWS * COLS], one[ROWS * COLS];
    fill();
    correct(to, w, &both, NULL, 1);
    assert_true(error_of(to) < 0.5 * error_of(w));
    correct(one, w, &inputs, NULL, 1);
    assert_true(error_of(to) < error_of(one));
    correct(one, w, &outputs, NULL, 1);
    assert_true(error_of(to) < error_of(one));
}

static void no_gap_no_change(void **state)
{
    (void)state;
    static float to[ROWS * COLS];
    fill();
    memset(gap, 0, sizeof gap);
    memset(stream, 0, sizeof stream);
    correct(to, w, &both, NULL, 1);
    assert_memory_equal(to, w, sizeof w);
}

static void numbers_stay_finite(void **state)
{
    (void)state;
    static float to[ROWS * COLS];
    fill();
    gap[3] = NAN;
    correct(to, w, &inputs, NULL, 1);
    assert_memory_equal(to, w, sizeof w);
    fill();
    stream[3] = NAN;
    correct(to, w, &outputs, NULL, 1);
    assert_memory_equal(to, w, COLS * sizeof *w);
}

static void the_same_on_every_isa_with_any_threads(void **state)
{
    (void)state;
    static float to[ROWS * COLS], again[ROWS * COLS];
    fill();
    correct(to, w, &both, map, 1);
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        tft_kernels_fill(&kern, isa);
        correct(again, w, &both, map, 1 + isa % 3);
        assert_memory_equal(again, to, sizeof to);
    }
    tft_kernels_fill(&kern, tft_kernels_best());
    correct(again, w, &both, map, 3);
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
