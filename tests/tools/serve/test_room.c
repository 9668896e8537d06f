/* Room for models, and the words of requests that tell how long they stay: tools/serve/room.c,
   query.c. */
#include "test.h"

#include <string.h>

#include "tools/serve/query.h"
#include "tools/serve/room.h"

enum { N = 4 };

/* The models go in the order of their last requests, the idle ones first. */
static void order(void **state)
{
    (void)state;
    struct lodger all[N] = {{.bytes = 1, .used = 5, .may_go = true, .idle = true},
                            {.bytes = 1, .used = 2, .may_go = true},
                            {.bytes = 1, .used = 3, .may_go = true, .idle = true},
                            {.bytes = 1, .used = 1, .idle = true}};
    static const size_t want[] = {2, 0, 1, N};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        size_t got = room_leaver(all, N);
        assert_int_equal(got, want[i]);
        if (got < N)
            all[got].may_go = false;
    }
    assert_int_equal(room_leaver(all, 0), 0);
}

/* The same model leaves until it has gone, so that requests which wait for its memory get it. */
static void busy(void **state)
{
    (void)state;
    struct lodger all[] = {{.used = 7, .may_go = true}, {.used = 4, .may_go = true}};
    assert_int_equal(room_leaver(all, 2), 1);
    all[0].used = 8;
    assert_int_equal(room_leaver(all, 2), 1);
    all[0].idle = true;
    assert_int_equal(room_leaver(all, 2), 0);
}

static void sum(void **state)
{
    (void)state;
    struct lodger all[] = {{.bytes = 3}, {.bytes = 4}, {.bytes = UINT64_MAX - 6}};
    assert_int_equal(room_taken(all, 0), 0);
    assert_int_equal(room_taken(all, 2), 7);
    assert_true(room_taken(all, 3) == UINT64_MAX);
}

static void durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"0", 0},
                {"0s", 0},
                {"5m", 300000000000},
                {"2.5s", 2500000000},
                {"300ms", 300000000},
                {"1h30m", 5400000000000},
                {"7", 7000000000},
                {"-1", -1},
                {"-5m", -1},
                {"+1us", 1000},
                {"20ns", 20},
                {"99999999999h", -1}};
    static const char *const bad[] = {
        "",    "-",  "s",     "5 m",  "m5",
        "5m3", "5x", "1.2.3", "1e3",  "0x10",
        "5mm", ".",  "5,5",   "\xff", "1111111111111111111111111111111111s"};
    int64_t ns;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(room_keep(good[i].text, &ns));
        assert_int_equal(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(room_keep(bad[i], &ns));
}

static void queries(void **state)
{
    (void)state;
    char value[QUERY_VALUE], large[QUERY_VALUE + 8] = "model=";
    assert_true(query_value("action=save&model=a%2Fb+c", "model", value));
    assert_string_equal(value, "a/b c");
    assert_true(query_value("model=&model=x", "model", value));
    assert_string_equal(value, "");
    assert_true(query_value("model=100%", "model", value));
    assert_string_equal(value, "100%");
    assert_true(query_value("model=%4", "model", value));
    assert_string_equal(value, "%4");
    assert_true(query_value("model=%zz%41", "model", value));
    assert_string_equal(value, "%zzA");
    static const char *const none[] = {"",    "model",     "models=x", "xmodel=x",
                                       "&&&", "a=model=b", "model=%00"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(query_value(none[i], "model", value));
    assert_false(query_value(NULL, "model", value));
    memset(large + 6, 'x', QUERY_VALUE - 1);
    assert_true(query_value(large, "model", value));
    assert_int_equal(strlen(value), QUERY_VALUE - 1);
    large[6 + QUERY_VALUE - 1] = 'x';
    assert_false(query_value(large, "model", value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order),     cmocka_unit_test(busy),    cmocka_unit_test(sum),
        cmocka_unit_test(durations), cmocka_unit_test(queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
