#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simd/kernels.h"
#include "tools/quantize/round/rotate.h"
#include "random.h"

static void blocks(void **state)
{
    (void)state;
    static const size_t of[][2] = {{1, 1},     {2, 2},      {3, 1},      {64, 64},
                                   {80, 16},   {96, 32},    {128, 128},  {256, 256},
                                   {512, 256}, {4864, 256}, {5632, 256}, {896, 128}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        assert_int_equal(rotate_block(of[i][0]), of[i][1]);
}

/* y = w x */
static void product(double *y, const float *w, size_t stride, size_t rows, size_t cols,
                    const double *x)
{
    for (size_t n = 0; n < rows; n++) {
        y[n] = 0;
        for (size_t k = 0; k < cols; k++)
            y[n] += (double)w[n * stride + k] * x[k];
    }
}

/* Element i, j of the Hadamard matrix, from its definition. */
static int h(size_t i, size_t j)
{
    return __builtin_parityll(i & j) ? -1 : 1;
}

static void it_is_the_walsh_hadamard_transform(void **state)
{
    (void)state;
    enum { B = 16 };
    float w[B];
    random_fill(w, B);
    float r[B], r_online[B];
    memcpy(r, w, sizeof w);
    memcpy(r_online, w, sizeof w);
    rotate_columns(r, B, 1, B, B);
    rotate_columns_online(r_online, B, 1, B, B);
    for (size_t j = 0; j < B; j++) {
        double sum = 0;
        for (size_t i = 0; i < B; i++)
            sum += h(i, j) * (double)w[i];
        assert_true(r[j] == (float)(sum / 4));
        assert_true(r_online[j] == (float)(sum / 16));
    }
}

/* w' (H x) = w x, where the kernel of every ISA level computes H x. */
static void online(void **state)
{
    (void)state;
    enum { ROWS = 5, COLS = 1024, STRIDE = 1030 };
    float *w = malloc(ROWS * STRIDE * sizeof *w), *v = malloc(ROWS * STRIDE * sizeof *w), x[COLS];
    double a[ROWS], b[ROWS], wide[COLS];
    random_fill(w, ROWS * STRIDE);
    random_fill(x, COLS);
    for (size_t k = 0; k < COLS; k++)
        wide[k] = x[k];
    product(a, w, STRIDE, ROWS, COLS, wide);
    for (int isa = 0; isa < tft_kernels_isas(); isa++)
        for (size_t block = 1; block <= ROTATE_MAX; block *= 2) {
            struct tft_kernels k;
            float t[COLS];
            tft_kernels_fill(&k, isa);
            memcpy(t, x, sizeof t);
            k.hadamard(t, COLS, block);
            for (size_t i = 0; i < COLS; i++)
                wide[i] = t[i];
            memcpy(v, w, ROWS * STRIDE * sizeof *w);
            rotate_columns_online(v, STRIDE, ROWS, COLS, block);
            product(b, v, STRIDE, ROWS, COLS, wide);
            for (size_t n = 0; n < ROWS; n++)
                assert_float_equal(a[n], b[n], 1e-4);
            for (size_t n = 0; n < ROWS; n++)
                assert_memory_equal(v + n * STRIDE + COLS, w + n * STRIDE + COLS,
                                    (STRIDE - COLS) * sizeof *w);
        }
    free(w);
    free(v);
}

/* O' (mix of V' x + bias') = O (mix of V x + bias), where two heads share one of V, for each block
   size that divides a head of 48 numbers. The mix is attention's: for each head a sum over tokens,
   with the same weight for all of its channels. */
static void values_and_output(void **state)
{
    (void)state;
    enum { HEADS = 4, KV = 2, HEAD = 48, WIDTH = 20, TOKENS = 3 };
    float v[KV * HEAD * WIDTH], o[WIDTH * HEADS * HEAD], bias[KV * HEAD], x[TOKENS][WIDTH],
        p[HEADS][TOKENS];
    double want[WIDTH] = {0};
    random_fill(v, KV * HEAD * WIDTH);
    random_fill(o, WIDTH * HEADS * HEAD);
    random_fill(bias, KV * HEAD);
    random_fill(x[0], TOKENS * WIDTH);
    random_fill(p[0], HEADS * TOKENS);
    assert_int_equal(rotate_block(HEAD), 16);
    for (size_t block = 1; block <= 16; block *= 2) {
        double mixed[HEADS * HEAD] = {0}, got[WIDTH];
        /* rotates rotated rows again: the rotations cancel out */
        if (block > 1) {
            rotate_rows(v, WIDTH, KV * HEAD, WIDTH, block);
            rotate_columns(bias, KV * HEAD, 1, KV * HEAD, block);
            rotate_columns(o, HEADS * HEAD, WIDTH, HEADS * HEAD, block);
        }
        for (size_t t = 0; t < TOKENS; t++) {
            double wide[WIDTH], y[KV * HEAD];
            for (size_t k = 0; k < WIDTH; k++)
                wide[k] = x[t][k];
            product(y, v, WIDTH, KV * HEAD, WIDTH, wide);
            for (size_t i = 0; i < HEADS * HEAD; i++) {
                size_t from = i / HEAD / (HEADS / KV) * HEAD + i % HEAD;
                mixed[i] += p[i / HEAD][t] * (y[from] + bias[from]);
            }
        }
        product(got, o, HEADS * HEAD, WIDTH, HEADS * HEAD, mixed);
        for (size_t n = 0; n < WIDTH; n++) {
            if (block == 1)
                want[n] = got[n];
            assert_float_equal(got[n], want[n], 1e-4);
        }
    }
}

/* Rotating rows equals rotating columns of the transposed matrix. It keeps lengths, and a second
   rotation undoes it. */
static void rows_and_columns(void **state)
{
    (void)state;
    enum { ROWS = 32, COLS = 9, STRIDE = 11 };
    float w[ROWS * STRIDE], before[ROWS * STRIDE], t[COLS * ROWS];
    random_fill(w, ROWS * STRIDE);
    memcpy(before, w, sizeof w);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j++)
            t[j * ROWS + i] = w[i * STRIDE + j];
    rotate_rows(w, STRIDE, ROWS, COLS, 8);
    rotate_columns(t, ROWS, COLS, ROWS, 8);
    double a = 0, b = 0;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < STRIDE; j++) {
            assert_true(w[i * STRIDE + j] == (j < COLS ? t[j * ROWS + i] : before[i * STRIDE + j]));
            a += pow(w[i * STRIDE + j], 2);
            b += pow(before[i * STRIDE + j], 2);
        }
    assert_float_equal(a, b, 1e-4);
    rotate_rows(w, STRIDE, ROWS, COLS, 8);
    for (size_t i = 0; i < ROWS * STRIDE; i++)
        assert_float_equal(w[i], before[i], 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks),
        cmocka_unit_test(it_is_the_walsh_hadamard_transform),
        cmocka_unit_test(online),
        cmocka_unit_test(values_and_output),
        cmocka_unit_test(rows_and_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
