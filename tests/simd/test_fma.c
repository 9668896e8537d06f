/* fma and fmaf without the C library's (simd/fma.h) give its bits. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/splitmix64.h"
#include "simd/fma.h"

enum { N = 2000000 };
static uint64_t seed = 1;

static uint64_t draw(void) { return tft_splitmix64(&seed); }

/* Of either sign, with an exponent of -range .. range. The mantissa has random bits, or few, so
   that sums and products come to lie in the middle between two numbers. */
static double number(int bits, int range)
{
    uint64_t r = draw();
    int shift = r & 1 ? (int)(r >> 1 & 63) % bits : 0;
    double m = (double)((r >> 11 >> (53 - bits)) >> shift << shift | UINT64_C(1) << (bits - 1));
    int e = (int)(draw() % (unsigned)(2 * range + 1)) - range;
    return ldexp(r >> 7 & 1 ? m : -m, e - bits + 1);
}

/* Near -x y, where the sum cancels; or far below it or above it by a number of bits that decides
   how it is rounded; or anything. */
static double summand(double x, double y, int bits)
{
    double p = -x * y;
    switch (draw() % 4) {
    case 0: return p + ldexp(p, (int)(draw() % 8) - bits - 1) * (double)(draw() % 3);
    case 1: return ldexp(number(bits, 1), ilogb(p) - bits + (int)(draw() % 5) - 2);
    case 2: return ldexp(number(bits, 1), ilogb(p) + bits + (int)(draw() % 5) - 2);
    default: return ldexp(number(bits, 1), ilogb(p) + (int)(draw() % 200) - 100);
    }
}

static void doubles(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        double x = number(53, 60), y = number(53, 60), z = summand(x, y, 53);
        assert_true(tft_fma(x, y, z) == fma(x, y, z));
    }
}

/* As src/base/rope.h reduces angles. */
static void angles(void **state)
{
    const double high = 0x1.921fb54442d18p+0, low = 0x1.1a62633145c07p-54;
    (void)state;
    for (int i = 0; i < N; i++) {
        double x = fabs(number(53, 30)), q = rint(x * 0.63661977236758134);
        double r = fma(-q, high, x), own = tft_fma(-q, high, x);
        assert_true(own == r);
        assert_true(tft_fma(-q, low, r) == fma(-q, low, r));
    }
    assert_true(tft_fma(-0.0, high, 0.0) == 0);
}

static void floats(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        float x = (float)number(24, 40), y = (float)number(24, 40);
        float z = (float)summand(x, y, 24), want = fmaf(x, y, z), have = tft_fmaf(x, y, z);
        assert_memory_equal(&have, &want, sizeof want);
    }
}

/* Floats have no limits: infinities, and numbers near 0. */
static void float_limits(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        uint32_t bits[3] = {(uint32_t)draw(), (uint32_t)draw(), (uint32_t)draw()};
        float v[3];
        memcpy(v, bits, sizeof v);
        int have_exponents = 1;
        for (int k = 0; k < 3; k++)
            have_exponents &= isfinite(v[k]) && v[k] != 0;
        if (i & 1 && have_exponents)
            v[2] = ldexpf(v[2], -ilogbf(v[2]) + ilogbf(v[0]) + ilogbf(v[1]) - i / 2 % 40);
        float want = fmaf(v[0], v[1], v[2]), have = tft_fmaf(v[0], v[1], v[2]);
        assert_true(isnan(want) ? isnan(have) : memcmp(&have, &want, sizeof want) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles),
        cmocka_unit_test(angles),
        cmocka_unit_test(floats),
        cmocka_unit_test(float_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
