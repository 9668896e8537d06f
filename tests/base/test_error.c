#include "test.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void says_which_file_where_and_what(void **state)
{
    (void)state;
    struct tft_error err;
    memset(&err, 0xff, sizeof err);
    assert_int_equal(tft_fail_at(&err, TFT_ERR_FORMAT, "m.gguf", 24, "%d keys", 3), TFT_ERR_FORMAT);
    assert_string_equal(err.msg, "m.gguf: byte 24: 3 keys");
    assert_int_equal(err.code, TFT_ERR_FORMAT);
    assert_int_equal(err.offset, 24);
    for (size_t i = 0; i < sizeof err.reserved / sizeof *err.reserved; i++)
        assert_int_equal(err.reserved[i], 0);

    assert_int_equal(tft_fail_os(&err, ENOENT, "m.gguf", "open"), TFT_ERR_IO);
    assert_string_equal(err.msg, "m.gguf: open: No such file or directory");
    assert_int_equal(err.os, ENOENT);
}

static void err_may_be_null(void **state)
{
    (void)state;
    assert_int_equal(tft_fail(NULL, TFT_ERR_ARG, "x"), TFT_ERR_ARG);
    assert_int_equal(tft_fail_os(NULL, EIO, "a", "b"), TFT_ERR_IO);
}

static void stays_one_line(void **state)
{
    (void)state;
    struct tft_error err;
    tft_fail(&err, TFT_ERR_FORMAT, "key \"%s\"", "a\nb\x1b[2J\x7f");
    assert_string_equal(err.msg, "key \"a?b?[2J?\"");
    /* C1 CSI, alone and in UTF-8; half a character */
    tft_fail(&err, TFT_ERR_FORMAT, "\"%s\"", "\xc3\xa9\xc2\x9b" "2J\x9b\xe4\xbd");
    assert_string_equal(err.msg, "\"\xc3\xa9??2J?\?\?\"");
}

static void long_names_do_not_hide_the_message(void **state)
{
    (void)state;
    char name[5000];
    memset(name, 'd', sizeof name);
    strcpy(name + sizeof name - 8, "/m.gguf");
    struct tft_error err;
    tft_fail_at(&err, TFT_ERR_FORMAT, name, UINT64_MAX, "no magic");
    assert_non_null(strstr(err.msg, "/m.gguf: byte 18446744073709551615: no magic"));

    tft_fail(&err, TFT_ERR_ARG, "%s: no KV cache \"%s\"", name, "new");
    assert_non_null(strstr(err.msg, "/m.gguf: no KV cache \"new\""));
    tft_fail(&err, TFT_ERR_FORMAT, "%s/config.json: no object", name);
    assert_non_null(strstr(err.msg, "/m.gguf/config.json: no object"));
    tft_fail(&err, TFT_ERR_FORMAT, "%s", name);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
}

static void every_status_has_a_text(void **state)
{
    (void)state;
    for (int i = 0; i <= TFT_ERR_CANCELLED; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(tft_status_text(i), tft_status_text(j));
    assert_string_equal(tft_status_text(999), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_which_file_where_and_what),
        cmocka_unit_test(err_may_be_null),
        cmocka_unit_test(stays_one_line),
        cmocka_unit_test(long_names_do_not_hide_the_message),
        cmocka_unit_test(every_status_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
