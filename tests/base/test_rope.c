#include "test.h"

#include <math.h>

#include "base/rope.h"

static void elementary_functions(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double u = (double)(seed >> 11) * 0x1p-53; /* [0, 1) */
        double x = ldexp(u + 0.5, (int)(seed & 63) - 20), want = log(x);
        assert_true(fabs(tft_rope_log(x) - want) <=
                    4e-16 * (fabs(want) + 0.01) + 1e-16 * fabs(want) * 8);
        x = (u - 0.5) * 60;
        assert_true(fabs(tft_rope_exp(x) / exp(x) - 1) < 1e-14);

        x = u * ldexp(1, (int)(seed % 31)); /* up to 2^30 */
        double s, c;
        tft_rope_sincos(x, &s, &c);
        assert_true(fabs(s - sin(x)) < 2e-15);
        assert_true(fabs(c - cos(x)) < 2e-15);
        tft_rope_sincos(-x, &s, &c);
        assert_true(fabs(s + sin(x)) < 2e-15);
    }
}

static void frequencies(void **state)
{
    (void)state;
    double f[64];
    tft_rope_freqs(f, 128, 500000);
    for (int i = 0; i < 64; i++)
        assert_true(fabs(f[i] / pow(500000, -2.0 * i / 128) - 1) < 1e-14);
    assert_true(f[0] == 1);
}

static void layouts(void **state)
{
    (void)state;
    double f[2] = {1, 0.25};
    float c[4], s[4];
    tft_rope_angles(c, s, f, 4, false, 3);
    for (int i = 0; i < 4; i++) {
        double angle = 3 * f[i / 2];
        assert_true(c[i] == (float)cos(angle));
        assert_true(s[i] == (float)(i % 2 ? sin(angle) : -sin(angle)));
    }
    tft_rope_angles(c, s, f, 4, true, 3);
    for (int i = 0; i < 4; i++) {
        double angle = 3 * f[i % 2];
        assert_true(c[i] == (float)cos(angle));
        assert_true(s[i] == (float)(i >= 2 ? sin(angle) : -sin(angle)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementary_functions),
        cmocka_unit_test(frequencies),
        cmocka_unit_test(layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
