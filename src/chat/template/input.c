/* The variables of a template. */
#include "input.h"

#include <string.h>

#include "history.h"

static void set(struct jinja *x, const char *name, struct jinja_value v)
{
    struct jinja_value s = tft_jinja_text(x, name);
    if (s.kind == JINJA_STRING)
        tft_jinja_set(x, s.string, v);
}

/* A role that a program sets, not a user: templates turn roles into special tokens. */
static bool is_usual_role(const struct jinja_string *s)
{
    static const char *const roles[] = {"system",   "user",  "assistant",     "tool",   "developer",
                                        "function", "model", "tool_response", "ipython"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (tft_jinja_is(s, roles[i]))
            return true;
    return false;
}

static void trust_roles(struct jinja *x, struct jinja_value messages)
{
    static const struct jinja_string name = {.p = "role", .n = 4, .trusted = true};
    const struct jinja_value key = {.kind = JINJA_STRING, .string = &name};
    for (size_t i = 0; messages.kind == JINJA_LIST && i < messages.list->n; i++) {
        struct jinja_value m = messages.list->item[i];
        struct jinja_value *role = m.kind == JINJA_DICT ? tft_jinja_find(x, m.dict, key) : NULL;
        if (role && role->kind == JINJA_STRING && is_usual_role(role->string))
            *role = tft_jinja_string(x, role->string->p, role->string->n, true);
    }
}

static struct jinja_value messages_of(struct jinja *x, const struct tft_chat_input *in)
{
    struct jinja_list *l = tft_jinja_list(x, JINJA_PLAIN);
    struct jinja_value role = tft_jinja_text(x, "role"), content = tft_jinja_text(x, "content");
    for (size_t i = 0; i < in->n_message && x->status == TFT_OK; i++) {
        const struct tft_chat_message *m = &in->message[i];
        struct jinja_value v = {.kind = JINJA_DICT, .dict = tft_jinja_dict(x)};
        tft_jinja_put(x, v.dict, role, tft_jinja_string(x, m->role, strlen(m->role), false));
        tft_jinja_put(x, v.dict, content, tft_jinja_string(x, m->n ? m->text : "", m->n, false));
        tft_jinja_push(x, l, v);
    }
    return tft_jinja_list_value(l);
}

void tft_chat_set_variables(struct jinja *x, const struct tft_chat_input *in)
{
    struct jinja_value messages = messages_of(x, in), all = {.kind = JINJA_UNDEFINED};
    set(x, "tools", tft_jinja_none);
    set(x, "documents", tft_jinja_none);
    set(x, "add_generation_prompt", tft_jinja_bool(!in->no_prompt));
    if (in->bos)
        set(x, "bos_token", tft_jinja_text(x, in->bos));
    if (in->eos)
        set(x, "eos_token", tft_jinja_text(x, in->eos));
    if (in->json) {
        struct jinja_string s = {.p = in->json, .n = in->n_json};
        all = tft_jinja_read_json(x, &s);
        if (all.kind != JINJA_DICT)
            tft_jinja_fail(x, TFT_ERR_ARG, "the JSON is not an object");
    }
    for (size_t i = 0; all.kind == JINJA_DICT && i < all.dict->n && x->status == TFT_OK; i++) {
        if (tft_jinja_is(all.dict->key[i].string, "messages"))
            messages = all.dict->value[i];
        else
            tft_jinja_set(x, all.dict->key[i].string, all.dict->value[i]);
    }
    trust_roles(x, messages);
    if (in->read_arguments)
        tft_chat_read_arguments(x, messages);
    set(x, "messages", messages);
}
