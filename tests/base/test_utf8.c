#include "test.h"

#include <string.h>

#include "base/utf8.h"

/* The rows of table 3-7 of the Unicode standard. */
static const struct {
    unsigned char low[4], high[4];
} row[] = {
    {{0x00}, {0x7f}},
    {{0xc2, 0x80}, {0xdf, 0xbf}},
    {{0xe0, 0xa0, 0x80}, {0xe0, 0xbf, 0xbf}},
    {{0xe1, 0x80, 0x80}, {0xec, 0xbf, 0xbf}},
    {{0xed, 0x80, 0x80}, {0xed, 0x9f, 0xbf}},
    {{0xee, 0x80, 0x80}, {0xef, 0xbf, 0xbf}},
    {{0xf0, 0x90, 0x80, 0x80}, {0xf0, 0xbf, 0xbf, 0xbf}},
    {{0xf1, 0x80, 0x80, 0x80}, {0xf3, 0xbf, 0xbf, 0xbf}},
    {{0xf4, 0x80, 0x80, 0x80}, {0xf4, 0x8f, 0xbf, 0xbf}},
};

static size_t row_length(size_t r)
{
    return r < 1 ? 1 : r < 2 ? 2 : r < 6 ? 3 : 4;
}

/* How many bytes of p match a row. */
static size_t agrees(size_t r, const unsigned char *p, size_t n)
{
    size_t i = 0;
    while (i < n && i < row_length(r) && p[i] >= row[r].low[i] && p[i] <= row[r].high[i])
        i++;
    return i;
}

static uint32_t by_table(const unsigned char *p, size_t n, size_t *len)
{
    static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t longest = 0;
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        size_t k = agrees(r, p, n);
        longest = k > longest ? k : longest;
        if (k == row_length(r)) {
            uint32_t c = p[0] & lead_bits[k];
            for (size_t i = 1; i < k; i++)
                c = c << 6 | (p[i] & 0x3f);
            *len = k;
            return c;
        }
    }
    *len = longest ? longest : 1;
    return longest == n ? TFT_UTF8_CUT : TFT_UTF8_BAD;
}

static void check(const unsigned char *p, size_t n)
{
    uint32_t c, want_c;
    size_t want_len, len = tft_utf8_next((const char *)p, n, &c);
    want_c = by_table(p, n, &want_len);
    assert_int_equal(c, want_c);
    assert_int_equal(len, want_len);
    if (c < TFT_UTF8_BAD) {
        char again[4];
        assert_int_equal(tft_utf8_put(again, c), len);
        assert_memory_equal(again, p, len);
    }
}

static void agrees_with_the_table_of_the_standard(void **state)
{
    (void)state;
    static const unsigned char last[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90,
                                         0x9f, 0xa0, 0xbf, 0xc0, 0xe1, 0xff};
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            for (size_t i = 0; i < sizeof last * sizeof last; i++) {
                unsigned char p[4] = {(unsigned char)a, (unsigned char)b, last[i / sizeof last],
                                      last[i % sizeof last]};
                for (size_t n = 1; n <= 4; n++)
                    check(p, n);
            }
}

/* Table 3-8: 61 F1 80 80 E1 80 C2 62 80 63 80 BF 64 has six maximal subparts. */
static void bad_bytes_go_by_maximal_subparts(void **state)
{
    (void)state;
    static const char text[] = "\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64";
    static const size_t lengths[] = {1, 3, 2, 1, 1, 1, 1, 1, 1, 1};
    size_t at = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t c;
        size_t len = tft_utf8_next(text + at, sizeof text - 1 - at, &c);
        assert_int_equal(len, lengths[i]);
        assert_int_equal(c, (unsigned char)text[at] < 0x80 ? (uint32_t)text[at]
                                                           : (uint32_t)TFT_UTF8_BAD);
        at += len;
    }
    assert_int_equal(at, sizeof text - 1);
}

static void a_byte_order_mark_comes_whole(void **state)
{
    (void)state;
    const char text[] = "\xef\xbb\xbfx";
    assert_int_equal(tft_utf8_mark(text, 4), 3);
    assert_int_equal(tft_utf8_mark(text, 2), 0);
    assert_int_equal(tft_utf8_mark(text + 1, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_table_of_the_standard),
        cmocka_unit_test(bad_bytes_go_by_maximal_subparts),
        cmocka_unit_test(a_byte_order_mark_comes_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
