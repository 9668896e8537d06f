/* Blocks of ggml's types, read back by file/dequant.c; and the mixes. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "random.h"
#include "tools/quantize/blocks/blocks.h"
#include "tools/quantize/blocks/fit.h"
#include "tools/quantize/blocks/mix.h"

enum { N = 512, MOST_BYTES = 4 * N };

/* Mean squared errors over the mean square of the numbers of `make`: between the errors of the
   search and of llama.cpp's quantizer on the same numbers. */
static const struct {
    enum tft_dtype type;
    double most;
} kinds[] = {
    {TFT_F32, 0},        {TFT_F16, 1e-7},     {TFT_BF16, 5e-6},    {TFT_Q4_0, 0.0066},
    {TFT_Q4_1, 0.0058},  {TFT_Q5_0, 0.00163}, {TFT_Q5_1, 0.0013},  {TFT_Q8_0, 3e-5},
    {TFT_Q4_K, 0.00530}, {TFT_Q5_K, 0.0013},  {TFT_Q6_K, 0.00031},
    {TFT_Q3_K, 0.0217},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void coded(float *y, enum tft_dtype type, const float *x, const float *weight)
{
    unsigned char blocks[MOST_BYTES + 1];
    uint64_t bytes;
    assert_true(blocks_writes(type));
    assert_true(tft_dtype_bytes(type, N, &bytes) && bytes <= MOST_BYTES);
    memset(blocks, 0xa5, sizeof blocks);
    blocks_row(blocks, type, x, weight, N);
    assert_int_equal(blocks[bytes], 0xa5);
    tft_dtype_info(type)->to_f32(y, blocks, N);
}

static double error(const float *y, const float *x, const float *weight)
{
    double sum = 0, all = 0;
    for (int i = 0; i < N; i++) {
        double e = (double)y[i] - (double)x[i];
        sum += (double)weight[i] * e * e;
        all += (double)weight[i] * (double)x[i] * (double)x[i];
    }
    return sum / all;
}

static void make(float *x, float *weight, float *ones)
{
    for (int i = 0; i < N; i++) {
        float u = random_even();
        x[i] = 0.02f * random_normal();
        weight[i] = 0.01f + 4 * u * u * u * u;
        ones[i] = 1;
    }
}

static void are_near(void **state)
{
    (void)state;
    float x[N], y[N], weight[N], ones[N];
    make(x, weight, ones);
    for (int k = 0; k < KINDS; k++) {
        coded(y, kinds[k].type, x, ones);
        if (!(error(y, x, ones) <= kinds[k].most))
            fail_msg("%s: %g", tft_dtype_name(kinds[k].type), error(y, x, ones));
    }
}

/* Columns that count more have smaller errors. */
static void weights_count(void **state)
{
    (void)state;
    float x[N], y[N], z[N], weight[N], ones[N];
    make(x, weight, ones);
    for (int k = 0; k < KINDS; k++) {
        enum tft_dtype type = kinds[k].type;
        coded(y, type, x, ones);
        coded(z, type, x, weight);
        if (tft_dtype_info(type)->block > 1 && type != TFT_Q8_0)
            assert_true(error(z, x, weight) < 0.97 * error(y, x, weight));
        else
            assert_memory_equal(y, z, sizeof y);
    }
}

static void zeros_stay(void **state)
{
    (void)state;
    float x[N] = {0}, y[N], ones[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    for (int k = 0; k < KINDS; k++) {
        coded(y, kinds[k].type, x, ones);
        for (int i = 0; i < N; i++)
            assert_true(y[i] == 0);
    }
}

/* Numbers on a lattice, with all levels in each group of 32, stay as near as f16 has the scale. */
static void lattices_stay(void **state)
{
    (void)state;
    static const struct {
        enum tft_dtype type;
        int levels;
    } of[] = {{TFT_Q4_0, 16}, {TFT_Q4_1, 16}, {TFT_Q5_0, 32},
              {TFT_Q5_1, 32}, {TFT_Q4_K, 16}, {TFT_Q5_K, 32}};
    float x[N], y[N], ones[N];
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        for (int i = 0; i < N; i++) {
            x[i] = 0x1p-7f * (float)(i * 5 % of[k].levels - of[k].levels / 2);
            ones[i] = 1;
        }
        coded(y, of[k].type, x, ones);
        for (int i = 0; i < N; i++)
            assert_true(fabsf(y[i] - x[i]) <= 0x1p-13f * (float)of[k].levels / 2);
    }
}

/* A group of equal numbers, or of one sign, has a minimum; K's minimum is not above 0. */
static void groups_of_one_sign(void **state)
{
    (void)state;
    float x[N], y[N], ones[N];
    for (int sign = -1; sign <= 1; sign += 2)
        for (int k = 0; k < KINDS; k++) {
            for (int i = 0; i < N; i++) {
                x[i] = (float)sign * (1 + 0.25f * (float)(i % 7));
                ones[i] = 1;
            }
            coded(y, kinds[k].type, x, ones);
            assert_true(error(y, x, ones) < 0.01);
        }
}

static void fits(void **state)
{
    (void)state;
    const float x[4] = {-1, 0, 1, 2}, ones[4] = {1, 1, 1, 1};
    struct fit_group g = {x, ones, 4, 0, 3};
    float d, m;
    fit_affine(&g, false, &d, &m);
    assert_true(fabsf(d - 1) < 1e-6f && fabsf(m + 1) < 1e-6f);
    assert_true(fit_cost(&g, d, m) < 1e-10f);
    struct fit_group uneven = {x, ones, 4, -2, 1};
    assert_true(fit_cost(&uneven, fit_scale(&uneven), 0) < 1e-10f); /* with d = -1 */
    const float above[4] = {1, 2, 3, 4};
    struct fit_group h = {above, ones, 4, 0, 3};
    fit_affine(&h, true, &d, &m);
    assert_true(m <= 0 && d > 0);
}

/* ---- mixes */

static struct tft_tensor tensor(const char *name, uint64_t cols, uint32_t n_dims)
{
    return (struct tft_tensor){.name = {name, strlen(name)},
                               .type = TFT_F32,
                               .n_dims = n_dims,
                               .ne = {cols, n_dims > 1 ? 4 : 1, 1, 1}};
}

static void mixes(void **state)
{
    (void)state;
    struct tft_tensor all[] = {
        tensor("token_embd.weight", 256, 2),         tensor("blk.0.attn_v.weight", 256, 2),
        tensor("blk.0.ffn_gate_inp.weight", 256, 2), tensor("blk.0.attn_norm.weight", 256, 1),
        tensor("blk.3.attn_v.weight", 256, 2),       tensor("blk.7.ffn_down.weight", 288, 2),
        tensor("blk.7.ffn_up.weight", 33, 2)};
    uint32_t order[] = {3, 1, 2, 4, 5, 6, 0}; /* by name */
    struct tft_source s = {.tensor = all, .n_tensor = 7, .tensor_by_name = order};
    const struct mix *x = mix_find("Q4_K_m");
    assert_non_null(x);
    assert_null(mix_find("q4_k_"));
    assert_null(mix_find("q2_k"));
    assert_null(mix_find(""));
    static const enum tft_dtype want[] = {TFT_Q6_K, /* the head too */
                                          TFT_Q6_K, TFT_F32, TFT_F32, TFT_Q6_K, TFT_Q8_0, TFT_F16};
    for (int i = 0; i < 7; i++)
        assert_int_equal(mix_type(x, &s, &all[i]), want[i]);
    all[4].type = TFT_Q8_0; /* more bits than it gets, and fewer */
    assert_int_equal(mix_type(x, &s, &all[4]), TFT_Q6_K);
    assert_int_equal(mix_type(mix_find("q8_0"), &s, &all[4]), TFT_Q8_0);
    all[4].type = TFT_Q4_0;
    assert_int_equal(mix_type(x, &s, &all[4]), TFT_Q4_0);
    assert_int_equal(mix_type(mix_find("f16"), &s, &all[4]), TFT_F16);
    x = mix_find("q3_k_m"); /* of 8 layers, so ffn_down's first sixteenth is none */
    static const enum tft_dtype three[] = {TFT_Q6_K, TFT_Q5_K, TFT_F32, TFT_F32,
                                           TFT_Q4_K, TFT_Q5_0, TFT_F16};
    all[4].type = TFT_F32;
    for (int i = 0; i < 7; i++)
        assert_int_equal(mix_type(x, &s, &all[i]), three[i]);
    assert_int_equal(mix_type(mix_find("q3_k"), &s, &all[1]), TFT_Q3_K);
    assert_int_equal(mix_type(mix_find("q3_k"), &s, &all[5]), TFT_Q4_0);
    all[0].name = (struct tft_str){"output.weight", strlen("output.weight")};
    assert_int_equal(mix_type(mix_find("q8_0"), &s, &all[0]), TFT_Q8_0);
    assert_true(mix_makes_blocks(x) && !mix_makes_blocks(mix_find("bf16")));
    for (int i = 0; i < 7; i++)
        assert_int_equal(mix_type(mix_find("keep"), &s, &all[i]), all[i].type);
    for (const char *p = mix_names(); *p; p += strcspn(p, ",") + (strchr(p, ',') ? 2 : 0)) {
        char name[16];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
        assert_non_null(mix_find(name));
        assert_true(blocks_writes(mix_find(name)->usual) && blocks_writes(mix_find(name)->head));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_near),
        cmocka_unit_test(weights_count),
        cmocka_unit_test(zeros_stay),
        cmocka_unit_test(lattices_stay),
        cmocka_unit_test(groups_of_one_sign),
        cmocka_unit_test(fits),
        cmocka_unit_test(mixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
