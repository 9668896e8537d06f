#include "test.h"

#include <math.h>
#include <string.h>

#include "simd/half.h"
#include "simd/kernels.h"
#include "tools/quantize/round/prefix_pack.h"
#include "random.h"

enum { N = 32 };

static const struct {
    enum tft_dtype type;
    size_t bytes;
    float steps;
} types[] = {{TFT_Q8_0, 34, 127}, {TFT_Q4_1, 20, 15}};

static float as_f16(float x)
{
    return tft_f16_to_f32(tft_f32_to_f16(x));
}

/* Packs and unpacks like a reader of the file; checks that nothing is written past the block. */
static void round_trip(int which, float *y, unsigned char *block, const float *x)
{
    size_t bytes = types[which].bytes;
    memset(block, 0x5a, bytes + 1);
    prefix_pack(types[which].type, block, x, N);
    assert_int_equal(block[bytes], 0x5a);
    tft_dtype_info(types[which].type)->to_f32(y, block, N);
}

/* The range that the levels must cover. */
static float range(int which, const float *x)
{
    float min = x[0], max = x[0], top = 0;
    for (int i = 0; i < N; i++) {
        min = fminf(min, x[i]);
        max = fmaxf(max, x[i]);
        top = fmaxf(top, fabsf(x[i]));
    }
    return types[which].type == TFT_Q8_0 ? top : max - min;
}

/* Every number is off by at most half a step, and the step is as small as possible, up to the
   rounding of f16. */
static void check(const float *x)
{
    for (int which = 0; which < 2; which++) {
        unsigned char block[40];
        float y[N], least = range(which, x) / types[which].steps;
        round_trip(which, y, block, x);
        float step = tft_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
        assert_true(step >= 0 && step <= least * (1 + 0x1p-11f) + 0x1p-24f);
        for (int i = 0; i < N; i++) {
            float slack =
                fabsf(x[i]) * 0x1p-22f; /* rounding of f32, in which the block is computed */
            if (!(fabsf(y[i] - x[i]) <= step / 2 + slack))
                fail_msg("%s: %g becomes %g, the step is %g", tft_dtype_name(types[which].type),
                         (double)x[i], (double)y[i], (double)step);
        }
    }
}

static void half_a_step_at_most(void **state)
{
    (void)state;
    float x[N];
    for (int e = -26; e <= 15; e++)
        for (int run = 0; run < 200; run++) {
            float offset = run % 4 == 3 ? ldexpf(random_even(), e) : 0;
            for (int i = 0; i < N; i++)
                x[i] = as_f16(ldexpf(random_even(), run % 2 ? e : e - (int)(random_u32() % 8)) +
                              offset);
            check(x);
        }
}

static void the_ends_of_f16(void **state)
{
    (void)state;
    static const float ends[] = {65504, -65504, 0x1p-24f, -0x1p-24f, 0x1p-14f, 0, -0.0f, 1};
    enum { ENDS = sizeof ends / sizeof *ends };
    for (int a = 0; a < ENDS; a++)
        for (int b = 0; b < ENDS; b++)
            for (int at = 0; at < N; at++) {
                float x[N];
                for (int i = 0; i < N; i++)
                    x[i] = i == at ? ends[a] : ends[b];
                check(x);
            }
    for (int n = 1; n < 400; n++) { /* steps of which f16 has none so small */
        float x[N] = {(float)n * 0x1p-24f};
        check(x);
    }
}

/* A block of equal numbers is exact if the type has a minimum, or if they are zero. */
static void constants(void **state)
{
    (void)state;
    float x[N], y[N];
    unsigned char block[40];
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        if ((bits & 0x7c00) == 0x7c00)
            continue;
        for (int i = 0; i < N; i++)
            x[i] = tft_f16_to_f32((uint16_t)bits);
        round_trip(1, y, block, x);
        for (int i = 0; i < N; i++)
            assert_true(y[i] == x[i]);
        if (bits % 64 == 0)
            check(x);
    }
    memset(x, 0, sizeof x);
    round_trip(0, y, block, x);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == 0);
}

static void blocks_are_alone(void **state)
{
    (void)state;
    enum { BLOCKS = 5 };
    float x[BLOCKS * N];
    random_fill(x, BLOCKS * N);
    for (int which = 0; which < 2; which++) {
        unsigned char all[BLOCKS * 34], one[40];
        float y[N];
        prefix_pack(types[which].type, all, x, BLOCKS * N);
        for (int i = 0; i < BLOCKS; i++) {
            round_trip(which, y, one, x + i * N);
            assert_memory_equal(all + (size_t)i * types[which].bytes, one, types[which].bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_a_step_at_most),
        cmocka_unit_test(the_ends_of_f16),
        cmocka_unit_test(constants),
        cmocka_unit_test(blocks_are_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
