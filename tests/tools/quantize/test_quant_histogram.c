#include "test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simd/kernels.h"
#include "tools/quantize/measure/histogram.h"
#include "random.h"

static void init(struct histogram *s, size_t n_channel)
{
    assert_true(histogram_init(s, n_channel));
}

static struct tft_affine affine(const struct histogram *s, enum range_method method, double param)
{
    struct tft_affine q;
    assert_true(histogram_affine(s, method, param, &q));
    assert_true(isnormal(q.scale) && q.scale > 0 && isnormal(q.inverse) &&
                q.inverse == 1 / q.scale && q.zero >= 0 && q.zero <= 255);
    return q;
}

/* A histogram of one channel. */
static struct tft_affine affine_of(const float *x, size_t n, enum range_method method, double param)
{
    struct histogram s;
    init(&s, 1);
    histogram_add(&s, x, n, 1);
    struct tft_affine q = affine(&s, method, param);
    histogram_free(&s);
    return q;
}

/* Rounding to a byte and back by the kernel itself. */
static double lost(const float *x, size_t n, const struct tft_affine *q)
{
    struct tft_kernels k;
    double error = 0, power = 0;
    tft_kernels_fill(&k, 0);
    for (size_t i = 0; i < n; i++) {
        uint8_t byte;
        k.quantize(&byte, &x[i], 1, q);
        error += pow(x[i] - (byte - q->zero) * (double)q->scale, 2);
        power += pow(x[i], 2);
    }
    return error / power;
}

static void channels(void **state)
{
    (void)state;
    /* rows are 5 apart and have 3 channels */
    const float x[] = {1, -2, 3, 9, 9, -4, 0, 5, 9, 9, 2, 0, 1, 9, 9};
    struct histogram s;
    init(&s, 3);
    histogram_add(&s, x, 3, 5);
    const float min[] = {-4, -2, 0}, max[] = {2, 0, 5}, absmax[] = {4, 2, 5};
    float y[3];
    histogram_absmax(&s, y);
    assert_memory_equal(s.min, min, sizeof min);
    assert_memory_equal(s.max, max, sizeof max);
    assert_memory_equal(y, absmax, sizeof absmax);
    uint64_t n = 0;
    for (size_t b = 0; b < HISTOGRAM_BINS; b++)
        n += s.bin[b];
    assert_int_equal(n, 9);
    histogram_free(&s);
}

static void merged_is_added(void **state)
{
    (void)state;
    enum { K = 7, N = 50 };
    float x[N * K];
    struct histogram whole, a, b;
    init(&whole, K);
    init(&a, K);
    init(&b, K);
    random_fill(x, N * K);
    histogram_add(&whole, x, N, K);
    histogram_add(&a, x, 20, K);
    histogram_add(&b, x + 20 * K, 30, K);
    histogram_merge(&a, &b);
    assert_memory_equal(a.min, whole.min, K * sizeof *a.min);
    assert_memory_equal(a.max, whole.max, K * sizeof *a.max);
    assert_memory_equal(a.bin, whole.bin, HISTOGRAM_BINS * sizeof *a.bin);
    histogram_free(&whole);
    histogram_free(&a);
    histogram_free(&b);
}

static void min_max(void **state)
{
    (void)state;
    static const struct {
        float x[2], scale;
        int zero;
    } all[] = {
        /* the range contains 0 */
        {{-1, 254}, 1, 1},
        {{0, 255}, 1, 0},
        {{-255, 0}, 1, 255},
        {{10, 51}, 0.2f, 0},
        {{-10, -51}, 0.2f, 255},
        {{-128, 127}, 1, 128},
        {{-FLT_MAX, FLT_MAX / 2}, FLT_MAX / 255 * 1.5f, 170},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tft_affine q = affine_of(all[i].x, 2, RANGE_MIN_MAX, 0);
        assert_true(fabsf(q.scale / all[i].scale - 1) < 1e-6f);
        assert_int_equal(q.zero, all[i].zero);
    }
}

/* For every range: 0 is exact, and a number in the range is at most half a step off. */
static void range_is_covered(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        float x[64];
        float size = ldexpf(1, (int)(random_u32() % 200) - 100), shift = random_even() * 2;
        for (size_t k = 0; k < 64; k++)
            x[k] = (random_even() + shift) * size;
        struct tft_affine q = affine_of(x, 64, RANGE_MIN_MAX, 0);
        for (size_t k = 0; k < 64; k++) {
            double t = rint(x[k] * (double)q.inverse);
            t = fmin(fmax(t, -q.zero), 255 - q.zero);
            assert_true(fabs(t * q.scale - x[k]) <= q.scale * 0.50001);
        }
    }
}

static void nothing_but_zeros(void **state)
{
    (void)state;
    const float zeros[] = {0, -0.0f, 0};
    static const enum range_method methods[] = {RANGE_MIN_MAX, RANGE_PERCENTILE, RANGE_MSE};
    for (size_t m = 0; m < 3; m++)
        for (size_t n = 0; n <= 3; n += 3) {
            struct histogram s;
            init(&s, 1);
            histogram_add(&s, zeros, n, 1);
            struct tft_affine q = affine(&s, methods[m], 99);
            assert_true(q.scale == 1 && q.inverse == 1 && q.zero == 0);
            assert_true(histogram_error(&s, &q) == 0);
            histogram_free(&s);
        }
}

static void hardly_anything(void **state)
{
    (void)state;
    const float x[] = {1e-45f, -1e-44f, 3e-39f};
    affine_of(x, 3, RANGE_MIN_MAX, 0);
    affine_of(x, 3, RANGE_PERCENTILE, 99);
    affine_of(x, 3, RANGE_MSE, 0);
}

static void not_finite(void **state)
{
    (void)state;
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 4; i++) {
        struct histogram s, other;
        struct tft_affine q;
        init(&s, 3);
        init(&other, 3);
        histogram_add(&s, (const float[]){1, bad[i], FLT_MAX}, 1, 3);
        histogram_merge(&other, &s);
        assert_false(histogram_finite(&other));
        assert_false(histogram_affine(&other, RANGE_MIN_MAX, 0, &q));
        assert_false(histogram_affine(&other, RANGE_MSE, 0, &q));
        histogram_free(&s);
        histogram_free(&other);
    }
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

enum { N = 100000 };

static float *normal_numbers(void)
{
    float *x = malloc(N * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < N; i++)
        x[i] = random_normal() + 0.5f;
    return x;
}

static void percentile(void **state)
{
    (void)state;
    float *x = normal_numbers();
    struct histogram s;
    init(&s, 1);
    histogram_add(&s, x, N, 1);
    qsort(x, N, sizeof *x, ascending);
    static const double percents[] = {99.99, 99.9, 99, 90, 50};
    for (size_t i = 0; i < 5; i++) {
        size_t skip = (size_t)(N * (100 - percents[i]) / 200 + 0.5);
        double low = fmin(x[skip], 0), high = x[N - 1 - skip];
        struct tft_affine q = affine(&s, RANGE_PERCENTILE, percents[i]);
        assert_float_equal(q.scale * 255 / (high - low), 1, 0.01);
        assert_float_equal(q.zero, -low / q.scale, 2);
    }
    struct tft_affine all = affine(&s, RANGE_PERCENTILE, 100), range = affine(&s, RANGE_MIN_MAX, 0);
    assert_memory_equal(&all, &range, sizeof all);
    histogram_free(&s);
    free(x);
}

/* The error estimated from bins is near the kernel's error. */
static void error_is_the_kernels(void **state)
{
    (void)state;
    float *x = normal_numbers();
    struct histogram s;
    init(&s, 1);
    histogram_add(&s, x, N, 1);
    for (float scale = 0.001f; scale < 0.3f; scale *= 1.37f)
        for (int zero = 0; zero <= 255; zero += 51) {
            struct tft_affine q = {scale, 1 / scale, zero};
            assert_float_equal(histogram_error(&s, &q) / lost(x, N, &q), 1, 0.03);
        }
    histogram_free(&s);
    free(x);
}

/* The share at the ends is near that of the kernel's bytes. */
static void ends_are_the_kernels(void **state)
{
    (void)state;
    float *x = normal_numbers();
    struct tft_kernels k;
    struct histogram s;
    tft_kernels_fill(&k, 0);
    init(&s, 1);
    struct tft_affine any = {0.02f, 1 / 0.02f, 128};
    assert_true(histogram_ends(&s, &any) == 0); /* there are no numbers yet */
    histogram_add(&s, x, N, 1);
    for (float scale = 0.008f; scale < 0.025f; scale *= 1.37f)
        for (int zero = 51; zero <= 204; zero += 51) {
            struct tft_affine q = {scale, 1 / scale, zero};
            size_t ends = 0;
            for (size_t i = 0; i < N; i++) {
                uint8_t byte;
                k.quantize(&byte, &x[i], 1, &q);
                ends += byte == 0 || byte == 255;
            }
            double share = (double)ends / N;
            assert_float_equal(histogram_ends(&s, &q), share, 0.05 * share + 0.001);
        }
    histogram_free(&s);
    free(x);
}

/* Likewise if all numbers are in one bin that is wide compared with a step. Its centre, 1.0039, is
   a multiple of some of these steps. */
static void error_in_one_bin(void **state)
{
    (void)state;
    float *x = malloc(N * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < N; i++)
        x[i] = 1 + (random_even() + 1) * 0x1p-8f;
    struct histogram s;
    init(&s, 1);
    histogram_add(&s, x, N, 1);
    for (int steps = 255; steps > 190; steps -= 7) {
        float scale = 1.0078125f / (float)steps;
        struct tft_affine q = {scale, 1 / scale, 0};
        assert_float_equal(histogram_error(&s, &q) / lost(x, N, &q), 1, 0.15);
    }
    histogram_free(&s);
    free(x);
}

/* Not worse than any range of a fine grid, within a tolerance; and far better than the full range
   if one number is far off. */
static void least_error(void **state)
{
    (void)state;
    static const float outliers[][2] = {{0, 0},     {164, 0},      {0, -164},
                                        {40, -164}, {1e4f, -1e4f}, {3000, 0}};
    float *x = normal_numbers();
    for (size_t o = 0; o < 6; o++) {
        x[7] = outliers[o][0];
        x[8] = outliers[o][1];
        struct tft_affine q = affine_of(x, N, RANGE_MSE, 0),
                          range = affine_of(x, N, RANGE_MIN_MAX, 0);
        double error = lost(x, N, &q);
        struct histogram s;
        init(&s, 1);
        histogram_add(&s, x, N, 1);
        double least = histogram_error(&s, &range);
        for (double low = fmin(x[8], -4.0); low < -1; low /= 1.1)
            for (double high = fmax(x[7], 4.5); high > 1; high /= 1.1) {
                float scale = (float)((high - low) / 255);
                struct tft_affine g = {scale, 1 / scale, (int32_t)rint(-low / scale)};
                least = fmin(least, histogram_error(&s, &g));
            }
        assert_true(histogram_error(&s, &q) <= least * 1.02);
        assert_float_equal(histogram_error(&s, &q) / error, 1, 0.05);
        assert_true(error <= lost(x, N, &range) * 1.001);
        histogram_free(&s);
    }
    free(x);
}

/* Outliers at one end or both, which are not worth covering among 800 million other numbers, while
   a slightly narrower range is worse than the full one. */
static void outliers_that_go(void **state)
{
    (void)state;
    static const float outliers[][2] = {{-251.5f, 2720}, {0, 4512}, {-4512, 0}, {-6608, 10.8125f}};
    float *x = normal_numbers();
    qsort(x, N, sizeof *x, ascending);
    struct histogram s;
    init(&s, 1);
    histogram_add(&s, x, N, 1);
    for (size_t b = 0; b < HISTOGRAM_BINS; b++)
        s.bin[b] *= 8192;
    struct tft_affine alone = affine(&s, RANGE_MSE, 0);
    for (size_t o = 0; o < 4; o++) {
        histogram_add(&s, outliers[o], 2, 1);
        struct tft_affine q = affine(&s, RANGE_MSE, 0);
        assert_float_equal(q.scale / alone.scale, 1, 0.1);
        assert_float_equal(q.zero, alone.zero, 10);
        for (size_t i = 0; i < 2; i++) { /* out again; zeros do no harm */
            uint32_t bits;
            memcpy(&bits, &outliers[o][i], sizeof bits);
            s.bin[bits >> 16]--;
        }
        s.min[0] = x[0];
        s.max[0] = x[N - 1];
    }
    histogram_free(&s);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channels),
        cmocka_unit_test(merged_is_added),
        cmocka_unit_test(min_max),
        cmocka_unit_test(range_is_covered),
        cmocka_unit_test(nothing_but_zeros),
        cmocka_unit_test(hardly_anything),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(percentile),
        cmocka_unit_test(error_is_the_kernels),
        cmocka_unit_test(ends_are_the_kernels),
        cmocka_unit_test(error_in_one_bin),
        cmocka_unit_test(least_error),
        cmocka_unit_test(outliers_that_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
