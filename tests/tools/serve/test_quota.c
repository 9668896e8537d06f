/* Limits of keys: tools/serve/quota.c. */
#include "test.h"

#include "tools/serve/quota.h"

enum { SECOND = 1000000000 };

static struct quota *open_one(const struct quota *old, uint32_t requests, uint32_t tokens,
                              uint64_t now)
{
    struct setup_key key = {.name = "ann", .requests = requests, .tokens = tokens};
    const struct setup s = {.keys = &key, .n_keys = 1};
    struct quota *q = quota_open(&s, old, now);
    assert_non_null(q);
    return q;
}

static unsigned check(struct quota *q, size_t running, uint64_t now)
{
    char why[QUOTA_WHY];
    return quota_check(q, "ann", running, now, why);
}

static void requests_at_once(void **state)
{
    (void)state;
    struct quota *q = open_one(NULL, 2, 0, 0);
    char why[QUOTA_WHY] = "";
    assert_int_equal(check(q, 1, 0), 0);
    assert_int_equal(check(q, 2, 0), 1);
    quota_spend(q, "ann", 0, 1000000); /* tokens are not limited */
    assert_int_equal(check(q, 0, 0), 0);
    assert_int_equal(quota_check(q, "bob", 100, 0, why), 0);
    assert_int_equal(quota_check(NULL, "ann", 100, 0, why), 0);
    assert_string_equal(why, "");
    quota_close(q);
}

static void tokens_of_a_minute(void **state)
{
    (void)state;
    uint64_t now = 5 * (uint64_t)SECOND;
    struct quota *q = open_one(NULL, 0, 60, now);
    quota_spend(q, "ann", now, 59);
    assert_int_equal(check(q, 9, now), 0); /* one is left */
    quota_spend(q, "ann", now, 11);
    assert_int_equal(check(q, 0, now), 11); /* -10, one comes back a second */
    assert_int_equal(check(q, 0, now + 9 * (uint64_t)SECOND), 2);
    assert_int_equal(check(q, 0, now + 10 * (uint64_t)SECOND + SECOND / 10), 0);
    now += 1000 * (uint64_t)SECOND; /* no more than the tokens of a minute come back */
    assert_int_equal(check(q, 0, now), 0);
    quota_spend(q, "ann", now, 60);
    assert_int_equal(check(q, 0, now), 1);
    assert_int_equal(check(q, 0, now - SECOND), 1); /* a clock that goes back */
    quota_close(q);
}

static void of_files_read_again(void **state)
{
    (void)state;
    struct quota *q = open_one(NULL, 0, 60, 0), *next = open_one(q, 0, 30, 0);
    quota_close(next);
    quota_spend(q, "ann", 0, 100);
    next = open_one(q, 0, 60, SECOND); /* the rest stays */
    assert_int_equal(check(next, 0, SECOND), 40);
    quota_close(q);
    q = open_one(next, 1, 0, SECOND);
    assert_int_equal(check(q, 0, SECOND), 0);
    quota_close(next);
    next = open_one(q, 1, 60, SECOND); /* a new limit begins whole */
    assert_int_equal(check(next, 0, SECOND), 0);
    quota_close(q);
    quota_close(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_at_once),
        cmocka_unit_test(tokens_of_a_minute),
        cmocka_unit_test(of_files_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
