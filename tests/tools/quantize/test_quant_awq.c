/* AWQ: the factors are the paper's, and none of its grid loses less. */
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "simd/kernels.h"
#include "tools/quantize/round/awq.h"
#include "tools/quantize/round/low_bits.h"
#include "random.h"

enum { ROWS = 24, COLS = 160, GROUP = 64 };
static float w[2][ROWS * COLS], moment[COLS];
static struct tft_kernels kern;

static void fill(float large)
{
    for (size_t i = 0; i < ROWS * COLS; i++) {
        w[0][i] = random_normal();
        w[1][i] = random_normal();
    }
    for (size_t k = 0; k < COLS; k++)
        moment[k] = (0.5f + fabsf(random_even())) * (k % GROUP == 3 ? large : 1);
}

static struct awq_input input(void)
{
    return (struct awq_input){.n = COLS,
                              .moment = moment,
                              .size = moment,
                              .reader = {{w[0], ROWS, 3, GROUP}, {w[1], ROWS / 2, 4, GROUP}},
                              .n_readers = 2};
}

static void chosen(float *s, const struct awq_input *x, int n_threads)
{
    assert_true(awq_choose(s, x, &(struct awq_how){.kern = &kern, .n_threads = n_threads}));
}

/* The loss of the rows with these factors: the error of the weights that the float model would
   have, each weighted with the moment of its input. */
static double loss(const float *from, size_t rows, uint32_t bits, const float *s)
{
    static float scaled[ROWS * COLS];
    float h[COLS];
    int8_t row[COLS];
    double sum = 0;
    struct metric metric;
    struct low_bits q;
    for (size_t k = 0; k < COLS; k++)
        h[k] = moment[k] / (s[k] * s[k]);
    for (size_t i = 0; i < rows * COLS; i++)
        scaled[i] = from[i] * s[i % COLS];
    assert_true(metric_open(&metric, h, COLS, false, NULL, GROUP, &kern, 1));
    assert_true(low_bits_open(&q, rows, COLS, bits, GROUP));
    assert_true(low_bits_round(
        &q, scaled, &(struct low_bits_how){.metric = &metric, .kern = &kern, .n_threads = 1}));
    for (size_t i = 0; i < rows; i++) {
        low_bits_int8(&q, i, row);
        for (size_t k = 0; k < COLS; k++) {
            double is = row[k] * (double)q.row_scale[i] / (double)s[k],
                   e = (double)from[i * COLS + k] - is;
            sum += e * e * (double)moment[k];
        }
    }
    low_bits_close(&q);
    metric_close(&metric);
    return sum;
}

static double loss_of_both(const float *s)
{
    return loss(w[0], ROWS, 3, s) + loss(w[1], ROWS / 2, 4, s);
}

/* s = size^alpha, where size is the root of the moment, and s max * s min = 1. */
static void factors_are_those_of_the_paper(void **state)
{
    (void)state;
    fill(100);
    for (double alpha = 0; alpha <= 1; alpha += 0.25) {
        float s[COLS];
        double low = INFINITY, high = 0;
        awq_factors(s, moment, COLS, alpha);
        for (size_t k = 0; k < COLS; k++) {
            double ratio = pow(sqrt((double)moment[k] / (double)moment[0]), alpha);
            assert_float_equal(s[k] / s[0], ratio, 1e-5 * ratio);
            low = fmin(low, (double)s[k]);
            high = fmax(high, (double)s[k]);
        }
        assert_float_equal(low * high, 1, 1e-5);
    }
}

static void dead_and_absurd_channels(void **state)
{
    (void)state;
    static const float large[] = {INFINITY, NAN, 0};
    float size[4] = {0, 1e-30f, 2, 6}, s[4];
    awq_factors(s, size, 4, 1); /* the mean is 2: the first two count as 0.0002 */
    assert_true(s[0] == s[1]);
    assert_float_equal(s[2] / s[0], 100, 1e-3);
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < 4; k++)
            size[k] = k == 3 || large[i] == 0 ? large[i] : 1;
        awq_factors(s, size, 4, 0.5);
        for (size_t k = 0; k < 4; k++)
            assert_true(s[k] == 1);
    }
    for (size_t k = 0; k < 4; k++)
        size[k] = k % 2 ? FLT_MAX / 8 : FLT_MIN;
    awq_factors(s, size, 4, 1);
    for (size_t k = 0; k < 4; k++)
        assert_true(isnormal(s[k]) && isnormal(1 / s[k]));
}

static void none_of_the_grid_loses_less(void **state)
{
    (void)state;
    for (int times = 0; times < 4; times++) {
        float s[COLS], other[COLS];
        fill(times ? powf(10, (float)times) : 1);
        struct awq_input x = input();
        chosen(s, &x, 1);
        double got = loss_of_both(s), least = INFINITY;
        for (int i = 0; i <= 20; i++) {
            awq_factors(other, moment, COLS, i / 20.0);
            least = fmin(least, loss_of_both(other));
        }
        assert_float_equal(got, least, 1e-5 * least);
    }
}

static void large_channels_lose_less_than_to_nearest(void **state)
{
    (void)state;
    float s[COLS], ones[COLS];
    fill(100);
    struct awq_input x = input();
    chosen(s, &x, 1);
    awq_factors(ones, moment, COLS, 0);
    assert_true(s[3] > 1.3f * s[4]);
    assert_true(loss_of_both(s) < 0.9 * loss_of_both(ones));
}

/* Channels of one size have one factor, whatever their moments are. */
static void sizes_may_be_shared(void **state)
{
    (void)state;
    float s[COLS], size[COLS];
    fill(100);
    for (size_t k = 0; k < COLS; k++)
        size[k] = moment[k / 2 * 2] + moment[k / 2 * 2 + 1];
    struct awq_input x = input();
    x.size = size;
    chosen(s, &x, 1);
    for (size_t k = 0; k < COLS; k += 2)
        assert_true(s[k] == s[k + 1]);
    assert_true(s[2] > s[4]);
}

static void the_same_on_every_isa_with_any_threads(void **state)
{
    (void)state;
    float want[COLS], s[COLS];
    fill(30);
    struct awq_input x = input();
    chosen(want, &x, 1);
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        tft_kernels_fill(&kern, isa);
        chosen(s, &x, 1 + isa % 3);
        assert_memory_equal(s, want, sizeof s);
    }
    tft_kernels_fill(&kern, tft_kernels_best());
}

static bool stop(void *user, double done)
{
    double *last = user;
    assert_true(done > *last && done <= 1);
    *last = done;
    return done < 0.5;
}

static void it_can_be_stopped(void **state)
{
    (void)state;
    float s[COLS];
    double done = 0;
    fill(30);
    struct awq_input x = input();
    assert_false(awq_choose(
        s, &x,
        &(struct awq_how){.kern = &kern, .n_threads = 1, .progress = stop, .user = &done}));
    assert_true(done >= 0.5 && done < 0.6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_those_of_the_paper),
        cmocka_unit_test(dead_and_absurd_channels),
        cmocka_unit_test(none_of_the_grid_loses_less),
        cmocka_unit_test(large_channels_lose_less_than_to_nearest),
        cmocka_unit_test(sizes_may_be_shared),
        cmocka_unit_test(the_same_on_every_isa_with_any_threads),
        cmocka_unit_test(it_can_be_stopped),
    };
    tft_kernels_fill(&kern, tft_kernels_best());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
