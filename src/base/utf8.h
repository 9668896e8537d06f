/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF (Unicode 15, table
   3-7). */
#ifndef TFT_UTF8_H
#define TFT_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum {
    TFT_UTF8_BAD = 0x110000, /* bytes that begin no character: U+FFFD stands for all of them
                                together */
    TFT_UTF8_CUT,            /* the beginning of a character that the end of the text cut off */
};

/* What starts at p, of n >= 1 bytes: a character, whose code point goes to *c, or TFT_UTF8_BAD or
   TFT_UTF8_CUT. Returns its bytes, at least 1. Of bad bytes these are the "maximal subpart"
   (Unicode 15, section 3.9): as many as could have begun a character, at most 3. */
size_t tft_utf8_next(const char *p, size_t n, uint32_t *c);

#endif
