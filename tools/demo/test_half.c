/* Every half there is, and the places where rounding decides. */
#include "half.h"
#include "test.h"

#include <math.h>

static void test_all_halves(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        if ((h & 0x7c00) == 0x7c00)
            continue; /* infinities and NaN */
        int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
        float want = exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24);
        want = h & 0x8000 ? -want : want;
        if (half_to_float((uint16_t)h) != want || half_from_float(want) != h)
            fail_msg("half %04x is %a, not %a, and back %04x", h, (double)half_to_float((uint16_t)h), (double)want, half_from_float(want));
    }
}

/* Half way between two halves, to the even one; a little beside it, to the nearer. */
static void test_rounding(void **state)
{
    (void)state;
    for (uint16_t h = 0; h < 0x7bff; h++) {
        float low = half_to_float(h), high = half_to_float(h + 1), middle = low + (high - low) / 2;
        assert_int_equal(half_from_float(middle), h % 2 ? h + 1 : h);
        assert_int_equal(half_from_float(nextafterf(middle, 0)), h);
        assert_int_equal(half_from_float(nextafterf(middle, 1e9f)), h + 1);
    }
    assert_int_equal(half_from_float(65519.0f), 0x7bff);
    assert_int_equal(half_from_float(65520.0f), 0x7c00);
    assert_int_equal(half_from_float(-1e30f), 0xfc00);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_halves), cmocka_unit_test(test_rounding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
