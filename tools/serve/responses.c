/*
 * OpenAI's /v1/responses, which becomes a request to /v1/chat/completions; responses_reply.c
 * replies, kept.c has earlier responses.
 */
#define _POSIX_C_SOURCE 200809L
#include "responses.h"

#include <stdlib.h>
#include <string.h>

#include "turns.h"
#include "responses_reply.h"

/* ---- the input */

static json_t *part_of(const json_t *part)
{
    static const char *const types[] = {"input_text", "output_text", "text"};
    const char *type = turns_type(part);
    if (strcmp(type, "refusal") == 0)
        return turns_text(json_object_get(part, "refusal"));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return turns_text(json_object_get(part, "text"));
    return NULL;
}

/* A string, or a list of parts, as a list of parts. */
static json_t *read_content(struct fields *f, const json_t *content, const char *where)
{
    json_t *parts = json_array();
    const json_t *part;
    size_t i;
    if (json_is_string(content))
        json_array_append_new(parts, turns_text(content));
    else if (!json_is_array(content))
        fields_fail(f, "%s must be a string or a list of parts", where);
    json_array_foreach((json_t *)(uintptr_t)content, i, part)
    {
        json_t *text = part_of(part);
        if (text)
            json_array_append_new(parts, text);
        else
            fields_fail(f, "%s[%zu]: only parts of text are supported, not %s", where, i,
                        turns_type(part));
    }
    return parts;
}

/* An answer is its reasoning, then a message, then calls. */
static void close_after_text(struct turns *c)
{
    if (json_array_size(json_object_get(c->answer, "content")) ||
        json_object_get(c->answer, "tool_calls"))
        turns_close(c);
}

static void read_message(struct turns *c, const json_t *item, const char *where)
{
    static const char *const roles[] = {"user", "system", "developer", "assistant"};
    const char *role = json_string_value(json_object_get(item, "role"));
    char name[60];
    size_t i = 0;
    snprintf(name, sizeof name, "%s.content", where);
    while (i < 4 && !(role && strcmp(role, roles[i]) == 0))
        i++;
    if (i == 4) {
        fields_fail(c->f, "%s.role must be user, system, developer or assistant", where);
        return;
    }
    json_t *parts = read_content(c->f, json_object_get(item, "content"), name), *part;
    if (i < 3) {
        turns_add(c, role, parts);
        return;
    }
    close_after_text(c);
    json_array_foreach(parts, i, part) turns_say(c, json_incref(part));
    json_decref(parts);
}

/* The thoughts, or what the client has of them. */
static void read_reasoning(struct turns *c, const json_t *item, const char *where)
{
    const json_t *content = json_object_get(item, "content"), *part;
    const char *name = "content";
    size_t i;
    if (!json_array_size(content)) {
        content = json_object_get(item, "summary");
        name = "summary";
    }
    close_after_text(c);
    json_array_foreach((json_t *)(uintptr_t)content, i, part)
    {
        const json_t *text = json_object_get(part, "text");
        if (json_is_string(text))
            turns_think(c, text);
        else
            fields_fail(c->f, "%s.%s[%zu].text must be a string", where, name, i);
    }
}

static void read_call(struct turns *c, const json_t *item, const char *where)
{
    json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name"),
           *arguments = json_object_get(item, "arguments");
    if (json_is_string(id) && json_is_string(name) && json_is_string(arguments))
        turns_call(c, id, name, arguments);
    else
        fields_fail(c->f, "%s: function_call must have the texts call_id, name and arguments",
                    where);
}

static void read_result(struct turns *c, const json_t *item, const char *where)
{
    json_t *id = json_object_get(item, "call_id");
    char name[60];
    snprintf(name, sizeof name, "%s.output", where);
    if (!json_is_string(id))
        fields_fail(c->f, "%s.call_id must be a string", where);
    json_t *parts = read_content(c->f, json_object_get(item, "output"), name);
    json_object_set(turns_add(c, "tool", parts), "tool_call_id", id);
}

static void read_item(struct turns *c, const json_t *item, size_t at)
{
    const char *type = turns_type(item);
    bool bare = !json_object_get(item, "type") && json_object_get(item, "role");
    char where[40];
    snprintf(where, sizeof where, "input[%zu]", at);
    snprintf(c->place, sizeof c->place, "%s", where);
    if (!json_is_object(item))
        fields_fail(c->f, "%s is not an object", where);
    else if (bare || strcmp(type, "message") == 0)
        read_message(c, item, where);
    else if (strcmp(type, "reasoning") == 0)
        read_reasoning(c, item, where);
    else if (strcmp(type, "function_call") == 0)
        read_call(c, item, where);
    else if (strcmp(type, "function_call_output") == 0)
        read_result(c, item, where);
    else
        request_lacks(c->f, "%s: an item of the type %s", where, type);
}

/* The messages before the instructions: an earlier response, and the input. */
static json_t *read_input(struct fields *f, const char *earlier)
{
    struct turns c = turns_begin(f);
    const json_t *input = field(f, "input"), *item;
    size_t i;
    if (earlier) {
        json_decref(c.all);
        c.all = json_loads(earlier, JSON_ALLOW_NUL, NULL);
        if (!c.all)
            fields_fail(f, "out of memory");
        for (i = 0; i < json_array_size(c.all); i++)
            json_array_append_new(f->places, json_string("previous_response_id"));
    }
    snprintf(c.place, sizeof c.place, "input");
    if (json_is_string(input))
        turns_add(&c, "user", json_copy((json_t *)(uintptr_t)input));
    else if (!json_is_array(input) || (!json_array_size(input) && !earlier))
        fields_fail(f, "input must be a string or a list of items, and not empty");
    json_array_foreach((json_t *)(uintptr_t)input, i, item) read_item(&c, item, i);
    return turns_end(&c);
}

static void read_messages(struct fields *f, const json_t *history)
{
    const json_t *instructions = field(f, "instructions");
    json_t *all = json_deep_copy(history);
    if (instructions && !json_is_string(instructions))
        fields_fail(f, "instructions must be a string");
    if (json_string_length(instructions)) {
        json_array_insert_new(all, 0,
                              json_pack("{s:s,s:O}", "role", "system", "content", instructions));
        json_array_insert_new(f->places, 0, json_string("instructions"));
    }
    if (!all)
        fields_fail(f, "out of memory");
    json_object_set_new(f->body, "messages", all);
}

/* ---- tools */

static json_t *read_tool(struct fields *f, const json_t *tool, size_t at)
{
    static const char *const names[] = {"name", "description", "parameters"};
    json_t *of = json_object();
    if (strcmp(turns_type(tool), "function") != 0)
        request_lacks(f, "tools[%zu]: a tool of the type %s", at, turns_type(tool));
    for (size_t i = 0; i < 3; i++)
        json_object_set(of, names[i], json_object_get(tool, names[i]));
    return json_pack("{s:s,s:o}", "type", "function", "function", of);
}

static void read_tools(struct fields *f)
{
    fields_name(f, "/function", "");
    const json_t *tools = field(f, "tools"), *tool;
    json_t *all = json_array();
    size_t i;
    if (tools && !json_is_array(tools))
        fields_fail(f, "tools must be a list");
    json_array_foreach((json_t *)(uintptr_t)tools, i, tool)
        json_array_append_new(all, read_tool(f, tool, i));
    json_object_set_new(f->body, "tools", all);
}

static void read_choice(struct fields *f)
{
    const json_t *choice = field(f, "tool_choice");
    if (!json_is_object(choice))
        return;
    fields_name(f, "tool_choice.function.name", "tool_choice.name");
    if (strcmp(turns_type(choice), "function") != 0)
        request_lacks(f, "tool_choice.type %s", turns_type(choice));
    else
        json_object_set_new(f->body, "tool_choice",
                            json_pack("{s:s,s:{s:O?}}", "type", "function", "function", "name",
                                      json_object_get(choice, "name")));
}

/* ---- other members */

static void read_form(struct fields *f, json_t *format)
{
    fields_name(f, "response_format.json_schema.schema", "text.format.schema");
    request_rename(f, "response_format", "text.format", format);
}

static void read_text(struct fields *f)
{
    const json_t *text = field(f, "text");
    const char *name;
    json_t *value;
    if (text && !json_is_object(text))
        fields_fail(f, "text must be an object");
    json_object_foreach((json_t *)(uintptr_t)text, name, value)
    {
        const char *word = json_string_value(value);
        if (strcmp(name, "format") == 0)
            read_form(f, value);
        else if (!json_is_null(value) &&
                 !(strcmp(name, "verbosity") == 0 && word && strcmp(word, "medium") == 0))
            request_lacks(f, "text.%s", name);
    }
}

/* Thoughts are never summarized. */
static void read_reasoning_options(struct fields *f)
{
    const json_t *reasoning = field(f, "reasoning");
    const char *name;
    json_t *value;
    if (reasoning && !json_is_object(reasoning))
        fields_fail(f, "reasoning must be an object");
    json_object_foreach((json_t *)(uintptr_t)reasoning, name, value)
    {
        if (strcmp(name, "effort") == 0)
            request_rename(f, "reasoning_effort", "reasoning.effort", value);
        else if (!json_is_null(value) && !strstr(name, "summary"))
            request_lacks(f, "reasoning.%s", name);
    }
}

/* A reply lacks log-probabilities; the other members are always there, or belong to tools that the
   server lacks. */
static void read_include(struct fields *f)
{
    const json_t *include = field(f, "include"), *one;
    size_t i;
    if (include && !json_is_array(include))
        fields_fail(f, "include must be a list");
    json_array_foreach((json_t *)(uintptr_t)include, i, one)
    {
        const char *word = json_string_value(one);
        if (word && strcmp(word, "message.output_text.logprobs") == 0)
            request_lacks(f, "include: %s", word);
    }
}

/* The members that a response repeats, as the client sent them. */
static json_t *echo_of(const struct fields *f)
{
    static const char *const names[] = {
        "instructions", "max_output_tokens", "previous_response_id", "temperature", "top_p",
        "user"};
    json_t *all = json_pack("{s:{},s:b,s:{s:n,s:n},s:b,s:{s:{s:s}},s:s,s:[],s:s,s:b}", "metadata",
                            "parallel_tool_calls", 1, "reasoning", "effort", "summary", "store", 1,
                            "text", "format", "type", "text", "tool_choice", "auto", "tools",
                            "truncation", "disabled", "background", 0);
    const char *name;
    json_t *value;
    json_object_foreach(all, name, value) if (field(f, name))
        json_object_set(all, name, json_object_get(f->body, name));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        json_object_set_new(all, names[i],
                            field(f, names[i]) ? json_copy(json_object_get(f->body, names[i]))
                                               : json_null());
    return all;
}

/* ---- requests */

/* Finds the conversation of an earlier response. False after a reply: it is not there. */
static bool find_earlier(struct exchange *x, struct fields *f, const char **messages)
{
    const char *id = field_text(f, "previous_response_id", NULL);
    const struct kept_response *r = id ? kept_find(&x->server->kept, id) : NULL;
    *messages = r ? r->messages : NULL;
    if (id && !r)
        reply_error(x, 404, "not_found_error", "previous_response_id: there is no such response");
    return !id || r;
}

/* Makes the request of the exchange; false after a reply with its error. */
static bool begin(struct request *r, struct exchange *x, struct asked *asked)
{
    const char *earlier;
    if (!request_begin(r, x, API_RESPONSES))
        return false;
    struct fields *f = &r->f;
    if (!find_earlier(x, f, &earlier)) {
        request_end(r);
        return false;
    }
    if (x->server->o.truncate && !field(f, "truncation"))
        json_object_set_new(f->body, "truncation", json_string("auto"));
    *asked = (struct asked){.echo = echo_of(f), .stream = field_flag(f, "stream", false)};
    bool store = field_flag(f, "store", true);
    json_t *history = read_input(f, earlier);
    read_messages(f, history);
    asked->history = store ? json_incref(history) : NULL;
    json_decref(history);
    read_tools(f);
    read_choice(f);
    read_text(f);
    read_reasoning_options(f);
    read_include(f);
    request_rename(f, "max_tokens", "max_output_tokens",
                   json_object_get(f->body, "max_output_tokens"));
    params_read(&r->p, f, x->served->m);
    request_tools(r, x->served);
    if (!f->failed)
        prompt_chat(&r->prompt, x, f, r->tools, r->p.most);
    return true;
}

void responses_create(struct exchange *x)
{
    struct request r;
    struct asked asked;
    if (!begin(&r, x, &asked))
        return;
    responses_reply(x, &r, asked);
    request_end(&r);
}

/* The tokens of the prompt of the same request. */
void responses_count(struct exchange *x)
{
    struct request r;
    struct asked asked;
    if (!begin(&r, x, &asked))
        return;
    if (r.f.failed)
        request_fail(x, &r.f);
    else
        reply_json(x, 200,
                   json_pack("{s:s,s:I}", "object", "response.input_tokens", "input_tokens",
                             (json_int_t)(r.prompt.n_held + r.prompt.n)));
    json_decref(asked.echo);
    json_decref(asked.history);
    tft_chat_tools_close(r.tools);
    request_end(&r);
}

/* ---- earlier responses */

static const char *id_of(const struct exchange *x) { return x->path + strlen("/v1/responses/"); }

static void not_found(struct exchange *x)
{
    if (strchr(id_of(x), '/'))
        reply_error(x, 501, "not_supported_error", "this server does not have %s", x->path);
    else
        reply_error(x, 404, "not_found_error", "there is no response %s", id_of(x));
}

void responses_get(struct exchange *x)
{
    const struct kept_response *r = kept_find(&x->server->kept, id_of(x));
    if (!r)
        not_found(x);
    else if (x->query && strstr(x->query, "stream=true"))
        reply_error(x, 501, "not_supported_error", "stream is not supported here");
    else
        reply_text(x, 200, "application/json; charset=utf-8", r->reply, strlen(r->reply));
}

void responses_delete(struct exchange *x)
{
    const char *id = id_of(x);
    if (kept_drop(&x->server->kept, id))
        reply_json(x, 200,
                   json_pack("{s:s,s:s,s:b}", "id", id, "object", "response", "deleted", 1));
    else
        not_found(x);
}
