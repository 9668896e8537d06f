#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "text/nfc.h"

static void becomes(const char *text, const char *want)
{
    char out[256];
    size_t n;
    assert_int_equal(tft_nfc(text, strlen(text), NULL, out, &n), TFT_OK);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(out, want, n);
    if (strcmp(text, want) != 0)
        assert_true(tft_nfc_may_change(text, strlen(text)));
}

static void marks_join_the_letter_before_them(void **state)
{
    (void)state;
    becomes("", "");
    becomes("plain \xc3\xa9", "plain \xc3\xa9");
    becomes("cafe\xcc\x81s", "caf\xc3\xa9s");
    becomes("e\xcc\x81\xcc\x81", "\xc3\xa9\xcc\x81"); /* one of two equal marks */
    becomes("\xcc\x81"
            "e",
            "\xcc\x81"
            "e");
    /* a below mark and an above mark, in either order: U+1E69 */
    becomes("s\xcc\xa3\xcc\x87", "\xe1\xb9\xa9");
    becomes("s\xcc\x87\xcc\xa3", "\xe1\xb9\xa9");
    becomes("e\xe2\x80\x8b\xcc\x81", "e\xe2\x80\x8b\xcc\x81"); /* U+200B is between them */
}

static void letters_with_another_code(void **state)
{
    (void)state;
    becomes("\xe2\x84\xab \xe2\x84\xa6", "\xc3\x85 \xce\xa9"); /* Angstrom, Ohm */
    becomes("\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc");       /* U+0958 stays decomposed */
    becomes("\xe1\xbe\x82", "\xe1\xbe\x82");                   /* four parts and back */
    becomes("\xce\xb1\xcc\x93\xcc\x80\xcd\x85", "\xe1\xbe\x82");
}

static void hangul(void **state)
{
    (void)state;
    becomes("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"); /* U+AC01 */
    becomes("\xea\xb0\x80\xe1\x86\xa8", "\xea\xb0\x81");
    becomes("\xea\xb0\x81\xe1\x86\xa8", "\xea\xb0\x81\xe1\x86\xa8");
    becomes("\xe1\x85\xa1\xe1\x84\x80", "\xe1\x85\xa1\xe1\x84\x80");
}

static void bytes_that_are_not_text(void **state)
{
    (void)state;
    becomes("e\xff\xcc\x81\xcc", "e\xff\xcc\x81\xcc");
    becomes("e\xcc\x81\xff"
            "e\xcc\x81",
            "\xc3\xa9\xff\xc3\xa9");
}

static void most_text_needs_nothing(void **state)
{
    (void)state;
    static const char text[] =
        "\xc3\xbc \xd0\x96 \xe4\xbd\xa0 \xea\xb0\x81 \xf0\x9f\x98\x80 \xff\xcc";
    assert_false(tft_nfc_may_change(text, sizeof text));
    assert_true(tft_nfc_may_change("a\xcc\x81", 3));
}

static void many_marks(void **state)
{
    (void)state;
    enum { N = 1 << 19 };
    char *text = malloc(2 * N), *out = malloc(2 * N * TFT_NFC_MAX);
    for (size_t i = 0; i < N; i++)
        memcpy(text + 2 * i, i % 3 ? "\xcc\x81" : "\xcc\xa3", 2); /* they must be sorted */
    size_t n;
    assert_int_equal(tft_nfc(text, 2 * N, NULL, out, &n), TFT_OK);
    assert_int_equal(n, 2 * N);
    assert_memory_equal(out, "\xcc\xa3\xcc\xa3", 4);
    assert_memory_equal(out + n - 4, "\xcc\x81\xcc\x81", 4);
    struct memory m = {.fail_at = 1};
    struct tft_allocator a = memory_allocator(&m);
    assert_int_equal(tft_nfc(text, 2 * N, &a, out, &n), TFT_ERR_NOMEM);
    free(text);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_join_the_letter_before_them),
        cmocka_unit_test(letters_with_another_code),
        cmocka_unit_test(hangul),
        cmocka_unit_test(bytes_that_are_not_text),
        cmocka_unit_test(most_text_needs_nothing),
        cmocka_unit_test(many_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
