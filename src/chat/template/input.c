/* The variables of a template. */
#include "input.h"

#include <string.h>

#include "base/options.h"

#include "history.h"

enum { STEPS = 20000000, OUTPUT = 16 << 20, MEMORY = 256 << 20, DEPTH = 250 }; /* defaults */

struct jinja tft_chat_pool(const struct tft_chat_input *in)
{
    return (struct jinja){
        .what = "template",
        .max_memory = in->max_memory ? in->max_memory : MEMORY,
        .max_steps = in->max_steps ? in->max_steps : STEPS,
        .max_depth = in->max_depth ? in->max_depth : DEPTH,
        .max_output = in->max_output ? in->max_output : OUTPUT,
        .has_time = in->has_time,
        .time = in->time,
    };
}

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

static void trust_role(struct jinja *x, struct jinja_value message)
{
    struct jinja_value *role = tft_chat_member(x, message, "role", JINJA_STRING);
    if (role && is_usual_role(role->string))
        *role = tft_jinja_string(x, role->string->p, role->string->n, true);
}

/* Makes a list of one part of the message's text. */
static void put_in_parts(struct jinja *x, struct jinja_value message)
{
    struct jinja_value *text = tft_chat_member(x, message, "content", JINJA_STRING);
    struct jinja_list *parts = text ? tft_jinja_list(x, JINJA_PLAIN) : NULL;
    struct jinja_value part = {.kind = JINJA_DICT, .dict = parts ? tft_jinja_dict(x) : NULL};
    if (!part.dict)
        return;
    tft_jinja_put(x, part.dict, tft_jinja_text(x, "type"), tft_jinja_text(x, "text"));
    tft_jinja_put(x, part.dict, tft_jinja_text(x, "text"), *text);
    tft_jinja_push(x, parts, part);
    *text = tft_jinja_list_value(parts);
}

static struct jinja_value messages_of(struct jinja *x, const struct tft_chat_input *in)
{
    struct jinja_list *l = tft_jinja_list(x, JINJA_PLAIN);
    struct jinja_value role = tft_jinja_text(x, "role"), content = tft_jinja_text(x, "content");
    for (size_t i = 0; i < in->n_message && x->status == TFT_OK; i++) {
        const struct tft_chat_message *m = &in->message[i];
        struct jinja_value v = {.kind = JINJA_DICT, .dict = tft_jinja_dict(x)};
        if (x->status == TFT_OK)
            x->status = tft_options_reserved(m->reserved, sizeof m->reserved, "tft_chat_message",
                                             &x->err);
        tft_jinja_put(x, v.dict, role, tft_jinja_string(x, m->role, strlen(m->role), false));
        tft_jinja_put(x, v.dict, content, tft_jinja_string(x, m->n ? m->text : "", m->n, false));
        tft_jinja_push(x, l, v);
    }
    return tft_jinja_list_value(l);
}

/* The members of the JSON; *messages: if they have no messages, it stays. */
static void set_members(struct jinja *x, const struct tft_chat_input *in,
                        struct jinja_value *messages)
{
    struct jinja_string s = {.p = in->json, .n = in->n_json};
    struct jinja_value all = tft_jinja_read_json(x, &s);
    if (all.kind != JINJA_DICT)
        tft_jinja_fail(x, TFT_ERR_ARG, "the JSON is not an object");
    for (size_t i = 0; all.kind == JINJA_DICT && i < all.dict->n && x->status == TFT_OK; i++) {
        if (tft_jinja_is(all.dict->key[i].string, "messages"))
            *messages = all.dict->value[i];
        else
            tft_jinja_set(x, all.dict->key[i].string, all.dict->value[i]);
    }
}

struct jinja_value tft_chat_set_variables(struct jinja *x, const struct tft_chat_input *in,
                                          enum chat_content content)
{
    struct jinja_value messages = messages_of(x, in);
    set(x, "tools", tft_jinja_none);
    set(x, "documents", tft_jinja_none);
    set(x, "add_generation_prompt", tft_jinja_bool(!in->no_prompt));
    if (in->bos)
        set(x, "bos_token", tft_jinja_text(x, in->bos));
    if (in->eos)
        set(x, "eos_token", tft_jinja_text(x, in->eos));
    if (in->json)
        set_members(x, in, &messages);
    if (in->continue_last)
        set(x, "add_generation_prompt", tft_jinja_bool(false));
    for (size_t i = 0; messages.kind == JINJA_LIST && i < messages.list->n; i++) {
        trust_role(x, messages.list->item[i]);
        if (content == CHAT_PARTS)
            put_in_parts(x, messages.list->item[i]);
    }
    if (in->read_arguments)
        tft_chat_read_arguments(x, messages);
    set(x, "messages", messages);
    return messages;
}
