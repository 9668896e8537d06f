/* Weight formats: each one against a plain sum over the numbers that its matrix holds. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "simd/half.h"
#include "weights/format.h"

enum { ROWS = 35, COLS = 50, FIRST = 3, TOKENS = 4 };

static struct tft_kernels kern;

/* ---- matrices: [FIRST + ROWS, COLS] numbers in each format, of which a matrix has the last
   ROWS */

static float numbers[FIRST + ROWS][COLS];
static uint16_t f16[FIRST + ROWS][COLS], bf16[FIRST + ROWS][COLS];
static int8_t panels[48 * 64];
static float scale[48];
static int32_t rowsum[48];

static struct tft_mat floats(const struct tft_format *format, const void *data)
{
    return (struct tft_mat){
        .format = format, .rows = ROWS, .cols = COLS, .first = FIRST, .data = data};
}

/* Panels of int8; their numbers replace the numbers in `numbers`. */
static struct tft_mat int8(void)
{
    size_t cols = tft_panel_cols(COLS);
    assert_true(tft_panel_rows(ROWS) <= 48 && cols <= 64);
    for (size_t n = 0; n < ROWS; n++) {
        scale[n] = 0.5f + 0.25f * random_even();
        rowsum[n] = 0;
        for (size_t k = 0; k < COLS; k++) {
            int8_t q = (int8_t)(random_u32() % 255 - 127);
            panels[tft_panel_at(n, k, cols)] = q;
            rowsum[n] += q;
            numbers[FIRST + n][k] = (float)q * scale[n];
        }
    }
    for (size_t n = ROWS; n < 48; n++)
        scale[n] = 1;
    return (struct tft_mat){.format = &tft_format_i8,
                            .rows = ROWS,
                            .cols = COLS,
                            .data = panels,
                            .scale = scale,
                            .rowsum = rowsum};
}

/* Panels of codes, likewise. */
static struct tft_mat codes(unsigned bits, unsigned group)
{
    static uint8_t data[3 * 128 * 16];
    const struct tft_format *f = tft_format_low(bits, group);
    size_t cols = tft_panel_cols(COLS), size = tft_low_group_bytes(f->low),
           groups = 3 * tft_low_groups(f->low, cols);
    int z = 1 << (bits - 1), most = 127 / z < 15 ? 127 / z : 15;
    assert_true(groups * size <= sizeof data);
    for (size_t i = 0; i < groups * size; i++)
        data[i] = i % size < TFT_PANEL
                      ? (uint8_t)(1 + (int)(random_u32() % (unsigned)most) + 16 * z)
                      : (uint8_t)random_u32();
    for (size_t n = 0; n < ROWS; n++) {
        scale[n] = 0.5f + 0.25f * random_even();
        rowsum[n] = 0;
        for (size_t k = 0; k < COLS; k++) {
            int q = tft_low_at(data, f->low, n, k, cols);
            assert_in_range(q + 127, 0, 254);
            rowsum[n] += q;
            numbers[FIRST + n][k] = (float)q * scale[n];
        }
    }
    return (struct tft_mat){
        .format = f, .rows = ROWS, .cols = COLS, .data = data, .scale = scale, .rowsum = rowsum};
}

static void fill(void)
{
    random_fill(&numbers[0][0], sizeof numbers / sizeof(float));
    for (size_t n = 0; n < FIRST + ROWS; n++)
        for (size_t k = 0; k < COLS; k++) {
            bf16[n][k] = (uint16_t)(tft_f32_bits(numbers[n][k]) >> 16);
            numbers[n][k] = tft_f32_of_bits((uint32_t)bf16[n][k] << 16); /* exact in all three */
            f16[n][k] = tft_f32_to_f16(numbers[n][k]);
        }
}

/* ---- promises of every format */

static void check_rows(const struct tft_mat *w)
{
    float y[COLS];
    for (uint32_t n = 0; n < w->rows; n++) {
        w->format->row(&kern, w, n, y);
        for (size_t k = 0; k < COLS; k++)
            assert_float_equal(y[k], numbers[FIRST + n][k], 1e-3);
    }
}

static void check_product(const struct tft_mat *w, bool with_bias, bool add, size_t step,
                          size_t begin, size_t end)
{
    enum { LDY = ROWS + 2, LDX = 64 };
    float y[TOKENS][LDY], before[TOKENS][LDY], x[TOKENS][LDX], bias[ROWS];
    uint8_t bytes[TOKENS][LDX] = {{0}};
    struct tft_affine affine[TOKENS];
    random_fill(&y[0][0], sizeof y / sizeof(float));
    random_fill(bias, ROWS);
    memcpy(before, y, sizeof y);
    for (size_t t = 0; t < TOKENS; t++) {
        float s = 0.01f * (float)(t + 1);
        affine[t] = (struct tft_affine){s, 1 / s, (int32_t)(100 + t)};
        for (size_t k = 0; k < COLS; k++) {
            const struct tft_affine *q = &affine[t * step];
            bytes[t][k] = (uint8_t)random_u32();
            x[t][k] =
                w->format->takes_bytes ? (float)(bytes[t][k] - q->zero) * q->scale : random_even();
        }
    }
    struct tft_product p = {.y = &y[0][0],
                            .ldy = LDY,
                            .x = &x[0][0],
                            .bytes = &bytes[0][0],
                            .ldx = LDX,
                            .affine = affine,
                            .step = step,
                            .bias = with_bias ? bias : NULL,
                            .add = add,
                            .n = TOKENS};
    w->format->product(&kern, w, &p, begin, end);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < LDY; i++) {
            double want = (double)before[t][i];
            if (i < end - begin) {
                want = (add ? want : 0) + (with_bias ? (double)bias[begin + i] : 0);
                for (size_t k = 0; k < COLS; k++)
                    want += (double)x[t][k] * (double)numbers[FIRST + begin + i][k];
            }
            if (fabs((double)y[t][i] - want) > 1e-4 * (1 + fabs(want)))
                fail_msg("%s: token %zu, row %zu: %g is not %g", w->format->name, t, begin + i,
                         (double)y[t][i], want);
        }
}

/* A matrix that is sound, and its row `row` after `rowsum` or a scale changed. */
static void check_flaws(const struct tft_mat *w)
{
    enum { ROW = 20 };
    size_t at = 0;
    float before = scale[ROW];
    assert_null(w->format->flaw(&kern, w, 0, ROWS, &at));
    assert_null(w->format->flaw(&kern, w, 2 * TFT_PANEL, ROWS, &at));
    rowsum[ROW]++;
    assert_string_equal(w->format->flaw(&kern, w, 0, ROWS, &at), "does not add up to its rowsum");
    assert_int_equal(at, ROW);
    assert_null(w->format->flaw(&kern, w, 2 * TFT_PANEL, ROWS, &at));
    rowsum[ROW]--;
    scale[ROW] = 0;
    assert_string_equal(w->format->flaw(&kern, w, TFT_PANEL, ROWS, &at),
                        "has a scale that is not a positive number");
    assert_int_equal(at, ROW);
    scale[ROW] = before;
}

static void check_format(const struct tft_mat *w, uint64_t bytes)
{
    assert_int_equal(w->format->bytes(w), bytes);
    check_rows(w);
    for (int how = 0; how < 8; how++) {
        check_product(w, how & 1, how & 2, how >> 2, 0, ROWS);
        check_product(w, how & 1, how & 2, how >> 2, TFT_PANEL, ROWS);
        check_product(w, how & 1, how & 2, how >> 2, TFT_PANEL, 2 * TFT_PANEL);
    }
}

static void formats_of_floats(void **state)
{
    (void)state;
    fill();
    struct tft_mat w = floats(&tft_format_f32, numbers);
    check_format(&w, ROWS * COLS * 4);
    w = floats(&tft_format_f16, f16);
    check_format(&w, ROWS * COLS * 2);
    w = floats(&tft_format_bf16, bf16);
    check_format(&w, ROWS * COLS * 2);
}

static void panels_of_int8(void **state)
{
    (void)state;
    struct tft_mat w = int8();
    check_format(&w, 48 * (64 + 4 + 4));
    check_flaws(&w);

    size_t at, cols = tft_panel_cols(COLS);
    int8_t *inside = &panels[tft_panel_at(33, 49, cols)];
    rowsum[33] += -128 - *inside;
    *inside = -128;
    assert_string_equal(w.format->flaw(&kern, &w, 0, ROWS, &at),
                        "has a weight of -128; the least is -127");
    assert_int_equal(at, 33);
    w = int8();
    panels[tft_panel_at(33, COLS, cols)] = 1;
    rowsum[33]++;
    assert_string_equal(w.format->flaw(&kern, &w, 0, ROWS, &at), "has padding that is not zero");
    panels[tft_panel_at(33, COLS, cols)] = 0;
    rowsum[33]--;
    panels[tft_panel_at(ROWS, 0, cols)] = 1;
    rowsum[ROWS] = 1;
    assert_string_equal(w.format->flaw(&kern, &w, 0, ROWS, &at), "has padding that is not zero");
    assert_int_equal(at, ROWS);
    panels[tft_panel_at(ROWS, 0, cols)] = 0;
    rowsum[ROWS] = 0;
}

/* Rows of the greatest length and the greatest numbers. */
static void long_rows_of_int8(void **state)
{
    (void)state;
    size_t size = (size_t)TFT_PANEL * TFT_PANEL_MAX_K, at;
    int8_t *data = malloc(size);
    assert_non_null(data);
    struct tft_mat w = {.format = &tft_format_i8,
                        .rows = TFT_PANEL,
                        .cols = TFT_PANEL_MAX_K,
                        .data = data,
                        .scale = scale,
                        .rowsum = rowsum};
    for (int q = -127; q <= 127; q += 254) {
        memset(data, q, size);
        for (size_t r = 0; r < TFT_PANEL; r++) {
            scale[r] = 1;
            rowsum[r] = q * TFT_PANEL_MAX_K;
        }
        assert_null(w.format->flaw(&kern, &w, 0, TFT_PANEL, &at));
    }
    free(data);
}

/* Sets the code of row 0 and column k of a group of 4 bits. */
static void set_code(uint8_t *group, size_t k, unsigned code)
{
    uint8_t *quad = group + TFT_PANEL + k / TFT_QUAD * tft_codes_bytes(TFT_BITS_4, 1),
            *byte = quad + k % TFT_QUAD;
    *byte = (uint8_t)((*byte & 0xf0) | code);
}

/* A weight out of range matters in the last column, and not in the padding after it. */
static void codes_out_of_range(void **state)
{
    (void)state;
    enum { GROUP = 32 };
    struct tft_mat w = codes(4, GROUP);
    const struct tft_low *low = w.format->low;
    size_t at;
    uint8_t *group = (uint8_t *)(uintptr_t)w.data + tft_low_group_bytes(low);
    group[0] = 15 | 9 << 4; /* code 0 is -135, code 9 is 0 */
    for (size_t k = 0; k < GROUP; k++)
        set_code(group, k, 9);
    rowsum[0] = 0;
    for (size_t k = 0; k < COLS; k++)
        rowsum[0] += tft_low_at(w.data, low, 0, k, tft_panel_cols(COLS));
    set_code(group, COLS - GROUP, 0);
    assert_null(w.format->flaw(&kern, &w, 0, ROWS, &at));
    set_code(group, COLS - 1 - GROUP, 0);
    assert_string_equal(w.format->flaw(&kern, &w, 0, ROWS, &at),
                        "has a weight outside of -127 .. 127");
    assert_int_equal(at, 0);
    group[0] = 15 | 6 << 4; /* code 15 is 135 */
    for (size_t k = 0; k < GROUP; k++)
        set_code(group, k, 6);
    set_code(group, COLS - 1 - GROUP, 15);
    assert_string_equal(w.format->flaw(&kern, &w, 0, ROWS, &at),
                        "has a weight outside of -127 .. 127");
}

static void panels_of_codes(void **state)
{
    (void)state;
    for (unsigned bits = 2; bits <= 4; bits++)
        for (unsigned group = 32; group <= 128; group *= 2) {
            struct tft_mat w = codes(bits, group);
            size_t padded = group < 64 ? 64 : group;
            check_format(&w, 48 * (padded * bits / 8 + padded / group + 4 + 4));
            check_flaws(&w);
        }
    assert_null(tft_format_low(5, 64));
    assert_null(tft_format_low(1, 64));
    assert_null(tft_format_low(4, 16));
    assert_null(tft_format_low(4, 0));
    assert_null(tft_format_low(36, 64));
    assert_null(tft_format_low(4, 256));
    assert_null(tft_format_low(0, 0));
}

/* A tensor in blocks: each is an f16 scale and 32 int8. */
static void a_stored_tensor(void **state)
{
    (void)state;
    enum { BLOCK = 34 };
    static unsigned char data[FIRST + 2][2 * BLOCK];
    float y[64];
    for (size_t n = 0; n < FIRST + 2; n++)
        for (size_t i = 0; i < 2 * BLOCK; i++) /* a scale of 1 */
            data[n][i] = i % BLOCK == 0   ? 0x00
                         : i % BLOCK == 1 ? 0x3c
                                          : (unsigned char)(10 * n + i);
    struct tft_tensor t = {
        .type = TFT_Q8_0, .ne = {64, FIRST + 2, 1, 1}, .data = &data[0][0], .bytes = sizeof data};
    struct tft_mat w = {
        .format = &tft_format_stored, .rows = 2, .cols = 64, .first = FIRST, .tensor = &t};
    assert_int_equal(w.format->bytes(&w), 2 * 2 * BLOCK);
    assert_null(w.format->product);
    for (uint32_t n = 0; n < 2; n++) {
        w.format->row(&kern, &w, n, y);
        for (size_t k = 0; k < 64; k++)
            assert_float_equal(y[k], (signed char)data[FIRST + n][k / 32 * BLOCK + 2 + k % 32], 0);
    }
}

static void the_format_of_a_tensor(void **state)
{
    (void)state;
    assert_ptr_equal(tft_format_of(TFT_F32), &tft_format_f32);
    assert_ptr_equal(tft_format_of(TFT_F16), &tft_format_f16);
    assert_ptr_equal(tft_format_of(TFT_BF16), &tft_format_bf16);
    assert_ptr_equal(tft_format_of(TFT_I8), &tft_format_i8);
    assert_null(tft_format_of(TFT_Q4_K));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_of_floats),
        cmocka_unit_test(panels_of_int8),
        cmocka_unit_test(long_rows_of_int8),
        cmocka_unit_test(panels_of_codes),
        cmocka_unit_test(codes_out_of_range),
        cmocka_unit_test(a_stored_tensor),
        cmocka_unit_test(the_format_of_a_tensor),
    };
    tft_kernels_fill(&kern, tft_kernels_best());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
