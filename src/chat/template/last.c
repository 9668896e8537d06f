/* The last message, an answer that a model is to continue. */
#include <string.h>

#include "history.h"
#include "input.h"

const struct jinja_string *tft_chat_last_text(struct jinja *x, struct jinja_value messages)
{
    bool any = messages.kind == JINJA_LIST && messages.list->n;
    struct jinja_value last = any ? messages.list->item[messages.list->n - 1] : tft_jinja_none;
    const struct jinja_value *text = tft_chat_member(x, last, "content", JINJA_STRING),
                             *parts = tft_chat_member(x, last, "content", JINJA_LIST);
    if (parts && parts->list->n)
        text = tft_chat_member(x, parts->list->item[parts->list->n - 1], "text", JINJA_STRING);
    return text ? text->string : NULL;
}

/* Ends b after the last place of the text in it that is not trusted; false: there is none. */
static bool cut_after(struct jinja *x, struct jinja_buffer *b, const struct jinja_string *text)
{
    for (size_t end = b->n; end >= text->n && tft_jinja_spend(x, 1); end--) {
        size_t at = end - text->n;
        if (b->mark[at] || b->p[at] != *text->p || !tft_jinja_spend(x, text->n / 16))
            continue;
        if (memcmp(b->p + at, text->p, text->n) != 0 || memchr(b->mark + at, true, text->n))
            continue;
        b->n = end;
        return true;
    }
    return false;
}

/* The text after the last thought, which templates space in their own way; NULL: no thought. */
static const struct jinja_string *after_thought(struct jinja *x, const struct jinja_string *text)
{
    static const struct jinja_string mark = {.p = "</think>", .n = 8};
    size_t from = 0, at;
    while ((at = tft_jinja_search(x, text, from, &mark)) < text->n)
        from = at + mark.n;
    if (!from)
        return NULL;
    struct jinja_value rest = tft_jinja_part(x, text, from, text->n);
    rest = rest.kind == JINJA_STRING ? tft_jinja_strip(x, rest.string, NULL, true, false) : rest;
    return rest.kind == JINJA_STRING && rest.string->n ? rest.string : NULL;
}

void tft_chat_cut_after_last(struct jinja *x, struct jinja_buffer *b,
                             const struct jinja_string *said)
{
    struct jinja_value v = said ? tft_jinja_strip(x, said, NULL, true, true) : tft_jinja_none;
    const struct jinja_string *text = v.kind == JINJA_STRING ? v.string : NULL, *rest = NULL;
    x->line = 0;
    if (x->status != TFT_OK)
        return;
    if (!text || !text->n) {
        tft_jinja_fail(x, TFT_ERR_ARG, "the last message has no text to continue");
        return;
    }
    bool cut =
        cut_after(x, b, text) || ((rest = after_thought(x, text)) != NULL && cut_after(x, b, rest));
    size_t spaces = (size_t)(said->p + said->n - (text->p + text->n)); /* templates trim them */
    if (cut)
        tft_jinja_add_text(x, b, text->p + text->n, spaces, false);
    else
        tft_jinja_fail(x, TFT_ERR_ARG,
                       "the chat template drops the last message, which cannot be continued");
}
