/* A position in a text and the class of its character, for expression.c. */
#ifndef TFT_CHARACTER_H
#define TFT_CHARACTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/utf8.h"
#include "unicode_tables.h"

/* Sets of classes. */
enum {
    TFT_LETTERS = 1 << TFT_CHAR_UPPER | 1 << TFT_CHAR_LOWER | 1 << TFT_CHAR_LETTER,
    TFT_MARKS = 1 << TFT_CHAR_MARK,
    TFT_NUMBERS = 1 << TFT_CHAR_NUMBER,
    TFT_PUNCTUATION = 1 << TFT_CHAR_PUNCTUATION,
    TFT_SYMBOLS = 1 << TFT_CHAR_SYMBOL,
    TFT_SPACES = 1 << TFT_CHAR_SPACE,
    TFT_ALL = (1 << (TFT_CHAR_SPACE + 1)) - 1,
};

struct tft_position {
    const char *p, *end; /* the position, the end of the text */
    size_t n;            /* bytes of the character */
    uint32_t code;       /* the code point; TFT_UTF8_BAD for a byte that is not UTF-8 */
    unsigned kind;       /* the class, as a set of one; 0 at the end of the text */
};

static inline unsigned tft_char_kind(uint32_t c)
{
    size_t low = 0, high = sizeof tft_char_ranges / sizeof *tft_char_ranges;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (tft_char_ranges[mid] >> 4 <= c)
            low = mid;
        else
            high = mid;
    }
    return tft_char_ranges[low] & 15;
}

static inline struct tft_position tft_look(const char *p, const char *end)
{
    struct tft_position a = {p, end, 0, 0, 0};
    if (p == end)
        return a;
    a.n = 1;
    a.code = (unsigned char)*p;
    if (a.code < 0x80) {
        a.kind = 1u << tft_ascii_kind[a.code];
        return a;
    }
    size_t n = tft_utf8_next(p, (size_t)(end - p), &a.code);
    if (a.code >= TFT_UTF8_BAD) {
        a.code = TFT_UTF8_BAD;
        a.kind = 1u << TFT_CHAR_OTHER;
        return a;
    }
    a.n = n;
    a.kind = 1u << tft_char_kind(a.code);
    return a;
}

static inline struct tft_position tft_look_next(struct tft_position a)
{
    return tft_look(a.p + a.n, a.end);
}

/* The position after all characters of a set of classes. */
static inline struct tft_position tft_skip(struct tft_position a, unsigned kinds)
{
    while (a.kind & kinds)
        a = tft_look_next(a);
    return a;
}

/* At the end of the text there is no character, not even c = 0. */
static inline bool tft_is(struct tft_position a, char c) { return a.n == 1 && *a.p == c; }

static inline bool tft_is_newline(struct tft_position a)
{
    return tft_is(a, '\r') || tft_is(a, '\n');
}

#endif
