/*
 * Tool calls that were made, in the messages of a conversation. Their arguments come from clients
 * as a string of JSON. Templates want an object: they go through its members, or write it by
 * tojson. Some print it, or add it to a string. So the string becomes an object that is its text
 * where it is printed or added.
 */
#include "history.h"

#include "base/utf8.h"
#include "call.h"

/* Whether s is one object of JSON. */
static bool is_object(struct jinja *x, const struct jinja_string *s)
{
    struct call_value v = {.place = CALL_BEGIN};
    enum call_took took = CALL_MORE;
    size_t at = 0;
    while (at < s->n && took == CALL_MORE && tft_jinja_spend(x, 1)) {
        uint32_t c;
        size_t n = tft_utf8_next(s->p + at, s->n - at, &c);
        took = c < TFT_UTF8_BAD ? tft_call_take(&v, s->p + at, n) : CALL_BAD;
        at += n;
    }
    while (at < s->n && (s->p[at] == ' ' || s->p[at] == '\n' || s->p[at] == '\t'))
        at++;
    return took == CALL_LAST && at == s->n;
}

static struct jinja_value *member(struct jinja *x, struct jinja_value v, const char *name,
                                  enum jinja_kind kind)
{
    struct jinja_value key = tft_jinja_text(x, name), *m = NULL;
    if (v.kind == JINJA_DICT && key.kind == JINJA_STRING)
        m = tft_jinja_find(x, v.dict, key);
    return m && m->kind == kind ? m : NULL;
}

void tft_chat_read_arguments(struct jinja *x, struct jinja_value messages)
{
    for (size_t i = 0; messages.kind == JINJA_LIST && i < messages.list->n; i++) {
        struct jinja_value *calls = member(x, messages.list->item[i], "tool_calls", JINJA_LIST);
        for (size_t k = 0; calls && k < calls->list->n && x->status == TFT_OK; k++) {
            struct jinja_value call = calls->list->item[k],
                               *f = member(x, call, "function", JINJA_DICT),
                               *arguments = member(x, f ? *f : call, "arguments", JINJA_STRING);
            if (!arguments || !is_object(x, arguments->string))
                continue;
            const struct jinja_string *text = arguments->string;
            *arguments = tft_jinja_read_json(x, text);
            if (x->status == TFT_OK)
                arguments->dict->text = text;
        }
    }
}
