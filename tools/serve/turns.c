#include "turns.h"

#include <stdlib.h>

struct turns turns_begin(struct fields *f)
{
    f->places = json_array();
    return (struct turns){.f = f, .all = json_array()};
}

json_t *turns_text(const json_t *text)
{
    if (!json_is_string(text))
        return NULL;
    return json_pack("{s:s,s:O}", "type", "text", "text", (json_t *)(uintptr_t)text);
}

char *turns_json(const json_t *value)
{
    char *text = NULL;
    bool same = false;
    for (size_t digits = 15; digits <= 17 && !same; digits++) {
        free(text);
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_t *back = text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
        same = json_equal(back, value);
        json_decref(back);
    }
    return text;
}

const char *turns_type(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "none";
}

void turns_close(struct turns *c)
{
    if (c->answer && c->thought.n)
        json_object_set_new(c->answer, "reasoning_content",
                            json_stringn(c->thought.p, c->thought.n));
    c->thought.n = 0;
    c->answer = NULL;
}

json_t *turns_end(struct turns *c)
{
    turns_close(c);
    free(c->thought.p);
    return c->all;
}

json_t *turns_add(struct turns *c, const char *role, json_t *content)
{
    turns_close(c);
    json_t *message = json_pack("{s:s,s:o}", "role", role, "content", content);
    json_t *places = c->f->places; /* NULL: of no request */
    if (json_array_append_new(c->all, message) == 0 &&
        (!places || json_array_append_new(places, json_string(c->place)) == 0))
        return message;
    fields_fail(c->f, "out of memory");
    return NULL;
}

/* NULL: out of memory. */
static json_t *answer(struct turns *c)
{
    if (!c->answer)
        c->answer = turns_add(c, "assistant", json_array());
    return c->answer;
}

void turns_say(struct turns *c, json_t *part)
{
    json_t *to = answer(c);
    if (json_array_append_new(json_object_get(to, "content"), part) != 0)
        fields_fail(c->f, "out of memory");
}

void turns_think(struct turns *c, const json_t *text)
{
    if (!answer(c) ||
        !cli_text_append(&c->thought, json_string_value(text), json_string_length(text)))
        fields_fail(c->f, "out of memory");
}

void turns_call(struct turns *c, json_t *id, json_t *name, json_t *arguments)
{
    json_t *to = answer(c), *calls = json_object_get(to, "tool_calls");
    if (!calls) {
        json_object_set_new(to, "tool_calls", json_array());
        calls = json_object_get(to, "tool_calls");
    }
    json_t *call = json_pack("{s:O,s:s,s:{s:O,s:O}}", "id", id, "type", "function", "function",
                             "name", name, "arguments", arguments);
    if (json_array_append_new(calls, call) != 0)
        fields_fail(c->f, "out of memory");
}
