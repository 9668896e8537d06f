#define _POSIX_C_SOURCE 200809L
#include "openai.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "openai_reply.h"
#include "prompt.h"

enum { MOST_TOKENS = 1 << 30 };

void openai_models(struct exchange *x)
{
    const struct server *s = x->server;
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(s->m, &info);
    json_t *meta =
        json_pack("{s:I,s:I,s:I,s:I,s:I}", "n_vocab", (json_int_t)info.n_vocab, "n_ctx_train",
                  (json_int_t)info.n_ctx, "n_ctx", (json_int_t)engine_capacity(s->engine), "n_embd",
                  (json_int_t)info.n_embd, "n_params", (json_int_t)info.n_params);
    reply_json(x, 200,
               json_pack("{s:s,s:[{s:s,s:s,s:I,s:s,s:o}]}", "object", "list", "data", "id", s->id,
                         "object", "model", "created", (json_int_t)s->started, "owned_by", "tuffet",
                         "meta", meta));
}

/* What a request asks for beside the prompt. */
struct request {
    struct fields f;
    struct params p;
    struct prompt prompt;
    struct tft_chat_tools *tools;
    enum tft_chat_choice choice;
    const char *only; /* the tool that must be called; NULL: any */
    bool one_call;
};

/* ---- tools */

static void read_tools(struct request *r, const struct server *s)
{
    const json_t *tools = field(&r->f, "tools"), *choice = field(&r->f, "tool_choice"),
                 *function = json_object_get(choice, "function");
    const char *word = json_string_value(choice);
    struct tft_error err;
    r->one_call = !field_flag(&r->f, "parallel_tool_calls", true);
    if (!json_array_size(tools) || !s->template) {
        json_object_del(r->f.body, "tools");
        return;
    }
    char *text = json_dumps(tools, 0);
    if (!text || tft_chat_tools_open(&r->tools, text, strlen(text), template_calls(s->template), 0,
                                     &err) != TFT_OK)
        fields_fail(&r->f, "tools: %s", text ? err.msg : "out of memory");
    free(text);
    if (word && strcmp(word, "none") == 0)
        r->choice = TFT_CHAT_NO_CALL;
    else if (word && strcmp(word, "required") == 0)
        r->choice = TFT_CHAT_REQUIRED;
    else if (json_is_object(choice)) {
        r->choice = TFT_CHAT_REQUIRED;
        r->only = json_string_value(json_object_get(function, "name"));
        if (!r->only)
            fields_fail(&r->f, "tool_choice.function.name must be the name of a tool");
    } else if (choice && !(word && strcmp(word, "auto") == 0)) {
        fields_fail(&r->f, "tool_choice must be none, auto, required or a function");
    }
}

static void put_tools(struct request *r, struct server *s, struct job *j)
{
    struct tft_chat_text gbnf;
    struct tft_error err;
    if (tft_chat_tools_grammar(&gbnf, r->tools, s->m, r->choice, r->only, r->one_call, &err) !=
        TFT_OK) {
        fields_fail(&r->f, "tools: %s", err.msg);
    } else {
        params_form(s, j, &r->f, "tools", gbnf.p, gbnf.n, r->prompt.thinks);
        tft_chat_text_free(&gbnf);
    }
}

/* ---- the form of the answer */

static void put_form(struct request *r, struct server *s, struct job *j)
{
    struct fields *f = &r->f;
    const json_t *format = field(f, "response_format"), *schema = field(f, "json_schema"),
                 *type = json_object_get(format, "type");
    const char *kind = json_string_value(type), *gbnf = field_text(f, "grammar", NULL);
    bool thinks = r->prompt.thinks;
    if (format && !kind)
        fields_fail(f, "response_format.type must be text, json_object or json_schema");
    else if (kind && strcmp(kind, "json_object") == 0)
        params_schema(s, j, f, "response_format", json_object_get(format, "schema"), thinks);
    else if (kind && strcmp(kind, "json_schema") == 0) {
        const json_t *inside = json_object_get(json_object_get(format, "json_schema"), "schema");
        inside = inside ? inside : json_object_get(format, "schema");
        if (inside)
            params_schema(s, j, f, "response_format.json_schema.schema", inside, thinks);
        else
            fields_fail(f, "response_format.json_schema.schema is missing");
    } else if (kind && strcmp(kind, "text") != 0)
        fields_fail(f, "response_format.type must be text, json_object or json_schema");
    else if (schema)
        params_schema(s, j, f, "json_schema", schema, thinks);
    else if (gbnf && *gbnf)
        params_form(s, j, f, "grammar", gbnf, strlen(gbnf), thinks);
    if (r->tools && r->choice != TFT_CHAT_NO_CALL && j->form.grammar)
        fields_fail(f, "tools and a form of the answer cannot be asked for together");
}

/* ---- from a request to jobs */

static bool make_job(struct call *c, struct request *r, size_t i)
{
    struct server *s = c->server;
    struct job *j = c->choice[i].job = job_new(s->m);
    c->n = i + 1;
    if (!j || !params_put(&r->p, j, i) || !prompt_put(&r->prompt, j)) {
        fields_fail(&r->f, "out of memory");
        return false;
    }
    j->plain = !c->chat;
    j->lead = c->chat && template_lead(s->template, " ", 1);
    j->progress = c->stream;
    j->client = c->x->client;
    j->take = call_take;
    j->user = c;
    put_form(r, s, j);
    if (r->tools && !r->f.failed && !j->form.grammar)
        put_tools(r, s, j);
    j->tools = r->tools;
    return !r->f.failed;
}

static void fail(struct exchange *x, const struct request *r)
{
    reply_error(x, r->f.unsupported ? 501 : 400,
                r->f.unsupported ? "not_supported_error" : "invalid_request_error", "%s",
                r->f.error);
}

static void fail_size(struct exchange *x, size_t n, size_t room)
{
    json_t *body = json_pack("{s:{s:i,s:o,s:s,s:I,s:I}}", "error", "code", 400, "message",
                             json_sprintf("the prompt has %zu tokens, but the context holds only "
                                          "%zu",
                                          n, room),
                             "type", "exceed_context_size_error", "n_prompt_tokens", (json_int_t)n,
                             "n_ctx", (json_int_t)room);
    reply_json(x, 400, body);
}

static void fail_busy(struct exchange *x)
{
    reply_header(x, "Retry-After", "1");
    reply_error(x, 429, "rate_limit_error", "too many requests wait: try again later");
}

/* Makes the jobs of the call and gives them to the engine, or replies with the error. */
static void start(struct call *c, struct request *r, size_t n)
{
    struct exchange *x = c->x;
    struct job *jobs[CALL_CHOICES];
    size_t room = engine_capacity(c->server->engine);
    if (!r->f.failed && !r->prompt.n && !r->prompt.n_held)
        fields_fail(&r->f, "the prompt is empty");
    if (!r->f.failed && r->prompt.n > room) {
        fail_size(x, r->prompt.n, room);
        call_free(c);
        return;
    }
    for (size_t i = 0; i < n && !r->f.failed; i++)
        if (make_job(c, r, i))
            jobs[i] = c->choice[i].job;
    c->n_left = n;
    c->n_prompt = r->prompt.n + r->prompt.n_held;
    c->n_held = r->prompt.n_held;
    x->gone = call_gone;
    x->user = c;
    if (!r->f.failed && engine_put(c->server->engine, jobs, n))
        return;
    if (r->f.failed)
        fail(x, r);
    else
        fail_busy(x);
    call_free(c);
}

static struct call *new_call(struct exchange *x, bool chat, struct request *r)
{
    struct call *c = calloc(1, sizeof *c);
    if (!c) {
        reply_error(x, 500, "server_error", "out of memory");
        return NULL;
    }
    c->x = x;
    c->server = x->server;
    c->chat = chat;
    c->created = (int64_t)time(NULL);
    c->written = cli_ns();
    c->stream = field_flag(&r->f, "stream", false);
    c->progress = field_flag(&r->f, "return_progress", false);
    c->usage = json_is_true(json_object_get(field(&r->f, "stream_options"), "include_usage"));
    call_name(c->id, sizeof c->id, chat ? "chatcmpl-" : "cmpl-", 16);
    return c;
}

/* -1: no bound but the context, for which 0 stands from here on. */
static size_t read_most(struct fields *f, const char *name, size_t otherwise)
{
    int64_t n = field_integer(f, name, -1, MOST_TOKENS, -2);
    if (!n)
        fields_fail(f, "%s must be at least 1", name);
    return n == -2 ? otherwise : n > 0 ? (size_t)n : 0;
}

static void finish(struct request *r)
{
    free(r->prompt.ids);
    json_decref(r->f.body);
}

void openai_chat(struct exchange *x)
{
    struct request r = {.f.body = exchange_json(x), .p = params_default(x->server)};
    if (!r.f.body)
        return;
    params_read(&r.p, &r.f);
    r.p.most = read_most(&r.f, "max_completion_tokens", read_most(&r.f, "max_tokens", 0));
    size_t n = (size_t)field_integer(&r.f, "n", 1, CALL_CHOICES, 1);
    bool logprobs = field_flag(&r.f, "logprobs", false);
    int top = (int)field_integer(&r.f, "top_logprobs", 0, JOB_LOGPROBS, 0);
    r.p.logprobs = logprobs ? top : -1;
    struct call *c = new_call(x, true, &r);
    if (c) {
        read_tools(&r, x->server);
        c->tools = r.tools;
        if (!r.f.failed)
            prompt_chat(&r.prompt, x->server, &r.f, r.tools);
        start(c, &r, n);
    }
    finish(&r);
}

static void read_prompt(struct request *r, const struct server *s)
{
    const json_t *prompt = field(&r->f, "prompt"), *first = json_array_get(prompt, 0);
    if (json_array_size(prompt) == 1 && !json_is_integer(first))
        prompt = first;
    if (!prompt || json_is_string(prompt))
        prompt_text(&r->prompt, s, &r->f, prompt ? json_string_value(prompt) : "",
                    json_string_length(prompt), false);
    else if (json_is_array(prompt) && json_is_integer(json_array_get(prompt, 0)))
        prompt_tokens(&r->prompt, s, &r->f, prompt);
    else
        fields_fail(&r->f, "prompt must be a string, or a list of tokens");
}

void openai_completions(struct exchange *x)
{
    struct request r = {.f.body = exchange_json(x), .p = params_default(x->server)};
    if (!r.f.body)
        return;
    params_read(&r.p, &r.f);
    r.p.most = read_most(&r.f, "max_tokens", 16);
    size_t n = (size_t)field_integer(&r.f, "n", 1, CALL_CHOICES, 1);
    r.p.logprobs = (int)field_integer(&r.f, "logprobs", 0, JOB_LOGPROBS, -1);
    bool echo = field_flag(&r.f, "echo", false);
    struct call *c = new_call(x, false, &r);
    if (c) {
        if (!r.f.failed)
            read_prompt(&r, x->server);
        const json_t *text = echo ? field(&r.f, "prompt") : NULL;
        c->echo = json_is_string(text) ? strdup(json_string_value(text)) : NULL;
        start(c, &r, n);
    }
    finish(&r);
}
