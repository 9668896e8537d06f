/* Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF (Unicode 15, table
   3-7). */
#ifndef TFT_UTF8_H
#define TFT_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum {
    TFT_UTF8_BAD = 0x110000, /* bytes that are not part of a character; one U+FFFD replaces them */
    TFT_UTF8_CUT,            /* a character cut off by the end of the text */
};

/* Decodes the first character of p[n], n >= 1: *c is its code point, or TFT_UTF8_BAD or
   TFT_UTF8_CUT. Returns the character's length in bytes, at least 1. For bad bytes: the length of
   the "maximal subpart" (Unicode 15, section 3.9), the longest start of a valid character: 1 to
   3. */
size_t tft_utf8_next(const char *p, size_t n, uint32_t *c);

/* Writes the code point c as 1 to 4 bytes, and returns their number. */
size_t tft_utf8_put(char *p, uint32_t c);

#endif
