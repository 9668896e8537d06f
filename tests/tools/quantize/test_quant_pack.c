#include "test.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "simd/kernels.h"
#include "tools/quantize/round/pack.h"
#include "tools/quantize/round/pack_low.h"
#include "random.h"

enum { MOST_ROWS = 48, MOST_COLS = 80, STRIDE = 90 };
static float w[MOST_ROWS * STRIDE], scale[MOST_ROWS];
static int32_t rowsum[MOST_ROWS];
static int8_t data[MOST_ROWS * MOST_COLS];

/* Checks that do not need pack.c: where each byte lies, that it is the nearest, the padding. */
static void check(size_t rows, size_t cols)
{
    size_t padded = tft_panel_cols(cols);
    for (size_t n = 0; n < tft_panel_rows(rows); n++) {
        int32_t sum = 0;
        assert_true(isnormal(scale[n]) && scale[n] > 0);
        for (size_t k = 0; k < padded; k++) {
            int q = data[n / 16 * 16 * padded + k / 4 * 64 + n % 16 * 4 + k % 4];
            assert_true(q >= -127);
            if (n < rows && k < cols)
                assert_true(fabs(q * (double)scale[n] - w[n * STRIDE + k]) <= scale[n] * 0.500001);
            else
                assert_int_equal(q, 0);
            sum += q;
        }
        assert_int_equal(rowsum[n], sum);
        if (n >= rows)
            assert_true(scale[n] == 1);
    }
}

static void matrix(size_t rows, size_t cols, bool same)
{
    memset(data, 99, sizeof data);
    memset(rowsum, 99, sizeof rowsum);
    assert_int_equal(pack_matrix(data, rowsum, scale, w, STRIDE, rows, cols, same), rows);
    check(rows, cols);
}

static void every_shape(void **state)
{
    (void)state;
    static const size_t cols[] = {1, 3, 4, 15, 16, 17, 64, 70, 80};
    random_fill(w, MOST_ROWS * STRIDE);
    for (size_t rows = 0; rows <= MOST_ROWS; rows++)
        for (size_t i = 0; i < sizeof cols / sizeof *cols; i++)
            for (int same = 0; same < 2; same++)
                matrix(rows, cols[i], same);
}

static void scales(void **state)
{
    (void)state;
    for (size_t n = 0; n < 20; n++)
        for (size_t k = 0; k < 16; k++)
            w[n * STRIDE + k] = k ? 0 : -(float)(n + 1);
    matrix(20, 16, false);
    for (size_t n = 0; n < 20; n++) {
        assert_true(scale[n] == (float)(n + 1) / 127);
        assert_int_equal(rowsum[n], -127);
    }
    matrix(20, 16, true);
    for (size_t n = 0; n < 20; n++)
        assert_true(scale[n] == 20.0f / 127);
    assert_int_equal(rowsum[9], -64); /* -63.5 to even */
}

static void ties_to_even(void **state)
{
    (void)state;
    const float row[] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, -126.5f, 0.49999997f};
    const int want[] = {127, 0, 2, 2, 0, -2, -2, 126, -126, 0};
    int32_t sums[16];
    int8_t out[256];
    float one = pack_scale(127);
    assert_true(one == 1);
    pack_panel(out, sums, &one, row, 10, 1, 10);
    for (size_t k = 0; k < 10; k++)
        assert_int_equal(out[tft_panel_at(0, k, 16)], want[k]);
}

static void extremes(void **state)
{
    (void)state;
    static const float tops[] = {0, 1e-45f, 1e-38f, FLT_MIN, 1e-36f, 1, FLT_MAX};
    memset(w, 0, sizeof w);
    for (size_t n = 0; n < 7; n++) {
        w[n * STRIDE] = tops[n];
        w[n * STRIDE + 1] = -tops[n];
    }
    matrix(7, 16, false);
    assert_true(scale[0] == 1);
    matrix(7, 16, true);
    matrix(1, 16, true);
    assert_true(scale[0] == 1);
    /* the largest weight is 127, whichever way the scale was rounded */
    for (float top = 1; top < 2; top += 0x1p-12f) {
        w[0] = top;
        w[1] = -top;
        matrix(1, 2, false);
        assert_int_equal(data[0], 127);
        assert_int_equal(data[1], -127);
    }
}

static void not_finite(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    float max[40];
    for (size_t i = 0; i < 3; i++)
        for (size_t n = 0; n < 40; n += 13) {
            random_fill(w, MOST_ROWS * STRIDE);
            w[n * STRIDE + 69] = bad[i];
            assert_int_equal(pack_max(max, w, STRIDE, 40, 70), n);
            assert_int_equal(pack_max(max, w, STRIDE, 40, 69), 40);
            assert_int_equal(pack_matrix(data, rowsum, scale, w, STRIDE, 40, 70, false), n);
            assert_int_equal(pack_matrix(data, rowsum, scale, w, STRIDE, 40, 70, true), n);
        }
}

/* Packing panel by panel gives the bytes of packing the whole matrix. */
static void in_pieces(void **state)
{
    (void)state;
    enum { ROWS = 37, COLS = 70, PADDED = 80 };
    static int8_t piece[16 * PADDED];
    int32_t sums[16];
    float max[ROWS], top = 0, each[16];
    random_fill(w, MOST_ROWS * STRIDE);
    for (int same = 0; same < 2; same++) {
        matrix(ROWS, COLS, same);
        assert_int_equal(pack_max(max, w, STRIDE, ROWS, COLS), ROWS);
        for (size_t n = 0; n < ROWS; n++)
            top = fmaxf(top, max[n]);
        for (size_t n = 0; n < ROWS; n += 16) {
            size_t rows = ROWS - n < 16 ? ROWS - n : 16;
            for (size_t i = 0; i < rows; i++)
                each[i] = pack_scale(same ? top : max[n + i]);
            pack_panel(piece, sums, each, w + n * STRIDE, STRIDE, rows, COLS);
            assert_memory_equal(piece, data + n * PADDED, sizeof piece);
            assert_memory_equal(sums, rowsum + n, sizeof sums);
            assert_memory_equal(each, scale + n, rows * sizeof *each);
        }
    }
}

/* The kernel's product is w x, up to 8-bit errors of both. */
static void the_kernel_reads_it(void **state)
{
    (void)state;
    enum { ROWS = 37, COLS = 64 };
    random_fill(w, MOST_ROWS * STRIDE);
    matrix(ROWS, COLS, false);
    const struct tft_panels panels = {data, scale, rowsum, COLS};
    const struct tft_affine q = {1 / 128.0f, 128, 128};
    float x[COLS], y[ROWS];
    uint8_t bytes[COLS];
    random_fill(x, COLS);
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        struct tft_kernels k;
        tft_kernels_fill(&k, isa);
        k.quantize(bytes, x, COLS, &q);
        k.gemm_i8(&(struct tft_gemm_i8){.y = y,
                                        .ldy = ROWS,
                                        .x = bytes,
                                        .ldx = COLS,
                                        .xq = &q,
                                        .w = &panels,
                                        .M = 1,
                                        .N = ROWS});
        for (size_t n = 0; n < ROWS; n++) {
            double want = 0;
            for (size_t i = 0; i < COLS; i++)
                want += (double)x[i] * w[n * STRIDE + i];
            /* 64 errors of up to 1/256 each side, with random signs: 0.03 is typical */
            assert_float_equal(y[n], want, 0.08);
        }
    }
}

/* Each code is where tft_low_at finds it, and stands for its number. */
static void codes_of_low_bits(void **state)
{
    (void)state;
    enum { ROWS = 13, COLS = 150, APART = 160, K = 160 };
    static uint8_t code[ROWS * APART], factors[ROWS * 8], to[16 * 256];
    static const enum tft_bits widths[] = {TFT_BITS_2, TFT_BITS_3, TFT_BITS_4};
    int32_t sums[16];
    for (unsigned i = 0; i < 9; i++) {
        struct tft_low low = {widths[i / 3], (uint8_t)(32 << i % 3)};
        size_t groups = tft_low_groups(&low, COLS);
        assert_true(tft_low_panel(&low, K) <= sizeof to);
        assert_int_equal(pack_low_key(&low), (int)(2 + i / 3) + 256 * (32 << i % 3));
        for (size_t k = 0; k < sizeof code; k++)
            code[k] = (uint8_t)(random_u32() % tft_bits_levels(low.bits));
        for (size_t k = 0; k < ROWS * groups; k++)
            factors[k] = pack_low_factors(1 + (int)(random_u32() % 8), (int)(random_u32() % 16));
        pack_low_panel(to, sums, &low, code, APART, factors, ROWS, COLS);
        for (size_t n = 0; n < 16; n++) {
            int sum = 0;
            for (size_t k = 0; k < COLS && n < ROWS; k++) {
                uint8_t f = factors[n * groups + k / low.group];
                int want = (f & 15) * (code[n * APART + k] - (f >> 4));
                assert_int_equal(tft_low_at(to, &low, n, k, K), want);
                sum += want;
            }
            assert_int_equal(sums[n], sum);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape),         cmocka_unit_test(scales),
        cmocka_unit_test(ties_to_even),        cmocka_unit_test(extremes),
        cmocka_unit_test(not_finite),          cmocka_unit_test(in_pieces),
        cmocka_unit_test(the_kernel_reads_it), cmocka_unit_test(codes_of_low_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
