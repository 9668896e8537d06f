/* Upper and lower case of ASCII, Latin-1 and Cyrillic. Other characters that may have case are an
   error. */
#include "jinja.h"

#include <string.h>

#include "base/utf8.h"

/* Ranges of characters beyond ASCII without case, by Unicode 15's blocks. */
static bool has_no_case(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0x80, 0xa9},
        {0xab, 0xb4},
        {0xb6, 0xbf},
        {0xd7, 0xd7},
        {0xf7, 0xf7},
        {0x590, 0x109f},
        {0x1100, 0x139f},
        {0x1400, 0x1c7f},
        {0x2000, 0x20ff},
        {0x2190, 0x24b5},
        {0x2500, 0x2bff},
        {0x2e00, 0xa63f},
        {0xac00, 0xd7ff},
        {0xe000, 0xfaff},
        {0xfb1d, 0xfeff},
        {0xff00, 0xff20},
        {0xff5b, 0xffff},
        {0x1f000, 0x1faff},
        {0x20000, TFT_UTF8_CUT},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

/* The character in the other case; c if c has no other case; 0 if unknown. */
static uint32_t changed(uint32_t c, bool upper)
{
    static const uint32_t pairs[][3] = {
        /* first and last small letter, distance to the capital */
        {'a', 'z', 0x20},     {0xe0, 0xf6, 0x20},   {0xf8, 0xfe, 0x20},
        {0x430, 0x44f, 0x20}, {0x450, 0x45f, 0x50},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        uint32_t small = upper ? 0 : pairs[i][2];
        if (c + small >= pairs[i][0] && c + small <= pairs[i][1])
            return upper ? c - pairs[i][2] : c + small;
        if (c >= pairs[i][0] - pairs[i][2] * upper && c <= pairs[i][1] - pairs[i][2] * upper)
            return c; /* already in the wanted case */
    }
    return c < 0x80 || has_no_case(c) ? c : 0;
}

/* Whether a word begins after `before`, for the filter title. The method title() begins a word
   after every character without case. */
static bool begins_word(uint32_t before)
{
    return tft_jinja_space(before) || (before < 0x80 && strchr("-({[<", (char)before));
}

struct jinja_value tft_jinja_cased(struct jinja *x, const struct jinja_string *s,
                                   enum jinja_case how)
{
    struct jinja_buffer out = {0};
    bool first = true, upper = how != JINJA_LOWER;
    for (size_t at = 0, n; at < s->n && tft_jinja_spend(x, 1); at += n) {
        uint32_t c, to;
        n = tft_utf8_next(s->p + at, s->n - at, &c);
        to = changed(c, how == JINJA_UPPER || (upper && first));
        if (!to && c)
            return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED,
                                  "the case of the character U+%04X is not supported", (unsigned)c);
        char p[4];
        if (to != c)
            tft_jinja_add_text(x, &out, p, tft_utf8_put(p, to),
                               tft_jinja_trusts(s, at) && tft_jinja_trusts(s, at + n - 1));
        else
            tft_jinja_add(x, &out, tft_jinja_part(x, s, at, at + n).string);
        first = how == JINJA_TITLE_FILTER ? begins_word(c)
                : how == JINJA_TITLE      ? changed(c, true) == c && changed(c, false) == c
                                          : false;
    }
    return tft_jinja_finish(x, &out);
}
