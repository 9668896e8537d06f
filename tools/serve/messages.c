#define _POSIX_C_SOURCE 200809L
#include "messages.h"

#include <stdlib.h>
#include <string.h>

/* Whether the part of a content is text and no more. */
static bool is_text(const json_t *part)
{
    static const char *const types[] = {"text", "input_text", "output_text"};
    const char *type = json_string_value(json_object_get(part, "type"));
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return json_is_string(json_object_get(part, "text"));
    return false;
}

/* The text of a list of parts. */
static json_t *join(struct fields *f, const json_t *parts, size_t at)
{
    struct cli_text t = {0};
    size_t i;
    json_t *part;
    json_array_foreach((json_t *)(uintptr_t)parts, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        if (!is_text(part)) {
            fields_fail(f, "messages[%zu].content[%zu]: only parts of text are supported, not %s",
                        at, i, type ? type : "this");
            break;
        }
        if (!cli_text_append(&t, json_string_value(text), json_string_length(text)))
            fields_fail(f, "out of memory");
    }
    json_t *all = json_stringn(t.n ? t.p : "", t.n);
    free(t.p);
    return all;
}

/* Checks the parts of a content that the template takes as a list. */
static void check_parts(struct fields *f, const json_t *parts, size_t at)
{
    size_t i;
    json_t *part;
    json_decref(join(f, parts, at));
    json_array_foreach((json_t *)(uintptr_t)parts, i, part)
        json_object_set_new(part, "type", json_string("text"));
}

/* Clients send earlier answers back as they dump them, with members that are null or empty, and
   templates ask whether a member is there. */
static void drop_void(json_t *of)
{
    const char *name;
    json_t *v;
    void *next;
    json_object_foreach_safe(of, next, name, v)
        if (json_void(v) && strcmp(name, "content") != 0)
            json_object_del(of, name);
}

/* The calls of an earlier answer; no arguments are {}. */
static void read_calls(struct fields *f, json_t *message, size_t at)
{
    size_t i;
    json_t *call, *calls = json_object_get(message, "tool_calls");
    if (calls && !json_is_array(calls))
        fields_fail(f, "messages[%zu].tool_calls must be a list", at);
    json_array_foreach(calls, i, call)
    {
        drop_void(call);
        json_t *of = json_object_get(call, "function");
        drop_void(of);
        const json_t *arguments = json_object_get(of, "arguments");
        if (!json_is_string(json_object_get(of, "name")))
            fields_fail(f, "messages[%zu].tool_calls[%zu].function has no name", at, i);
        else if (!arguments)
            json_object_set_new(of, "arguments", json_string("{}"));
        else if (!json_is_string(arguments) && !json_is_object(arguments))
            fields_fail(f,
                        "messages[%zu].tool_calls[%zu].function.arguments must be an object, or "
                        "its JSON as a string",
                        at, i);
    }
}

/* What an answer says in other members than those that templates know. */
static void read_answer(struct fields *f, json_t *message, size_t at)
{
    static const char *const unknown[] = {"function_call", "audio"};
    json_t *refusal = json_object_get(message, "refusal");
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (json_object_get(message, unknown[i]))
            fields_fail(f, "messages[%zu].%s is not supported%s", at, unknown[i],
                        i ? "" : ", but tool_calls is");
    if (!json_is_string(refusal))
        return;
    if (!json_object_get(message, "content") || json_void(json_object_get(message, "content")))
        json_object_set(message, "content", refusal);
    json_object_del(message, "refusal");
}

static void read_content(struct fields *f, json_t *message, size_t at, bool takes_parts)
{
    const json_t *content = json_object_get(message, "content");
    const char *role = json_string_value(json_object_get(message, "role"));
    bool may_lack = strcmp(role, "assistant") == 0 || strcmp(role, "tool") == 0;
    bool user = strcmp(role, "user") == 0; /* templates print lists of others as they are */
    if (json_array_size(content) && takes_parts && user)
        check_parts(f, content, at);
    else if (json_is_array(content))
        json_object_set_new(message, "content", join(f, content, at));
    else if ((!content || json_is_null(content)) && may_lack)
        json_object_set_new(message, "content", json_string(""));
    else if (!json_is_string(content))
        fields_fail(f, "messages[%zu].content must be a string or a list of parts", at);
}

static void read_message(struct fields *f, json_t *message, size_t at, bool takes_parts)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const char *role = json_string_value(json_object_get(message, "role"));
    bool known = false;
    if (role && strcmp(role, "developer") == 0) {
        role = "system";
        json_object_set_new(message, "role", json_string(role));
    }
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        known |= strcmp(role, roles[i]) == 0;
    if (!json_is_object(message))
        fields_fail(f, "messages[%zu] is not an object", at);
    else if (!known)
        fields_fail(f, "messages[%zu].role must be system, user, assistant or tool", at);
    if (f->failed)
        return;
    drop_void(message);
    read_calls(f, message, at);
    read_answer(f, message, at);
    if (!f->failed)
        read_content(f, message, at, takes_parts);
}

/* Gives results of tools the names of the tools, as `calls` has them by the ids of the calls.
   Clients send a result with the id alone, and templates print the name. */
static void name_results(struct fields *f, json_t *message, json_t *calls)
{
    size_t i;
    json_t *call;
    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
    {
        const char *id = json_string_value(json_object_get(call, "id"));
        json_t *name = json_object_get(json_object_get(call, "function"), "name");
        if (id && json_object_set(calls, id, name))
            fields_fail(f, "out of memory");
    }
    const char *answers = json_string_value(json_object_get(message, "tool_call_id"));
    json_t *name = answers ? json_object_get(calls, answers) : NULL;
    if (name && !json_object_get(message, "name") && json_object_set(message, "name", name))
        fields_fail(f, "out of memory");
}

json_t *messages_read(struct fields *f, bool takes_parts)
{
    json_t *list = json_object_get(f->body, "messages"), *message;
    size_t i;
    if (!json_is_array(list) || !json_array_size(list))
        fields_fail(f, "messages must be a list, and not empty");
    json_t *calls = json_object();
    json_array_foreach(list, i, message)
    {
        read_message(f, message, i, takes_parts);
        name_results(f, message, calls);
    }
    json_decref(calls);
    return list;
}

/* ---- tools, if templates do not know tools */

static void say(struct fields *f, struct cli_text *t, const char *p)
{
    if (!cli_text_append(t, p, strlen(p)))
        fields_fail(f, "out of memory");
}

/* A call in the form that tft_chat_tools_ask describes. */
static void say_calls(struct fields *f, struct cli_text *t, const json_t *calls)
{
    size_t i;
    json_t *call;
    say(f, t, "{\"tool_calls\": [");
    json_array_foreach((json_t *)(uintptr_t)calls, i, call)
    {
        const json_t *of = json_object_get(call, "function"),
                     *arguments = json_object_get(of, "arguments");
        char *name = json_dumps(json_object_get(of, "name"), JSON_ENCODE_ANY),
             *text = json_is_string(arguments) ? strdup(json_string_value(arguments))
                                               : json_dumps(arguments, JSON_ENCODE_ANY);
        say(f, t, i ? ", {\"name\": " : "{\"name\": ");
        say(f, t, name ? name : "\"\"");
        say(f, t, ", \"arguments\": ");
        say(f, t, text ? text : "{}");
        say(f, t, "}");
        free(name);
        free(text);
    }
    say(f, t, "]}");
}

/* Calls become text, and results messages of the user. */
static void write_plainly(struct fields *f, json_t *message)
{
    struct cli_text t = {0};
    const json_t *calls = json_object_get(message, "tool_calls");
    const char *role = json_string_value(json_object_get(message, "role")),
               *name = json_string_value(json_object_get(message, "name"));
    bool result = strcmp(role, "tool") == 0;
    if (!result && !json_array_size(calls))
        return;
    if (result) {
        say(f, &t, "Result of ");
        say(f, &t, name ? name : "the call");
        say(f, &t, ":\n");
        json_object_set_new(message, "role", json_string("user"));
    }
    say(f, &t, json_string_value(json_object_get(message, "content")));
    if (json_array_size(calls))
        say_calls(f, &t, calls);
    json_object_set_new(message, "content", json_stringn(t.p, t.n));
    json_object_del(message, "tool_calls");
    free(t.p);
}

void messages_write_plainly(struct fields *f, json_t *messages)
{
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message) write_plainly(f, message);
}

bool messages_describe_tools(struct fields *f, json_t *messages, const struct tft_chat_tools *tools)
{
    struct tft_chat_text ask;
    struct tft_error err;
    struct cli_text t = {0};
    json_t *first = json_array_get(messages, 0);
    bool had = strcmp(json_string_value(json_object_get(first, "role")), "system") == 0;
    if (tft_chat_tools_ask(&ask, tools, &err) != TFT_OK) {
        fields_fail(f, "tools: %s", err.msg);
        return false;
    }
    if (had) {
        say(f, &t, json_string_value(json_object_get(first, "content")));
        say(f, &t, "\n\n");
    } else {
        first = json_pack("{s:s}", "role", "system");
        json_array_insert_new(messages, 0, first);
    }
    say(f, &t, ask.p);
    json_object_set_new(first, "content", json_stringn(t.p, t.n));
    free(t.p);
    json_object_del(f->body, "tools");
    tft_chat_text_free(&ask);
    return !had;
}
