#include "base/exp_log.h"

#include "test.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* FNV-1a of the bits of all results: the same on every machine. */
static uint64_t hash = 0xcbf29ce484222325;

static double seen(double x)
{
    unsigned char b[sizeof x];
    memcpy(b, &x, sizeof x);
    for (size_t i = 0; i < sizeof b; i++)
        hash = (hash ^ b[i]) * 0x100000001b3;
    return x;
}

static uint64_t seed = 1;

/* In [0, 1). */
static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

/* A positive number of any exponent. */
static double any(void)
{
    double m = 1 + uniform();
    return ldexp(m, (int)(uniform() * 2044) - 1022);
}

/* The distance to want, in units of the last place of want. The C library's own error is up to one
   more. */
static double ulps(double got, double want)
{
    int e;
    frexp(want, &e);
    return fabs(got - want) / ldexp(1, e - 53);
}

static void close_to_the_c_library(void **state)
{
    (void)state;
    for (int i = 0; i < 300000; i++) {
        double x = (uniform() * 2 - 1) * (i % 2 ? 708 : 2), y = seen(tft_exp(x));
        if (ulps(y, exp(x)) > 2)
            fail_msg("exp(%a) = %a, %a", x, y, exp(x));
        x = i % 2 ? any() : 0.5 + uniform() * 1.5;
        y = seen(tft_log(x));
        if (ulps(y, log(x)) > 2)
            fail_msg("log(%a) = %a, %a", x, y, log(x));
        double p = uniform() * 4 - 2;
        x = i % 2 ? ldexp(1 + uniform(), i % 100 - 50) : 0.5 + uniform();
        y = seen(tft_pow(x, p));
        if (fabs(y / pow(x, p) - 1) > (1 + fabs(p * log(x))) * 0x1p-51)
            fail_msg("pow(%a, %a) = %a, %a", x, p, y, pow(x, p));
    }
    if (hash != 0xd7bcde216530551c)
        fail_msg("other bits than elsewhere: 0x%016llx", (unsigned long long)hash);
}

static void at_the_ends(void **state)
{
    (void)state;
    assert_true(tft_exp(0) == 1 && tft_exp(-0.0) == 1);
    assert_true(tft_exp(710) == INFINITY && tft_exp(INFINITY) == INFINITY);
    assert_true(tft_exp(709.78) < INFINITY && tft_exp(709.79) == INFINITY);
    assert_true(tft_exp(-INFINITY) == 0 && tft_exp(-746) == 0);
    assert_true(tft_exp(-745.13) == DBL_TRUE_MIN && tft_exp(-745.14) == 0);
    for (double x = -745; x < -708; x += 0.37)
        assert_true(fabs(tft_exp(x) - exp(x)) <= 2 * DBL_TRUE_MIN);
    assert_true(isnan(tft_exp(NAN)) && isnan(tft_log(NAN)) && isnan(tft_log(-1)));
    assert_true(tft_log(0) == -INFINITY && tft_log(INFINITY) == INFINITY);
    assert_true(tft_log(1) == 0 && tft_log(2) == log(2));
    assert_true(ulps(tft_log(DBL_TRUE_MIN), log(DBL_TRUE_MIN)) <= 2);
    assert_true(ulps(tft_log(DBL_MAX), log(DBL_MAX)) <= 2);
    assert_true(tft_pow(3, 0) == 1 && tft_pow(1, 1000) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_to_the_c_library),
        cmocka_unit_test(at_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
