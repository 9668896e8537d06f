#include "test.h"

#include <math.h>

#include "simd/half.h"

/* The number that the bits h of a binary16 stand for. */
static double f16_value(unsigned h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return h >> 15 ? -v : v;
}

static void every_f16(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = tft_f16_to_f32((uint16_t)h);
        double want = f16_value(h);
        if (isnan(want)) {
            assert_int_equal(tft_f32_bits(f), (h & 0x8000) << 16 | 0x7fc00000 | (h & 1023) << 13);
            assert_int_equal(tft_f32_to_f16(f), h | 0x200);
        } else {
            assert_true(f == want && !signbit(f) == !signbit(want));
            assert_int_equal(tft_f32_to_f16(f), h);
        }
    }
}

/* The float `steps` steps further from 0. */
static float next(float f, int steps)
{
    return tft_f32_of_bits(tft_f32_bits(f) + (uint32_t)steps);
}

/* Rounding is right everywhere if it is right at the middle of any two neighbours, and one float to
   each side of it. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7c00; h++) {
        /* above the largest number, infinity stands where the next number would be */
        double above = h == 0x7bff ? 65536 : f16_value(h + 1);
        float middle = (float)((f16_value(h) + above) / 2);
        for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
            float m = sign ? -middle : middle;
            assert_int_equal(tft_f32_to_f16(m), sign | (h + (h & 1)));
            assert_int_equal(tft_f32_to_f16(next(m, -1)), sign | h);
            assert_int_equal(tft_f32_to_f16(next(m, 1)), sign | (h + 1));
        }
    }
}

static void f16_ends(void **state)
{
    (void)state;
    assert_int_equal(tft_f32_to_f16(0.0f), 0);
    assert_int_equal(tft_f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(tft_f32_to_f16(1e-40f), 0);
    assert_int_equal(tft_f32_to_f16(-1e-40f), 0x8000);
    assert_int_equal(tft_f32_to_f16(3e38f), 0x7c00);
    assert_int_equal(tft_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(tft_f32_to_f16(tft_f32_of_bits(0x7f800001)), 0x7e00); /* NaN stays NaN */
    assert_int_equal(tft_f32_to_f16(tft_f32_of_bits(0xffffffff)), 0xffff);
}

static void every_bf16(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = tft_bf16_to_f32((uint16_t)h);
        assert_int_equal(tft_f32_bits(f), h << 16);
        assert_int_equal(tft_f32_to_bf16(f), isnan(f) ? h | 0x40 : h);
        if ((h & 0x7fff) >= 0x7f80)
            continue;
        uint32_t middle = h << 16 | 0x8000;
        assert_int_equal(tft_f32_to_bf16(tft_f32_of_bits(middle)), h + (h & 1));
        assert_int_equal(tft_f32_to_bf16(tft_f32_of_bits(middle - 1)), h);
        assert_int_equal(tft_f32_to_bf16(tft_f32_of_bits(middle + 1)), h + 1);
    }
    assert_int_equal(tft_f32_to_bf16(tft_f32_of_bits(0x7f800001)), 0x7fc0);
    assert_int_equal(tft_f32_to_bf16(tft_f32_of_bits(0xffffffff)), 0xffff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_f16),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(f16_ends),
        cmocka_unit_test(every_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
