/* Numbers of bodies as clients write them: tools/serve/fields.c. */
#include "test.h"

#include <string.h>

#include "tools/serve/fields.h"

/* The text, read and written again; NULL: it is not JSON. The caller frees it. */
static char *again(const char *text)
{
    json_error_t e;
    json_t *v = json_text(text, strlen(text), JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
    char *out = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(v);
    return out;
}

static void becomes(const char *text, const char *want)
{
    char *got = again(text);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

/* Integers of 64 bits stay, larger ones become reals, and text is text. */
static void large_integers(void **state)
{
    (void)state;
    becomes("[9223372036854775807,-9223372036854775808]",
            "[9223372036854775807,-9223372036854775808]");
    becomes("{\"a\":18446744073709551615}", "{\"a\":1.8446744073709552e19}");
    becomes("[9223372036854775807,9223372036854775808,-9223372036854775809]",
            "[9223372036854775807,9.2233720368547758e18,-9.2233720368547758e18]");
    becomes("100000000000000000000000000000000000000000", "1e41");
    becomes("[99999999999999999999,\"99999999999999999999 \\\\\\\" 99999999999999999999\",1]",
            "[1e20,\"99999999999999999999 \\\\\\\" 99999999999999999999\",1]");
    becomes("[99999999999999999999,99999999999999999999.5,99999999999999999999e1]",
            "[1e20,1e20,1e21]");
}

static void wrong(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[99999999999999999999",   "[\"99999999999999999999",      "[99999999999999999999,\"\\",
        "[99999999999999999999,]", "[99999999999999999999,1e999]", "[-]",
        "099999999999999999999",   "[99999999999999999999,--1]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_null(again(texts[i]));
}

/* Integers become doubles as far as doubles reach. */
static void digits(void **state)
{
    (void)state;
    char text[400];
    for (size_t n = 300; n < 320; n++) {
        memset(text, '9', n);
        text[n] = 0;
        char *got = again(text);
        assert_int_equal(got != NULL, n <= 308);
        free(got);
    }
}

static bool is_whole(const char *text, int64_t want)
{
    json_error_t e;
    json_t *v = json_text(text, strlen(text), JSON_DECODE_ANY, &e);
    int64_t value = 0;
    bool whole = json_whole(v, &value);
    json_decref(v);
    return whole && value == want;
}

static void whole_numbers(void **state)
{
    (void)state;
    assert_true(is_whole("4", 4));
    assert_true(is_whole("4.0", 4));
    assert_true(is_whole("-4e0", -4));
    assert_true(is_whole("1e18", 1000000000000000000));
    assert_true(is_whole("-9223372036854775808", INT64_MIN));
    static const char *const others[] = {"4.5",  "1e300", "9223372036854775808", "true", "\"4\"",
                                         "null", "[4]"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(is_whole(others[i], 0) || is_whole(others[i], 4));
}

static void says(const char *text, const char *want)
{
    struct fields f = {0};
    fields_name(&f, "form.json.schema", "config.schema");
    fields_name(&f, "form", "config.form");
    fields_name(&f, "stop", "stop_sequences");
    fields_name(&f, "/function/parameters", "/input_schema");
    fields_name(&f, "/function", "");
    fields_fail(&f, "%s", text);
    assert_true(f.failed);
    assert_string_equal(f.error, want);
    fields_fail(&f, "another"); /* the first error stays */
    assert_string_equal(f.error, want);
}

/* Errors have the client's names of members. */
static void names_of_a_client(void **state)
{
    (void)state;
    char text[500], long_name[sizeof text];
    says("stop must be a string", "stop_sequences must be a string");
    says("nonstop, stops, stop_it, x.stop, stop2", "nonstop, stops, stop_it, x.stop, stop2");
    says("form.json.schema: wrong", "config.schema: wrong");
    says("form.json.schemas and form", "config.form.json.schemas and config.form");
    says("#/0/function: has no name", "#/0: has no name");
    says("#/0/function/name", "#/0/name");
    says("#/0/function/parameters/properties/function/type",
         "#/0/input_schema/properties/function/type");
    says("#/0/functional", "#/0/functional");
    says("", "");
    memset(text, ' ', sizeof text - 1);
    text[sizeof text - 1] = 0;
    const size_t most = sizeof((struct fields *)0)->error - 1;
    memcpy(text + most - 4, "stop", 4); /* the longer name is cut */
    memcpy(long_name, text, most);
    long_name[most] = 0;
    says(text, long_name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_integers), cmocka_unit_test(wrong), cmocka_unit_test(digits),
        cmocka_unit_test(whole_numbers), cmocka_unit_test(names_of_a_client)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
