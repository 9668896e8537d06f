/* Anthropic's /v1/messages, which becomes a request in OpenAI's form; anthropic_reply.c replies. */
#define _POSIX_C_SOURCE 200809L
#include "anthropic.h"

#include <stdlib.h>
#include <string.h>

#include "anthropic_reply.h"
#include "turns.h"
#include "request.h"

/* The first anthropic-version with these events. The later one, 2026-10-21, has the same form. */
static const char version[] = "2023-06-01";

/* ---- messages */

/* Texts as OpenAI's parts. where: the name of `content` in errors. */
static json_t *read_texts(struct fields *f, const json_t *content, const char *where)
{
    json_t *parts = json_array();
    const json_t *block;
    size_t i;
    if (content && !json_is_array(content) && !json_is_string(content))
        fields_fail(f, "%s must be a string or a list of blocks", where);
    if (json_is_string(content))
        json_array_append_new(parts, turns_text(content));
    json_array_foreach((json_t *)(uintptr_t)content, i, block)
    {
        json_t *part = strcmp(turns_type(block), "text") == 0
                           ? turns_text(json_object_get(block, "text"))
                           : NULL;
        if (!part)
            fields_fail(f, "%s[%zu]: only blocks of text are supported here, not %s", where, i,
                        turns_type(block));
        else
            json_array_append_new(parts, part);
    }
    return parts;
}

/* OpenAI's messages have no member for an error: its text says so. */
static void read_result(struct turns *c, const json_t *block, const char *where)
{
    json_t *id = json_object_get(block, "tool_use_id"), *error = json_string("Error: ");
    if (!json_is_string(id))
        fields_fail(c->f, "%s.tool_use_id must be a string", where);
    char content[128];
    snprintf(content, sizeof content, "%s.content", where);
    json_t *parts = read_texts(c->f, json_object_get(block, "content"), content);
    if (json_is_true(json_object_get(block, "is_error")))
        json_array_insert_new(parts, 0, turns_text(error));
    json_decref(error);
    json_object_set(turns_add(c, "tool", parts), "tool_call_id", id);
}

/* Results of tools are messages of their own, between the texts of the user. */
static void read_user(struct turns *c, const json_t *content, const char *where)
{
    json_t *parts = json_array();
    const json_t *block;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)content, i, block)
    {
        char name[100];
        snprintf(name, sizeof name, "%s[%zu]", where, i);
        json_t *part = turns_text(json_object_get(block, "text"));
        bool is_text = part && strcmp(turns_type(block), "text") == 0;
        if (is_text) {
            json_array_append(parts, part);
        } else if (strcmp(turns_type(block), "tool_result") == 0) {
            if (json_array_size(parts)) {
                turns_add(c, "user", parts);
                parts = json_array();
            }
            read_result(c, block, name);
        } else {
            fields_fail(c->f, "%s: only blocks of text and tool_result are supported here, not %s",
                        name, turns_type(block));
        }
        json_decref(part);
    }
    if (json_array_size(parts) || !i)
        turns_add(c, "user", parts);
    else
        json_decref(parts);
}

static void read_call(struct turns *c, const json_t *block, const char *where)
{
    json_t *id = json_object_get(block, "id"), *name = json_object_get(block, "name");
    const json_t *input = json_object_get(block, "input");
    char *text = turns_json(input);
    json_t *arguments = json_string(text ? text : "{}");
    if (!json_is_string(id) || !json_is_string(name) || !json_is_object(input))
        fields_fail(c->f, "%s: tool_use must have an id, a name and an object `input`", where);
    else
        turns_call(c, id, name, arguments);
    json_decref(arguments);
    free(text);
}

/* The text may be empty: an author that does not show thoughts has a signature alone. */
static void read_thought(struct turns *c, const json_t *text, const char *where)
{
    if (json_is_string(text))
        turns_think(c, text);
    else
        fields_fail(c->f, "%s.thinking must be a string", where);
}

static void read_block(struct turns *c, const json_t *block, const char *where)
{
    const char *type = turns_type(block);
    json_t *part = turns_text(json_object_get(block, "text"));
    if (part && strcmp(type, "text") == 0)
        turns_say(c, json_incref(part));
    else if (strcmp(type, "thinking") == 0)
        read_thought(c, json_object_get(block, "thinking"), where);
    else if (strcmp(type, "tool_use") == 0)
        read_call(c, block, where);
    else if (strcmp(type, "redacted_thinking") != 0) /* nobody but its author can read it */
        fields_fail(c->f,
                    "%s: only blocks of text, thinking and tool_use are supported here, "
                    "not %s",
                    where, type);
    json_decref(part);
}

static void read_answer(struct turns *c, const json_t *content, const char *where)
{
    const json_t *block;
    size_t i;
    turns_close(c);
    json_array_foreach((json_t *)(uintptr_t)content, i, block)
    {
        char name[100];
        snprintf(name, sizeof name, "%s[%zu]", where, i);
        read_block(c, block, name);
    }
    if (!i)
        turns_add(c, "assistant", json_string(""));
}

static void read_message(struct turns *c, const json_t *message, size_t at)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const json_t *content = json_object_get(message, "content");
    char where[60];
    snprintf(where, sizeof where, "messages[%zu].content", at);
    snprintf(c->place, sizeof c->place, "messages[%zu]", at);
    bool answers = role && strcmp(role, "assistant") == 0;
    if (!role || (!answers && strcmp(role, "user") != 0 && strcmp(role, "system") != 0))
        fields_fail(c->f, "messages[%zu].role must be user, assistant or system", at);
    else if (json_is_string(content))
        turns_add(c, role, json_copy((json_t *)(uintptr_t)content));
    else if (!json_is_array(content))
        fields_fail(c->f, "%s must be a string or a list of blocks", where);
    else if (answers)
        read_answer(c, content, where);
    else if (strcmp(role, "user") == 0)
        read_user(c, content, where);
    else
        turns_add(c, role, read_texts(c->f, content, where));
}

static void read_messages(struct fields *f)
{
    struct turns c = turns_begin(f);
    const json_t *system = field(f, "system"), *list = field(f, "messages"), *message;
    size_t i;
    if (!json_is_array(list) || !json_array_size(list))
        fields_fail(f, "messages must be a list, and not empty");
    snprintf(c.place, sizeof c.place, "system");
    if (system && !json_void(system))
        turns_add(&c, "system", read_texts(f, system, "system"));
    json_array_foreach((json_t *)(uintptr_t)list, i, message) read_message(&c, message, i);
    json_object_set_new(f->body, "messages", turns_end(&c));
}

/* ---- tools */

static json_t *read_tool(struct fields *f, const json_t *tool, size_t at)
{
    const json_t *type = json_object_get(tool, "type");
    json_t *of = json_object();
    json_object_set(of, "name", json_object_get(tool, "name"));
    json_object_set(of, "description", json_object_get(tool, "description"));
    json_object_set(of, "parameters", json_object_get(tool, "input_schema"));
    if (!json_is_object(tool))
        fields_fail(f, "tools[%zu] is not an object", at);
    else if (type && !json_is_null(type) && strcmp(turns_type(tool), "custom") != 0)
        request_lacks(f, "tools[%zu].type %s", at, turns_type(tool));
    return json_pack("{s:s,s:o}", "type", "function", "function", of);
}

static void read_tools(struct fields *f)
{
    fields_name(f, "/function/parameters", "/input_schema");
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
    const char *type = turns_type(choice);
    if (!choice)
        return;
    if (!json_is_string(json_object_get(choice, "type"))) /* "none" is a choice */
        type = "";
    if (json_is_true(json_object_get(choice, "disable_parallel_tool_use")))
        json_object_set_new(f->body, "parallel_tool_calls", json_false());
    fields_name(f, "tool_choice.function.name", "tool_choice.name");
    if (strcmp(type, "tool") == 0)
        json_object_set_new(f->body, "tool_choice",
                            json_pack("{s:s,s:{s:O?}}", "type", "function", "function", "name",
                                      json_object_get(choice, "name")));
    else if (strcmp(type, "any") == 0)
        json_object_set_new(f->body, "tool_choice", json_string("required"));
    else if (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0)
        json_object_set_new(f->body, "tool_choice", json_string(type));
    else
        fields_fail(f, "tool_choice.type must be auto, any, tool or none");
}

/* ---- other members */

static void read_thinking(struct fields *f)
{
    const json_t *thinking = field(f, "thinking");
    const char *type = turns_type(thinking);
    bool on = strcmp(type, "enabled") == 0, off = strcmp(type, "disabled") == 0;
    if (!thinking)
        return;
    if (on || off)
        request_rename(f, "enable_thinking", "thinking", on ? json_true() : json_false());
    else if (strcmp(type, "adaptive") != 0)
        fields_fail(f, "thinking.type must be enabled, disabled or adaptive");
    if (on)
        request_rename(f, "thinking_budget_tokens", "thinking.budget_tokens",
                       json_object_get(thinking, "budget_tokens"));
}

static void read_form(struct fields *f, json_t *format)
{
    fields_name(f, "response_format.json_schema.schema", "output_config.format.schema");
    request_rename(f, "response_format", "output_config.format", format);
}

static void read_output(struct fields *f)
{
    const json_t *config = field(f, "output_config");
    const char *name;
    json_t *value;
    if (config && !json_is_object(config))
        fields_fail(f, "output_config must be an object");
    json_object_foreach((json_t *)(uintptr_t)config, name, value)
    {
        if (strcmp(name, "effort") == 0)
            request_rename(f, "reasoning_effort", "output_config.effort", value);
        else if (strcmp(name, "format") == 0)
            read_form(f, value);
        else if (!json_is_null(value))
            request_lacks(f, "output_config.%s", name);
    }
}

/* Agents ask to keep all thoughts. Nothing is ever cleared here, so this is the only edit taken. */
static void read_management(struct fields *f)
{
    const json_t *management = field(f, "context_management"),
                 *edits = json_object_get(management, "edits"), *edit;
    size_t i;
    if (management && !json_is_object(management))
        fields_fail(f, "context_management must be an object");
    if (edits && !json_is_array(edits))
        fields_fail(f, "context_management.edits must be a list");
    json_array_foreach((json_t *)(uintptr_t)edits, i, edit)
    {
        const char *keep = json_string_value(json_object_get(edit, "keep"));
        if (strncmp(turns_type(edit), "clear_thinking_", strlen("clear_thinking_")) != 0 ||
            !keep || strcmp(keep, "all") != 0)
            request_lacks(f, "context_management.edits[%zu]", i);
    }
}

/* Makes the request of the exchange; false after a reply with its error. */
static bool begin(struct request *r, struct exchange *x)
{
    const char *asked = exchange_header(x, "anthropic-version");
    if (!request_begin(r, x, API_MESSAGES))
        return false;
    if (asked && strcmp(asked, version) < 0)
        fields_fail(&r->f, "anthropic-version must be %s or later", version);
    read_messages(&r->f);
    read_tools(&r->f);
    read_choice(&r->f);
    request_rename(&r->f, "stop", "stop_sequences", json_object_get(r->f.body, "stop_sequences"));
    read_thinking(&r->f);
    read_output(&r->f);
    read_management(&r->f);
    params_read(&r->p, &r->f, x->served->m);
    request_tools(r, x->served);
    if (!r->f.failed)
        prompt_chat(&r->prompt, x, &r->f, r->tools, r->p.most);
    return true;
}

void anthropic_messages(struct exchange *x)
{
    struct request r;
    if (!begin(&r, x))
        return;
    anthropic_reply(x, &r, field_flag(&r.f, "stream", false));
    request_end(&r);
}

/* The tokens of the prompt of the same request. */
void anthropic_count(struct exchange *x)
{
    struct request r;
    if (!begin(&r, x))
        return;
    if (r.f.failed)
        request_fail(x, &r.f);
    else
        reply_json(x, 200,
                   json_pack("{s:I}", "input_tokens", (json_int_t)(r.prompt.n_held + r.prompt.n)));
    tft_chat_tools_close(r.tools);
    request_end(&r);
}
