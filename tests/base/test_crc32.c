#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"

/* The definition, bit by bit. */
static uint32_t slow(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* The first is the check value of every catalogue of CRCs, the others are from zlib. */
static void known_values(void **state)
{
    (void)state;
    assert_int_equal(tft_crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(tft_crc32(0, "", 0), 0);
    assert_int_equal(tft_crc32(7, NULL, 0), 7);
    assert_int_equal(tft_crc32(0, "\0\0\0\0\0\0\0\0", 8), 0x6522df69);
    assert_int_equal(tft_crc32(0, "The quick brown fox jumps over the lazy dog", 43), 0x414fa339);
}

/* Every length, so that the loops for 8 bytes and for 1 meet at every position, and every byte in
   every table. */
static void as_defined(void **state)
{
    (void)state;
    unsigned char p[600];
    for (size_t i = 0; i < sizeof p; i++)
        p[i] = (unsigned char)(rand() >> 7);
    for (size_t n = 0; n <= sizeof p; n++)
        assert_int_equal(tft_crc32(0, p, n), slow(p, n));
    for (int byte = 0; byte < 256; byte++)
        for (int at = 0; at < 8; at++) {
            unsigned char word[8] = {0};
            word[at] = (unsigned char)byte;
            assert_int_equal(tft_crc32(0, word, 8), slow(word, 8));
        }
}

static void in_pieces(void **state)
{
    (void)state;
    unsigned char p[64];
    for (size_t i = 0; i < sizeof p; i++)
        p[i] = (unsigned char)(i * i);
    uint32_t whole = tft_crc32(0, p, sizeof p);
    for (size_t cut = 0; cut <= sizeof p; cut++)
        assert_int_equal(tft_crc32(tft_crc32(0, p, cut), p + cut, sizeof p - cut), whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(as_defined),
        cmocka_unit_test(in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
