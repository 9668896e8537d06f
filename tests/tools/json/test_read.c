/* JSON is read, or refused for lack of memory, whichever allocation fails: tools/json/read.c. */
#include <stdlib.h>

static long left = -1, n_blocks; /* allocations until one fails, -1: none does; blocks not freed */

static void *may_fail(void *p)
{
    n_blocks += p != NULL;
    return p;
}

static void *test_malloc(size_t n) { return left >= 0 && left-- == 0 ? NULL : may_fail(malloc(n)); }

static void *test_realloc(void *p, size_t n)
{
    if (left >= 0 && left-- == 0)
        return NULL;
    n_blocks -= p != NULL;
    return may_fail(realloc(p, n));
}

static void test_free(void *p)
{
    n_blocks -= p != NULL;
    free(p);
}

#define malloc test_malloc
#define realloc test_realloc
#define free test_free
#include "tools/json/read.c"
#undef malloc
#undef realloc
#undef free

#include "test.h"

/* Fails each allocation in turn. */
static void each_fails(const char *text, size_t n)
{
    json_error_t e;
    long at = 0;
    for (;; at++) {
        long before = n_blocks;
        left = at;
        json_t *v = read_json(text, n, JSON_ALLOW_NUL, &e);
        bool failed = left < 0;
        left = -1;
        if (!failed) {
            assert_non_null(v);
            json_decref(v);
            assert_int_equal(n_blocks, before);
            break;
        }
        assert_null(v);
        assert_int_equal(json_error_code(&e), json_error_out_of_memory);
        assert_string_equal(e.text, "out of memory");
        assert_int_equal(n_blocks, before);
    }
    assert_true(at > 1);
}

/* The buffer of a token grows at 15, 31, 63 ... bytes: also where its last byte is. */
static void tokens(void **state)
{
    (void)state;
    static const char *const forms[] = {"[\"%.*s\"]", "{\"%.*s\":[true,1]}", "[%.*s]", "[1.%.*s]",
                                        "[1e+%.*s,\"x\"]", "[\"%.*s\\u00e9\"]", "[\"%.*s\\n\"]"};
    char digits[1100], text[1200];
    memset(digits, '1', sizeof digits);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (int len = 1; len < (i == 2 ? 18 : i == 4 ? 2 : 1030); len += len > 130 && len % 64 < 62
                                                                             ? 1 + 61 - len % 64
                                                                             : 1) {
            int n = snprintf(text, sizeof text, forms[i], len, digits);
            each_fails(text, (size_t)n);
        }
}

static void trees(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]",
        "{\"a\":1,\"a\":[\"b\",{}],\"a\":2,\"c\":{\"d\":null}}",
        "{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"10\":1}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        each_fails(texts[i], strlen(texts[i]));
}

/* Text that is no JSON is no matter of memory, unless memory fails before. */
static void errors(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "[", "[1,]", "{\"a\":1,\"a\"", "\"\x01\"", "[1 2]",
                                        "[\"1234567890123456789012345678901\x01\"]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bool failed = true;
        for (long at = 0; failed; at++) {
            json_error_t e;
            long before = n_blocks;
            left = at;
            assert_null(read_json(texts[i], strlen(texts[i]), 0, &e));
            failed = left < 0;
            left = -1;
            assert_int_equal(json_error_code(&e) == json_error_out_of_memory, failed);
            assert_int_equal(n_blocks, before);
        }
    }
}

/* A value that lacks a part for lack of memory is noticed. */
static void watched(void **state)
{
    (void)state;
    bool is_lost = false;
    watch_json(&is_lost);
    json_t *v = json_pack("{s:s}", "a", "b");
    assert_false(is_lost);
    left = 0;
    assert_int_equal(json_object_set_new(v, "c", json_string("d")), -1);
    assert_true(is_lost);
    is_lost = false;
    left = 1;
    assert_null(read_json("[\"a\"]", 5, 0, NULL));
    assert_true(is_lost);
    left = -1;
    watch_json(NULL);
    json_decref(v);
}

int main(void)
{
    json_set_alloc_funcs(test_malloc, test_free); /* read.c's functions call these */
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens), cmocka_unit_test(trees),
                                       cmocka_unit_test(errors), cmocka_unit_test(watched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
