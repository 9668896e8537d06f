/* Tokens of forced text: text for which the grammar allows one choice. */
#include "grammar.h"

#include "base/utf8.h"

enum { MOST = 1024 }; /* bytes of forced text per call */

/* The length of text[n] without an incomplete character at its end. */
static size_t whole_characters(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n) {
        uint32_t c;
        size_t len = tft_utf8_next(text + at, n - at, &c);
        if (c == TFT_UTF8_CUT)
            break;
        at += len;
    }
    return at;
}

/* Whether sampling never chooses the token: other tokens must then spell its text. */
static bool is_suppressed(const struct tft_tokenizer *t, int32_t id)
{
    uint32_t n;
    const int32_t *list = tft_tokenizer_suppressed(t, &n);
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == id)
            return true;
    return false;
}

size_t tft_grammar_forced(struct tft_grammar_state *s, int32_t *ids, size_t cap)
{
    char text[MOST];
    int32_t all[MOST];
    bool done;
    const struct tft_tokenizer *t = tft_grammar_tokenizer(s);
    size_t n = tft_grammar_only_text(s, text, MOST, &done), count = 0, taken = 0;
    size_t whole = whole_characters(text, n);
    if (!whole || tft_tokenizer_encode(t, text, whole, TFT_CONTINUE, all, MOST, &count) != TFT_OK)
        return 0;
    if (count > MOST)
        count = MOST;
    if (count && (!done || whole < n)) /* count may be 0: a tokenizer may drop spaces, so " " has no
                                          token */
        count--;
    while (taken < count && taken < cap && !is_suppressed(t, all[taken]) &&
           tft_grammar_accept(s, all[taken]) == TFT_OK) {
        ids[taken] = all[taken];
        taken++;
    }
    return taken;
}
