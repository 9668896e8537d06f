#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/quantize/round/rotate_residual.h"
#include "random.h"

/* Widths of models: powers of two times 3, 9, 9, 7, an odd width, 1 and 5. */
static const uint32_t widths[] = {48, 288, 576, 896, 37, 2048, 40, 1};
enum { WIDTHS = sizeof widths / sizeof *widths };

static struct residual_rotation opened(size_t n, int threads)
{
    struct residual_rotation q;
    assert_true(rotate_residual_open(&q, n, threads));
    return q;
}

/* The bound is far above all widths. Without one, gcc warns of products that wrap in 32 bits. */
static float *filled(size_t n)
{
    float *x = n < 1 << 24 ? malloc(n * sizeof *x) : NULL;
    assert_non_null(x);
    random_fill(x, n);
    return x;
}

static float *copied(const float *x, size_t n)
{
    float *copy = malloc(n * sizeof *copy);
    assert_non_null(copy);
    return memcpy(copy, x, n * sizeof *x);
}

/* ---- the definition, without fast transforms */

static uint64_t next(uint64_t *state) /* SplitMix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void definition(double *y, const float *x, size_t n)
{
    size_t p = n & -n, m = n / p;
    double *signed_x = malloc(n * sizeof *signed_x), *cas = malloc(m * sizeof *cas);
    uint64_t state = 0;
    assert_true(signed_x && cas);
    for (size_t i = 0; i < n; i++)
        signed_x[i] = next(&state) >> 63 ? -(double)x[i] : (double)x[i];
    for (size_t k = 0; k < m; k++)
        cas[k] = cos(2 * acos(-1) * (double)k / (double)m) +
                 sin(2 * acos(-1) * (double)k / (double)m);
    for (size_t i = 0; i < n; i++) {
        y[i] = 0;
        for (size_t j = 0; j < n; j++)
            y[i] += cas[i / p * (j / p) % m] *
                    (__builtin_parityll(i % p & j % p) ? -signed_x[j] : signed_x[j]);
        y[i] /= sqrt((double)n);
    }
    free(signed_x);
    free(cas);
}

static void it_is_hartley_and_hadamard(void **state)
{
    (void)state;
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t n = widths[i];
        struct residual_rotation q = opened(n, 1);
        float *x = filled(n), *y = copied(x, n);
        double *want = malloc(n * sizeof *want);
        assert_non_null(want);
        definition(want, x, n);
        rotate_residual_rows(&q, y, n, 1, NULL);
        for (size_t j = 0; j < n; j++)
            assert_float_equal(y[j], want[j], 2e-7 * (1 + fabs(want[j])));
        free(x);
        free(y);
        free(want);
        rotate_residual_close(&q);
    }
}

/* ---- its purpose */

static double product(const float *x, const float *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

static void it_keeps_lengths_and_angles(void **state)
{
    (void)state;
    enum { ROWS = 11 }; /* more than are transformed at a time */
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t n = widths[i];
        struct residual_rotation q = opened(n, 1);
        float *x = filled(ROWS * n), *y = copied(x, ROWS * n);
        rotate_residual_rows(&q, y, n, ROWS, NULL);
        for (size_t a = 0; a < ROWS; a++)
            for (size_t b = 0; b <= a; b++)
                assert_float_equal(product(y + a * n, y + b * n, n),
                                   product(x + a * n, x + b * n, n), 1e-6 * (double)(n + 1));
        free(x);
        free(y);
        rotate_residual_close(&q);
    }
}

/* After the rotation no channel stands out, if one did before or if all were equal. */
static void it_spreads(void **state)
{
    (void)state;
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t n = widths[i];
        struct residual_rotation q = opened(n, 1);
        float *x = calloc(2 * n, sizeof *x);
        assert_non_null(x);
        for (size_t j = 0; j < n; j++)
            x[j] = 1;
        x[n + n / 2] = sqrtf((float)n); /* of the same length */
        rotate_residual_rows(&q, x, n, 2, NULL);
        for (size_t j = 0; j < 2 * n; j++)
            assert_true(fabsf(x[j]) < 4.5f);
        free(x);
        rotate_residual_close(&q);
    }
}

/* w (g x) = (Q (g w)) (Q x). Rows of w are apart, and the numbers between them do not change. */
static void readers(void **state)
{
    (void)state;
    enum { ROWS = 13 };
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t n = widths[i], stride = n + 3;
        struct residual_rotation q = opened(n, 2);
        float *w = filled(ROWS * stride), *v = copied(w, ROWS * stride), *gain = filled(n),
              *x = filled(n);
        rotate_residual_rows(&q, v, stride, ROWS, gain);
        float *y = copied(x, n);
        rotate_residual_rows(&q, y, n, 1, NULL);
        for (size_t j = 0; j < n; j++)
            x[j] *= gain[j];
        for (size_t r = 0; r < ROWS; r++) {
            assert_float_equal(product(v + r * stride, y, n), product(w + r * stride, x, n),
                               1e-6 * (double)(n + 1));
            assert_memory_equal(v + r * stride + n, w + r * stride + n, 3 * sizeof *w);
        }
        free(w);
        free(v);
        free(gain);
        free(x);
        free(y);
        rotate_residual_close(&q);
    }
}

/* Rotating columns equals rotating rows of the transposed matrix, to the bit. Columns after them do
   not change. */
static void writers(void **state)
{
    (void)state;
    enum { COLS = 21, STRIDE = 25 };
    for (size_t i = 0; i < WIDTHS; i++) {
        size_t n = widths[i];
        struct residual_rotation q = opened(n, 1);
        float *w = filled(n * STRIDE), *v = copied(w, n * STRIDE), *t = filled(COLS * n);
        for (size_t r = 0; r < n; r++)
            for (size_t c = 0; c < COLS; c++)
                t[c * n + r] = w[r * STRIDE + c];
        rotate_residual_columns(&q, v, STRIDE, COLS);
        rotate_residual_rows(&q, t, n, COLS, NULL);
        for (size_t r = 0; r < n; r++)
            for (size_t c = 0; c < STRIDE; c++)
                assert_true(v[r * STRIDE + c] == (c < COLS ? t[c * n + r] : w[r * STRIDE + c]));
        free(w);
        free(v);
        free(t);
        rotate_residual_close(&q);
    }
}

/* With so many rows and columns that threads share them. */
static void any_threads(void **state)
{
    (void)state;
    enum { N = 288, MANY = 1021 };
    float *x = filled(MANY * N), *gain = filled(N), *want = NULL;
    for (int threads = 1; threads <= 5; threads++) {
        struct residual_rotation q = opened(N, threads);
        float *y = copied(x, MANY * N);
        rotate_residual_rows(&q, y, N, MANY, gain);
        rotate_residual_columns(&q, y, MANY, MANY);
        if (threads == 1)
            want = copied(y, MANY * N);
        assert_memory_equal(y, want, MANY * N * sizeof *y);
        free(y);
        rotate_residual_close(&q);
    }
    free(x);
    free(gain);
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_hartley_and_hadamard),
        cmocka_unit_test(it_keeps_lengths_and_angles),
        cmocka_unit_test(it_spreads),
        cmocka_unit_test(readers),
        cmocka_unit_test(writers),
        cmocka_unit_test(any_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
