#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/options.h"

/* The same struct in three versions of a header. */
struct old {
    size_t size;
    int a;
};
struct own {
    size_t size;
    int a, b;
};
struct newer {
    size_t size;
    int a, b;
    unsigned char more[20];
};

static enum tft_status take(struct own *out, const void *given, struct tft_error *err)
{
    memset(out, 0xff, sizeof *out);
    return tft_options_take(out, sizeof *out, given, "own", err);
}

static void what_an_older_caller_lacks_is_zero(void **state)
{
    (void)state;
    struct own out;
    /* its size may be less than sizeof, by padding */
    struct old old = {offsetof(struct own, b), 7};
    assert_int_equal(take(&out, &old, NULL), TFT_OK);
    assert_int_equal(out.a, 7);
    assert_int_equal(out.b, 0);
    assert_int_equal(take(&out, NULL, NULL), TFT_OK);
    assert_int_equal(out.a, 0);
    assert_int_equal(out.b, 0);
}

static void what_a_newer_caller_has_must_be_zero(void **state)
{
    (void)state;
    struct own out;
    struct newer newer = {sizeof newer, 7, 8, {0}};
    assert_int_equal(take(&out, &newer, NULL), TFT_OK);
    assert_int_equal(out.a, 7);
    assert_int_equal(out.b, 8);
    for (size_t i = 0; i < sizeof newer.more; i++) {
        struct tft_error err = {0};
        char want[120];
        newer.more[i] = 1;
        assert_int_equal(take(&out, &newer, &err), TFT_ERR_ARG);
        snprintf(want, sizeof want, "struct own: byte %zu of %zu is not 0: ", sizeof out + i,
                 sizeof newer);
        assert_memory_equal(err.msg, want, strlen(want));
        newer.more[i] = 0;
    }
}

static void a_size_that_was_not_set(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct own out, in = {.size = sizes[i]};
        struct tft_error err = {0};
        char want[120];
        snprintf(want, sizeof want, "struct own: its size is %zu: set it to sizeof", sizes[i]);
        assert_int_equal(take(&out, &in, &err), TFT_ERR_ARG);
        assert_string_equal(err.msg, want);
    }
}

static void what_is_filled(void **state)
{
    (void)state;
    struct own out = {.a = 7, .b = 8};
    struct old old = {offsetof(struct own, b), 0};
    struct newer newer;
    out.size = old.size;
    tft_options_give(&old, &out, sizeof out);
    assert_int_equal(old.a, 7);
    memset(&newer, 0xff, sizeof newer);
    out.size = newer.size = sizeof newer;
    tft_options_give(&newer, &out, sizeof out);
    assert_int_equal(newer.b, 8);
    for (size_t i = 0; i < sizeof newer.more; i++)
        assert_int_equal(newer.more[i], 0);
}

/* Structs without a size have fields for later versions. */
static void what_is_reserved_must_be_zero(void **state)
{
    (void)state;
    uint64_t reserved[3] = {0};
    struct tft_error err = {0};
    assert_int_equal(tft_options_reserved(reserved, sizeof reserved, "own", &err), TFT_OK);
    for (size_t i = 0; i < 3; i++) {
        char want[120];
        reserved[i] = 1ull << (31 * i);
        snprintf(want, sizeof want,
                 "struct own: reserved[%zu] is not 0: an option that this library, version %s, "
                 "does not know",
                 i, tft_version());
        assert_int_equal(tft_options_reserved(reserved, sizeof reserved, "own", &err), TFT_ERR_ARG);
        assert_string_equal(err.msg, want);
        assert_int_equal(tft_options_reserved(reserved, sizeof reserved, "own", NULL), TFT_ERR_ARG);
        reserved[i] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_older_caller_lacks_is_zero),
        cmocka_unit_test(what_a_newer_caller_has_must_be_zero),
        cmocka_unit_test(a_size_that_was_not_set),
        cmocka_unit_test(what_is_filled),
        cmocka_unit_test(what_is_reserved_must_be_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
