/*
 * Ollama's /api/chat and /api/generate, which become requests in OpenAI's form; ollama_models.c has
 * the model. Answers are streams of JSON lines unless the request has "stream": false.
 */
#define _POSIX_C_SOURCE 200809L
#include "ollama.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "turns.h"
#include "talk.h"

static json_t *frame(const struct served *s, const char *member, json_t *value, bool done)
{
    return json_pack("{s:s, s:o, s:o, s:b}", "model", s->id, "created_at", ollama_date(time(NULL)),
                     member, value, "done", done);
}

/* Adds the members of the last line: the reason, numbers of tokens, and nanoseconds. */
static json_t *with_end(json_t *all, const struct talk *t)
{
    const struct job *j = t->job;
    json_int_t prompt = (json_int_t)(j->prompt_seconds * 1e9);
    json_int_t answer = (json_int_t)(j->seconds * 1e9);
    bool full = strcmp(j->finish, "length") == 0;
    json_t *end =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "done_reason", full ? "length" : "stop",
                  "total_duration", prompt + answer, "load_duration", (json_int_t)0,
                  "prompt_eval_count", (json_int_t)t->n_prompt, "prompt_eval_duration", prompt,
                  "eval_count", (json_int_t)j->n_tokens, "eval_duration", answer);
    reply_stop(end, j->ended_by);
    reply_dropped(end, t->n_dropped);
    json_object_update(all, end);
    json_decref(end);
    return all;
}

/* ---- chat */

static json_t *message(const char *text, size_t n)
{
    return json_pack("{s:s, s:o}", "role", "assistant", "content", json_bytes(n ? text : "", n));
}

/* The calls so far, with their arguments as objects; NULL if there are none. */
static json_t *calls_of(const struct talk *t)
{
    json_t *all = json_array(), *call;
    size_t i;
    json_array_foreach(t->calls, i, call)
    {
        const char *text = json_string_value(json_object_get(call, "arguments"));
        json_error_t e;
        json_t *arguments =
            json_text(text ? text : "", text ? strlen(text) : 0, JSON_ALLOW_NUL, &e);
        json_array_append_new(all, json_pack("{s:{s:O, s:o}}", "function", "name",
                                             json_object_get(call, "name"), "arguments",
                                             arguments ? arguments : json_object()));
    }
    if (i)
        return all;
    json_decref(all);
    return NULL;
}

static json_t *with_calls(const struct talk *t, json_t *message)
{
    json_t *calls = calls_of(t);
    if (calls)
        json_object_set_new(message, "tool_calls", calls);
    return message;
}

/* Calls are sent whole, so they wait for the end. */
static void chat_part(struct talk *t, const struct item *item)
{
    if (item->kind == ITEM_TEXT) {
        reply_line(t->x, frame(t->served, "message", message(item->p, item->n), false));
    } else if (item->kind == ITEM_THOUGHT) {
        json_t *x = message("", 0);
        json_object_set_new(x, "thinking", json_bytes(item->p, item->n));
        reply_line(t->x, frame(t->served, "message", x, false));
    }
}

static void chat_end(struct talk *t)
{
    if (t->stream) {
        if (json_array_size(t->calls))
            reply_line(t->x, frame(t->served, "message", with_calls(t, message("", 0)), false));
        reply_line(t->x, with_end(frame(t->served, "message", message("", 0), true), t));
        reply_end(t->x);
        return;
    }
    json_t *x = with_calls(t, message(t->text.p, t->text.n));
    if (t->thought.n)
        json_object_set_new(x, "thinking", json_bytes(t->thought.p, t->thought.n));
    reply_json(t->x, 200, with_end(frame(t->served, "message", x, true), t));
}

/* ---- generate */

static json_t *response(const struct talk *t, const struct cli_text *text,
                        const struct cli_text *thought, bool done)
{
    json_t *all = frame(t->served, "response", json_bytes(text->n ? text->p : "", text->n), done);
    if (thought->n)
        json_object_set_new(all, "thinking", json_bytes(thought->p, thought->n));
    return all;
}

static void generate_part(struct talk *t, const struct item *item)
{
    const struct cli_text none = {0}, text = {.p = (char *)(uintptr_t)item->p, .n = item->n};
    if (item->kind == ITEM_TEXT)
        reply_line(t->x, response(t, &text, &none, false));
    else if (item->kind == ITEM_THOUGHT)
        reply_line(t->x, response(t, &none, &text, false));
}

static void generate_end(struct talk *t)
{
    const struct cli_text none = {0};
    if (t->stream) {
        reply_line(t->x, with_end(response(t, &none, &none, true), t));
        reply_end(t->x);
    } else {
        reply_json(t->x, 200, with_end(response(t, &t->text, &t->thought, true), t));
    }
}

/* ---- bodies in OpenAI's form */

/* Copies the members of `options` that are honoured to the body. */
static void read_options(struct fields *f)
{
    json_t *options = json_object_get(f->body, "options"), *value;
    const char *name;
    if (options && !json_is_null(options) && !json_is_object(options))
        fields_fail(f, "options must be an object");
    parameters_check(f, options, API_OPTIONS);
    json_object_foreach(options, name, value)
    {
        if (!json_is_null(value) && parameters_honours(name, API_OPTIONS))
            json_object_set(f->body, name, value);
    }
}

static void read_format(struct fields *f)
{
    const json_t *format = field(f, "format");
    const char *word = json_string_value(format);
    if (word && *word && strcmp(word, "json") != 0)
        fields_fail(f, "format must be \"json\" or a schema");
    else if (word && *word)
        json_object_set_new(f->body, "response_format", json_pack("{s:s}", "type", "json_object"));
    else if (json_is_object(format))
        json_object_set(f->body, "json_schema", (json_t *)(uintptr_t)format);
    else if (format && !word)
        fields_fail(f, "format must be \"json\" or a schema");
}

/* true, false, or how much: "low", "medium", "high". */
static void read_think(struct fields *f)
{
    json_t *think = json_object_get(f->body, "think");
    const char *word = json_string_value(think);
    if (word && *word)
        json_object_set(f->body, "reasoning_effort", think);
    else if (json_is_boolean(think))
        json_object_set(f->body, "enable_thinking", think);
    else if (think && !json_is_null(think) && !word)
        fields_fail(f, "think must be true, false, or a word such as \"high\"");
}

/* Ollama's word for `truncation`. */
static void read_truncate(struct fields *f)
{
    const json_t *truncate = field(f, "truncate");
    if (truncate && !json_is_boolean(truncate))
        fields_fail(f, "truncate must be true or false");
    else if (truncate && !field(f, "truncation"))
        json_object_set_new(f->body, "truncation",
                            json_string(json_is_true(truncate) ? "auto" : "disabled"));
}

/* Calls of earlier answers; their arguments are objects or text, and they may have no id. */
static json_t *copy_calls(const json_t *calls, size_t at)
{
    json_t *all = json_array();
    const json_t *call;
    size_t i;
    json_array_foreach(calls, i, call)
    {
        json_t *id = json_object_get(call, "id");
        const json_t *made = json_object_get(call, "function");
        const json_t *arguments = json_object_get(made, "arguments");
        char *text = json_is_string(arguments)
                         ? strdup(json_string_value(arguments))
                         : turns_json(arguments);
        json_t *name = json_object_get(made, "name");
        json_array_append_new(
            all, json_pack("{s:o, s:s, s:{s:O, s:s}}", "id",
                           json_string_length(id)
                               ? json_incref(id)
                               : json_sprintf("call%03d%02d", (int)at % 1000, (int)i % 100),
                           "type", "function", "function", "name", name ? name : json_null(),
                           "arguments", text ? text : "{}"));
        free(text);
    }
    return all;
}

/* Takes the call that the result `x` answers from `calls`: the first of its tool, or the first if
   it names no tool. NULL if there is none. */
static json_t *take_answered(json_t *calls, const json_t *x)
{
    const json_t *name = json_object_get(x, "tool_name");
    json_t *call;
    size_t i;
    json_array_foreach(calls, i, call)
    {
        if (!json_string_length(name) ||
            json_equal(name, json_object_get(json_object_get(call, "function"), "name"))) {
            json_incref(call);
            json_array_remove(calls, i);
            return call;
        }
    }
    return NULL;
}

/* Gives a result the id of its call, which clients of Ollama leave out. */
static void link_result(json_t *result, json_t *calls)
{
    json_t *call = take_answered(calls, result);
    if (call && !json_string_length(json_object_get(result, "tool_call_id")))
        json_object_set(result, "tool_call_id", json_object_get(call, "id"));
    json_decref(call);
}

/* The same message in OpenAI's form. `open` has the calls that no message has answered yet. */
static json_t *copy_message(struct fields *f, json_t *x, size_t at, json_t *open)
{
    json_t *made = json_copy(x), *calls = json_object_get(x, "tool_calls");
    const char *role = json_string_value(json_object_get(x, "role"));
    json_t *name = json_object_get(x, "tool_name"), *thinking = json_object_get(x, "thinking");
    const json_t *content = json_object_get(x, "content");
    if (json_array_size(json_object_get(x, "images")))
        request_lacks(f, "images");
    if (json_array_size(calls)) {
        json_object_set_new(made, "tool_calls", copy_calls(calls, at));
        json_array_clear(open);
        json_array_extend(open, json_object_get(made, "tool_calls"));
    }
    if (json_string_length(name))
        json_object_set(made, "name", name);
    if (json_string_length(thinking))
        json_object_set(made, "reasoning_content", thinking);
    if (json_is_object(x) && (!content || json_is_null(content)))
        json_object_set_new(made, "content", json_string(""));
    if (role && strcmp(role, "tool") == 0)
        link_result(made, open);
    return made;
}

static json_t *copy_messages(struct fields *f)
{
    json_t *all = json_array(), *open = json_array(), *x;
    size_t i;
    json_array_foreach(json_object_get(f->body, "messages"), i, x)
    {
        json_array_append_new(all, copy_message(f, x, i, open));
    }
    json_decref(open);
    return all;
}

static const char *stream_type(struct fields *f)
{
    return field_flag(f, "stream", true) ? "application/x-ndjson" : NULL;
}

/* Reads the common members of chat and generate. */
static void read(struct request *r, const struct served *s)
{
    read_options(&r->f);
    read_format(&r->f);
    read_think(&r->f);
    read_truncate(&r->f);
    params_read(&r->p, &r->f, s->m);
}

/* ---- requests */

bool ollama_is_empty(const char *path, const json_t *body)
{
    bool chat = strcmp(path, "/api/chat") == 0;
    const json_t *said = json_object_get(body, chat ? "messages" : "prompt");
    return (chat || strcmp(path, "/api/generate") == 0) && (!said || json_void(said));
}

void ollama_unloaded(struct exchange *x)
{
    bool chat = strcmp(x->path, "/api/chat") == 0;
    json_t *all = chat ? frame(x->served, "message", message("", 0), true)
                       : frame(x->served, "response", json_string(""), true);
    json_object_set_new(all, "done_reason", json_string("unload"));
    reply_json(x, 200, all);
}

/* A request without a prompt only loads the model, which is there. Ends the request. */
static void reply_loaded(struct exchange *x, struct request *r, const char *member, json_t *value)
{
    json_t *all = frame(x->served, member, value, true);
    json_object_set_new(all, "done_reason", json_string("load"));
    if (r->f.failed)
        request_fail(x, &r->f);
    else
        reply_json(x, 200, json_incref(all));
    json_decref(all);
    request_end(r);
}

void ollama_chat(struct exchange *x)
{
    static const struct talk_kind chat = {.part = chat_part, .end = chat_end};
    struct request r;
    if (!request_begin(&r, x, API_OLLAMA_CHAT))
        return;
    const json_t *messages = field(&r.f, "messages");
    bool loads = !messages || (json_is_array(messages) && !json_array_size(messages));
    json_object_set_new(r.f.body, "messages", copy_messages(&r.f));
    read(&r, x->served);
    if (loads) {
        reply_loaded(x, &r, "message", message("", 0));
        return;
    }
    request_tools(&r, x->served);
    if (!r.f.failed)
        prompt_chat(&r.prompt, x, &r.f, r.tools, r.p.most);
    talk_begin(x, &r, false, stream_type(&r.f), &chat, NULL);
    request_end(&r);
}

/* The messages of a prompt that is not raw. */
static json_t *prompt_messages(const struct fields *f)
{
    static const char *const roles[] = {"system", "user"}, *const names[] = {"system", "prompt"};
    json_t *all = json_array();
    for (size_t i = 0; i < 2; i++) {
        const json_t *text = field(f, names[i]);
        if (i || json_string_length(text))
            json_array_append_new(
                all, json_pack("{s:s, s:o}", "role", roles[i], "content",
                               text ? json_copy((json_t *)(uintptr_t)text) : json_string("")));
    }
    return all;
}

void ollama_generate(struct exchange *x)
{
    static const struct talk_kind generate = {.part = generate_part, .end = generate_end};
    struct request r;
    if (!request_begin(&r, x, API_OLLAMA_TEXT))
        return;
    bool raw = field_flag(&r.f, "raw", false);
    if (raw && json_string_length(field(&r.f, "system")))
        fields_fail(&r.f, "system has no place in a raw prompt");
    read(&r, x->served);
    const char *text = field_text(&r.f, "prompt", "");
    if (!*text && !json_string_length(field(&r.f, "prompt"))) {
        reply_loaded(x, &r, "response", json_string(""));
        return;
    }
    if (!r.f.failed && raw) {
        size_t n = json_string_length(field(&r.f, "prompt"));
        prompt_text(&r.prompt, x->served, &r.f, text, n, true);
    } else if (!r.f.failed) {
        json_object_set_new(r.f.body, "messages", prompt_messages(&r.f));
        prompt_chat(&r.prompt, x, &r.f, NULL, r.p.most);
    }
    talk_begin(x, &r, raw, stream_type(&r.f), &generate, NULL);
    request_end(&r);
}
