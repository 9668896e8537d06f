#include "test.h"

#include <float.h>
#include <math.h>

#include "tools/quantize/round/smooth.h"
#include "random.h"

static void factors_are_those_of_the_paper(void **state)
{
    (void)state;
    const float x[] = {16, 16, 16, 1, 0.25f}, w[] = {4, 4, 4, 1, 4},
                want[] = {2, 0.25f, 16, 1, 0.25f};
    static const float alpha[] = {0.5f, 0, 1, 0.5f, 0.5f};
    for (size_t j = 0; j < 5; j++) {
        float s;
        smooth_factors(&s, &x[j], &w[j], 1, alpha[j]);
        assert_float_equal(s, want[j], 1e-6);
    }
}

static void dead_and_absurd_channels_stay(void **state)
{
    (void)state;
    const float x[] = {0, 1, 0, 1e-45f, FLT_MAX}, w[] = {1, 0, 0, FLT_MAX, 1e-45f};
    float s[5];
    for (float alpha = 0; alpha <= 1; alpha += 0.25f) {
        smooth_factors(s, x, w, 5, alpha);
        for (size_t j = 0; j < 5; j++)
            assert_true(j < 3 ? s[j] == 1 : isnormal(s[j]) && isnormal(1 / s[j]));
    }
}

static void largest_of_all_who_share(void **state)
{
    (void)state;
    const float q[] = {1, -5, 99, 2, 3, 99}, k[] = {-4, 0}; /* rows of 3, of which 2 are used */
    float max[2] = {0};
    smooth_columns_max(max, q, 3, 2, 2);
    assert_true(max[0] == 2 && max[1] == 5);
    smooth_columns_max(max, k, 2, 1, 2);
    assert_true(max[0] == 4 && max[1] == 5);
}

/* (x / s) (w s)^T = x w^T, and with alpha 1/2 the largest element of a channel is sqrt(max x max w)
   on both sides. */
static void the_product_stays(void **state)
{
    (void)state;
    enum { ROWS = 7, COLS = 24, STRIDE = 30 };
    float x[COLS], w[ROWS * STRIDE], v[ROWS * STRIDE], y[COLS], x_max[COLS],
        w_max[COLS] = {0}, after[COLS] = {0}, s[COLS];
    random_fill(x, COLS);
    random_fill(w, ROWS * STRIDE);
    x[5] *= 100;
    for (size_t j = 0; j < COLS; j++) {
        y[j] = x[j];
        x_max[j] = fabsf(x[j]);
    }
    for (size_t i = 0; i < ROWS * STRIDE; i++)
        v[i] = w[i];
    smooth_columns_max(w_max, w, STRIDE, ROWS, COLS);
    smooth_factors(s, x_max, w_max, COLS, 0.5f);
    smooth_columns(v, STRIDE, ROWS, COLS, s);
    smooth_divide(y, s, COLS);
    smooth_columns_max(after, v, STRIDE, ROWS, COLS);
    for (size_t j = 0; j < COLS; j++) {
        assert_float_equal(after[j], sqrtf(x_max[j] * w_max[j]), 1e-5);
        assert_float_equal(fabsf(y[j]), sqrtf(x_max[j] * w_max[j]), 1e-5);
    }
    for (size_t n = 0; n < ROWS; n++) {
        double a = 0, b = 0;
        for (size_t j = 0; j < COLS; j++) {
            a += (double)x[j] * w[n * STRIDE + j];
            b += (double)y[j] * v[n * STRIDE + j];
        }
        assert_float_equal(a, b, 1e-4);
        for (size_t j = COLS; j < STRIDE; j++)
            assert_true(v[n * STRIDE + j] == w[n * STRIDE + j]);
    }
}

static void rows_are_divided(void **state)
{
    (void)state;
    float w[] = {2, -4, 6, 1, 0, 3};
    const float s[] = {2, 0.5f}, want[] = {1, -2, 3, 2, 0, 6};
    smooth_rows(w, 2, 3, s);
    for (size_t i = 0; i < 6; i++)
        assert_true(w[i] == want[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_those_of_the_paper),
        cmocka_unit_test(dead_and_absurd_channels_stay),
        cmocka_unit_test(largest_of_all_who_share),
        cmocka_unit_test(the_product_stays),
        cmocka_unit_test(rows_are_divided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
