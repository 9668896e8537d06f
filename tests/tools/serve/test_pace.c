/* Tokens of a pass by the time that the last passes took. */
#include "test.h"

#include "tools/serve/pace.h"

enum { MS = 1000000 };

static void the_first_pass_is_short(void **state)
{
    (void)state;
    struct pace p = {0};
    assert_int_equal(pace_tokens(&p), PACE_FIRST);
}

static void a_pass_takes_the_time(void **state)
{
    (void)state;
    struct pace p = {0};
    pace_count(&p, 100, 100 * MS);
    assert_int_equal(pace_tokens(&p), PACE_MS);
    /* four times as slow from here on */
    for (int i = 0; i < 40; i++)
        pace_count(&p, 20, 20 * 4 * MS);
    assert_in_range(pace_tokens(&p), PACE_MS / 4, PACE_MS / 4 + 1);
}

static void few_tokens_do_not_count(void **state)
{
    (void)state;
    struct pace p = {0};
    pace_count(&p, 64, 64 * MS);
    pace_count(&p, PACE_LEAST - 1, 1000u * MS);
    assert_int_equal(pace_tokens(&p), PACE_MS);
}

static void a_slow_model_still_goes_on(void **state)
{
    (void)state;
    struct pace p = {0};
    pace_count(&p, 10, 10u * 1000 * MS);
    assert_int_equal(pace_tokens(&p), PACE_LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_pass_is_short),
        cmocka_unit_test(a_pass_takes_the_time),
        cmocka_unit_test(few_tokens_do_not_count),
        cmocka_unit_test(a_slow_model_still_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
