/* Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF (Unicode 15, table
   3-7). */
#ifndef TFT_UTF8_H
#define TFT_UTF8_H

#include <stdbool.h>
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

/* Bytes of the byte order mark at the start of p[n], which editors on Windows write: 3, or 0. */
size_t tft_utf8_mark(const char *p, size_t n);

/* Writes the code point c as 1 to 4 bytes, and returns their number. */
size_t tft_utf8_put(char *p, uint32_t c);

/* C0, DEL and C1, which control a terminal (ECMA-48, sections 5.2 and 5.3). */
bool tft_utf8_is_control(uint32_t c);

/* Nothing is drawn, so that the text seems to be another, or the text around moves:
   Default_Ignorable_Code_Point (Unicode Standard, section 5.21), separators of lines, marks of
   annotations, and an empty Braille cell. */
bool tft_utf8_is_invisible(uint32_t c);

/* Writes the first character of p[n], n >= 1, so that it stays on its line and is seen: a backslash
   as \\, control characters and bytes that are not UTF-8 as \n, \t or \xHH, invisible characters
   as \u{HHHH}. *used: its bytes in p. Returns those in `out`. */
enum { TFT_UTF8_ESCAPED = 24 };
size_t tft_utf8_escape(char out[TFT_UTF8_ESCAPED], const char *p, size_t n, size_t *used);

#endif
