/*
 * Past tool calls in the messages of a conversation. Clients send the arguments as a string of
 * JSON. Templates want an object: they loop over its members or pass it to tojson. Some templates
 * print the object or add it to a string. So the string becomes an object that prints as its own
 * text.
 */
#include "history.h"

#include <string.h>

#include "chat/tuffet_chat.h"

struct jinja_value *tft_chat_member(struct jinja *x, struct jinja_value v, const char *name,
                                    enum jinja_kind kind)
{
    const struct jinja_string s = {.p = name, .n = strlen(name), .trusted = true};
    const struct jinja_value key = {.kind = JINJA_STRING, .string = &s};
    struct jinja_value *m = v.kind == JINJA_DICT ? tft_jinja_find(x, v.dict, key) : NULL;
    return m && m->kind == kind ? m : NULL;
}

void tft_chat_read_arguments(struct jinja *x, struct jinja_value messages)
{
    for (size_t i = 0; messages.kind == JINJA_LIST && i < messages.list->n; i++) {
        struct jinja_value message = messages.list->item[i],
                           *calls = tft_chat_member(x, message, "tool_calls", JINJA_LIST);
        for (size_t k = 0; calls && k < calls->list->n && x->status == TFT_OK; k++) {
            struct jinja_value call = calls->list->item[k],
                               *f = tft_chat_member(x, call, "function", JINJA_DICT),
                               *arguments = tft_chat_member(x, f ? *f : call, "arguments",
                                                            JINJA_STRING);
            const struct jinja_string *text = arguments ? arguments->string : NULL;
            if (!text || !tft_jinja_spend(x, text->n) || !tft_chat_is_object(text->p, text->n))
                continue;
            *arguments = tft_jinja_read_json(x, text);
            if (x->status == TFT_OK)
                arguments->dict->text = text;
        }
    }
}
