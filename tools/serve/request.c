#include "request.h"

#include <stdlib.h>
#include <string.h>

bool request_begin(struct request *r, struct exchange *x)
{
    *r = (struct request){.f.body = exchange_json(x), .p = params_default()};
    return r->f.body;
}

void request_end(struct request *r)
{
    params_free(&r->p);
    free(r->prompt.ids);
    json_decref(r->f.body);
}

/* ---- tools */

void request_tools(struct request *r, const struct server *s)
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

/* ---- jobs */

/* The job of choice i; an error goes to r->f. */
static struct job *make_job(struct request *r, const struct exchange *x, bool plain, size_t i)
{
    struct server *s = x->server;
    struct job *j = job_new(s->m);
    if (!j || !params_put(&r->p, j, i) || !prompt_put(&r->prompt, j)) {
        fields_fail(&r->f, "out of memory");
        return j;
    }
    j->plain = plain;
    j->lead = !plain && !r->prompt.goes_on && template_lead(s->template, " ", 1);
    j->client = x->client;
    put_form(r, s, j);
    if (r->tools && !r->f.failed && !j->form.grammar)
        put_tools(r, s, j);
    j->tools = r->tools;
    return j;
}

void request_fail(struct exchange *x, const struct fields *f)
{
    reply_error(x, f->unsupported ? 501 : 400,
                f->unsupported ? "not_supported_error" : "invalid_request_error", "%s", f->error);
}

void request_too_many(struct exchange *x)
{
    reply_header(x, "Retry-After", "1");
    reply_error(x, 429, "rate_limit_error", "too many requests wait: try again later");
}

void request_too_long(struct exchange *x, size_t n, size_t room)
{
    char text[100];
    snprintf(text, sizeof text, "the prompt has %zu tokens, but the context holds only %zu", n,
             room);
    reply_json(x, 400,
               x->dialect == DIALECT_OLLAMA
                   ? json_pack("{s:s}", "error", text)
                   : json_pack("{s:{s:i,s:s,s:s,s:I,s:I}}", "error", "code", 400, "message", text,
                               "type", "exceed_context_size_error", "n_prompt_tokens",
                               (json_int_t)n, "n_ctx", (json_int_t)room));
}

bool request_jobs(struct request *r, struct exchange *x, bool plain, struct job **jobs, size_t n)
{
    size_t room = engine_capacity(x->server->engine), made = 0;
    if (!r->f.failed && !r->prompt.n && !r->prompt.n_held)
        fields_fail(&r->f, "the prompt is empty");
    if (!r->f.failed && r->prompt.n > room) {
        request_too_long(x, r->prompt.n, room);
        return false;
    }
    while (made < n && !r->f.failed) {
        jobs[made] = make_job(r, x, plain, made);
        made++;
    }
    if (!r->f.failed)
        return true;
    while (made)
        job_free(jobs[--made]);
    request_fail(x, &r->f);
    return false;
}

bool request_start(struct exchange *x, struct job **jobs, size_t n)
{
    if (engine_put(x->server->engine, jobs, n))
        return true;
    request_too_many(x);
    return false;
}
