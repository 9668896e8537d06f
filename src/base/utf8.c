#include "utf8.h"

size_t tft_utf8_next(const char *p, size_t n, uint32_t *c)
{
    uint32_t lead = (unsigned char)p[0];
    *c = lead;
    if (lead < 0x80)
        return 1;
    *c = TFT_UTF8_BAD;
    if (lead < 0xc2 || lead > 0xf4)
        return 1;

    /* Only the second byte has special bounds, to exclude overlong forms, surrogates and code
       points above U+10FFFF. */
    uint32_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint32_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    size_t more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    uint32_t code = lead & (0x3fu >> more);
    for (size_t i = 1; i <= more; i++) {
        if (i == n) {
            *c = TFT_UTF8_CUT;
            return i;
        }
        uint32_t byte = (unsigned char)p[i];
        if (byte < low || byte > high)
            return i;
        code = code << 6 | (byte & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *c = code;
    return more + 1;
}

size_t tft_utf8_put(char *p, uint32_t c)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        p[i] = (char)(0x80 | (c & 0x3f));
    p[0] = (char)(lead[n] | c);
    return n;
}
