/* Blocks whose codes are chosen with feedback: the grid of each type, and the cost of errors. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "random.h"
#include "simd/kernels.h"
#include "tools/quantize/blocks/blocks.h"
#include "tools/quantize/round/grid.h"

enum { ROWS = 9, COLS = 512, MOST = ROWS * COLS };
static const enum tft_dtype types[] = {TFT_Q4_0, TFT_Q4_1, TFT_Q5_0, TFT_Q5_1,
                                       TFT_Q3_K, TFT_Q4_K, TFT_Q5_K, TFT_Q6_K};
enum { TYPES = sizeof types / sizeof *types };

static float w[MOST], h[COLS * COLS], ones[COLS];
static unsigned char blocks[4 * MOST];
static struct tft_kernels kern;

static void fill(void)
{
    static float x[64][COLS];
    memset(h, 0, sizeof h);
    for (int i = 0; i < MOST; i++)
        w[i] = 0.02f * random_normal();
    for (int t = 0; t < 64; t++)
        for (int k = 0; k < COLS; k++)
            x[t][k] = random_normal() * 0.3f + (k % 4 ? x[t][k - 1] : random_normal() * 2);
    for (int i = 0; i < COLS; i++)
        for (int j = 0; j < COLS; j++)
            for (int t = 0; t < 64; t++)
                h[i * COLS + j] += x[t][i] * x[t][j];
    for (int k = 0; k < COLS; k++)
        ones[k] = 1;
}

static size_t row_bytes(enum tft_dtype type)
{
    uint64_t bytes = 0;
    assert_true(tft_dtype_bytes(type, COLS, &bytes));
    return (size_t)bytes;
}

/* y: [ROWS, COLS] the numbers of the rounded blocks, as grid_round says they are. */
static void rounded(float *y, enum tft_dtype type, bool correlated, int n_threads)
{
    struct metric metric;
    float diagonal[COLS], read[COLS];
    for (int k = 0; k < COLS; k++)
        diagonal[k] = h[k * COLS + k];
    assert_true(metric_open(&metric, correlated ? h : diagonal, COLS, correlated, NULL, GRID_GROUP,
                            &kern, n_threads));
    memcpy(y, w, sizeof w);
    assert_true(grid_round(blocks, type, y, ROWS,
                           &(struct grid_how){.metric = &metric, .kern = &kern,
                                              .n_threads = n_threads}));
    metric_close(&metric);
    for (int r = 0; r < ROWS; r++) {
        tft_dtype_info(type)->to_f32(read, blocks + (size_t)r * row_bytes(type), COLS);
        assert_memory_equal(read, y + r * COLS, sizeof read);
    }
}

/* The sum of e H e^T over the rows. */
static double cost_of(const float *y)
{
    double sum = 0;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < COLS; i++)
            for (int j = 0; j < COLS; j++)
                sum += ((double)w[r * COLS + i] - (double)y[r * COLS + i]) *
                       ((double)w[r * COLS + j] - (double)y[r * COLS + j]) *
                       (double)h[i * COLS + j];
    return sum;
}

/* Codes chosen apart are a grid: the number of code c is that of code 0 and c steps. The scales of
   the blocks stay. */
static void codes_are_a_grid(void **state)
{
    (void)state;
    float low[COLS], next[COLS], y[COLS];
    uint8_t code[COLS];
    fill();
    for (int t = 0; t < TYPES; t++) {
        enum tft_dtype type = types[t];
        blocks_row(blocks, type, w, ones, COLS);
        memset(code, 0, sizeof code);
        blocks_codes(blocks, type, code, COLS);
        tft_dtype_info(type)->to_f32(low, blocks, COLS);
        memset(code, 1, sizeof code);
        blocks_codes(blocks, type, code, COLS);
        tft_dtype_info(type)->to_f32(next, blocks, COLS);
        for (int k = 0; k < COLS; k++)
            code[k] = (uint8_t)(k * 7 % (int)blocks_levels(type));
        blocks_codes(blocks, type, code, COLS);
        tft_dtype_info(type)->to_f32(y, blocks, COLS);
        for (int k = 0; k < COLS; k++)
            assert_true(fabsf(y[k] - (low[k] + (float)code[k] * (next[k] - low[k]))) < 1e-5f);
    }
    assert_int_equal(blocks_levels(TFT_Q8_0), 0);
    assert_int_equal(blocks_levels(TFT_F32), 0);
    assert_int_equal(blocks_levels(TFT_IQ2_XXS), 0);
}

static void feedback_lowers_the_cost(void **state)
{
    (void)state;
    static float fed[MOST], nearest[MOST];
    fill();
    for (int t = 0; t < TYPES; t++) {
        rounded(fed, types[t], true, 1);
        rounded(nearest, types[t], false, 1);
        if (!(cost_of(fed) < 0.5 * cost_of(nearest)))
            fail_msg("%s: %g of %g", tft_dtype_name(types[t]), cost_of(fed), cost_of(nearest));
    }
}

/* Without correlations the blocks are those of blocks_row. */
static void without_feedback_codes_are_nearest(void **state)
{
    (void)state;
    static float y[MOST], z[COLS];
    float weight[COLS];
    struct metric metric;
    fill();
    for (int k = 0; k < COLS; k++)
        weight[k] = h[k * COLS + k];
    assert_true(metric_open(&metric, weight, COLS, false, NULL, GRID_GROUP, &kern, 1));
    for (size_t i = 0; i < COLS; i++)
        weight[metric.column[i]] = metric.weight[i];
    metric_close(&metric);
    for (int t = 0; t < TYPES; t++) {
        rounded(y, types[t], false, 1);
        blocks_row(blocks, types[t], w, weight, COLS);
        tft_dtype_info(types[t])->to_f32(z, blocks, COLS);
        for (int k = 0; k < COLS; k++) /* a number half way may get either code */
            assert_true(fabsf(fabsf(y[k] - w[k]) - fabsf(z[k] - w[k])) < 1e-6f);
    }
}

static void the_same_with_any_threads(void **state)
{
    (void)state;
    static float one[MOST], three[MOST];
    fill();
    for (int t = 0; t < TYPES; t++) {
        rounded(one, types[t], true, 1);
        rounded(three, types[t], true, 3);
        assert_memory_equal(one, three, sizeof one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_a_grid),
        cmocka_unit_test(feedback_lowers_the_cost),
        cmocka_unit_test(without_feedback_codes_are_nearest),
        cmocka_unit_test(the_same_with_any_threads),
    };
    tft_kernels_fill(&kern, tft_kernels_best());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
