#include "utf8.h"

#include <stdio.h>
#include <string.h>

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

size_t tft_utf8_mark(const char *p, size_t n)
{
    return n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
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

bool tft_utf8_is_control(uint32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

bool tft_utf8_is_invisible(uint32_t c)
{
    static const uint32_t range[][2] = {
        {0xad, 0xad},       {0x34f, 0x34f},     {0x61c, 0x61c},   {0x115f, 0x1160},
        {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f}, {0x2028, 0x202e},
        {0x2060, 0x206f},   {0x2800, 0x2800},   {0x3164, 0x3164}, {0xfe00, 0xfe0f},
        {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3},
        {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };
    size_t i = 0, n = sizeof range / sizeof *range;
    while (i < n && c > range[i][1])
        i++;
    return i < n && c >= range[i][0];
}

size_t tft_utf8_escape(char out[TFT_UTF8_ESCAPED], const char *p, size_t n, size_t *used)
{
    uint32_t c;
    int len = 0;
    *used = tft_utf8_next(p, n, &c);
    if (c == '\n' || c == '\t' || c == '\\')
        len = snprintf(out, TFT_UTF8_ESCAPED, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : '\\');
    else if (c >= TFT_UTF8_BAD || tft_utf8_is_control(c))
        for (size_t j = 0; j < *used; j++, len += 4)
            snprintf(out + len, 5, "\\x%02x", (unsigned char)p[j]);
    else if (tft_utf8_is_invisible(c))
        len = snprintf(out, TFT_UTF8_ESCAPED, "\\u{%x}", c);
    else {
        memcpy(out, p, *used);
        return *used;
    }
    return (size_t)len;
}
