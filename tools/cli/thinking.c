#include "thinking.h"

#include <string.h>

static const char begin[] = "<think>", end[] = "</think>";

void thinking_begin(struct thinking *t, const struct tft_model *m, int32_t budget, bool in_thought)
{
    *t = (struct thinking){.m = m, .budget = budget};
    if (budget >= 0 && tft_tokenize(m, end, strlen(end), TFT_PARSE_SPECIAL | TFT_CONTINUE, t->tag,
                                    THINKING_TAG, &t->n_tag) == TFT_OK)
        t->at = in_thought ? THINKING_ON : THINKING_START;
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static void see(struct thinking *t, char c)
{
    const char *tag = t->at == THINKING_ON ? end : begin;
    if (t->at == THINKING_START && !t->seen && is_space(c))
        return;
    if (c != tag[t->seen])
        t->seen = 0; /* < is in a tag once, at its start */
    t->seen += c == tag[t->seen];
    if (t->at == THINKING_START && !t->seen)
        t->at = THINKING_OVER;
    if (tag[t->seen])
        return;
    t->at = t->at == THINKING_START ? THINKING_ON : THINKING_OVER;
    t->seen = 0;
}

/* Counts the bytes that a character of UTF-8 lacks. */
static unsigned lacks(unsigned before, unsigned char c)
{
    if (c < 0xc0)
        return c >= 0x80 && before ? before - 1 : 0;
    return c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
}

void thinking_take(struct thinking *t, int32_t id)
{
    size_t n;
    if (t->at == THINKING_OVER)
        return;
    t->n += t->at == THINKING_ON;
    const char *p = tft_token_text(t->m, id, true, &n);
    for (size_t i = 0; i < n && t->at != THINKING_OVER; i++) {
        t->open = lacks(t->open, (unsigned char)p[i]);
        see(t, p[i]);
    }
}

size_t thinking_forced(const struct thinking *t, int32_t *ids)
{
    bool inside = (t->seen || t->open) && t->n - t->budget < THINKING_TAG;
    if (t->at != THINKING_ON || t->n < t->budget || inside)
        return 0;
    memcpy(ids, t->tag, t->n_tag * sizeof *ids);
    return t->n_tag;
}

bool thinking_ends(const char *p, size_t n)
{
    size_t len = strlen(begin);
    while (n && is_space(p[n - 1]))
        n--;
    return n >= len && memcmp(p + n - len, begin, len) == 0;
}
