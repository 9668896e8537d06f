#define _POSIX_C_SOURCE 200809L
#include "request.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pooling.h"

bool request_begin(struct request *r, struct exchange *x, enum api api)
{
    *r = (struct request){.f.body = exchange_json(x), .p = params_default()};
    r->p.loras = x->served->loras;
    if (r->f.body)
        parameters_check(&r->f, r->f.body, api);
    if (!r->f.failed && pooling_is_all(x->served->m, x->served->pooling))
        fields_fail(&r->f, "the model writes no text: it makes %s",
                    x->served->pooling == TFT_POOLING_RANK ? "scores of pairs (/v1/rerank)"
                                                           : "vectors of texts (/v1/embeddings)");
    return r->f.body;
}

void request_end(struct request *r)
{
    params_free(&r->p);
    free(r->prompt.ids);
    shape_drop(r->shape);
    json_decref(r->f.body);
    json_decref(r->f.places);
}

/* ---- tools */

void request_tools(struct request *r, const struct served *s)
{
    const json_t *tools = field(&r->f, "tools"), *choice = field(&r->f, "tool_choice"),
                 *function = json_object_get(choice, "function");
    const char *word = json_string_value(choice);
    struct tft_error err;
    r->one_call = !field_flag(&r->f, "parallel_tool_calls", true);
    bool asks = json_is_object(choice) || (word && strcmp(word, "required") == 0);
    if (tools && !json_is_array(tools) && !json_void(tools))
        fields_fail(&r->f, "tools must be a list");
    else if (json_array_size(tools) && !s->tool_template)
        fields_fail(&r->f, NO_TEMPLATE);
    else if (asks && !json_array_size(tools))
        fields_fail(&r->f, "tool_choice asks for a call, but there are no tools");
    if (!json_array_size(tools) || !s->tool_template) {
        json_object_del(r->f.body, "tools");
        return;
    }
    char *text = json_dumps(tools, 0);
    if (!text || tft_chat_tools_open(&r->tools, text, strlen(text),
                                     template_calls(s->tool_template), 0, &err) != TFT_OK)
        fields_fail(&r->f, "%s", text ? err.msg : "out of memory");
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

/* ---- the form of the answer */

/* A grammar in GBNF, and the member of the request that it comes from; where NULL: none. */
struct wanted {
    const char *where, *p;
    size_t n;
    struct tft_chat_text made; /* owner of p, unless the request owns it */
};

static void read_schema(struct fields *f, struct wanted *w, const char *where, const json_t *schema)
{
    struct tft_error err;
    char *text = schema ? json_dumps(schema, JSON_ENCODE_ANY) : strdup("{\"type\":\"object\"}");
    if (!text)
        fields_fail(f, "out of memory");
    else if (tft_chat_schema(&w->made, text, strlen(text), 0, &err) != TFT_OK)
        fields_fail(f, "%s: %s", where, err.msg);
    else
        *w = (struct wanted){where, w->made.p, w->made.n, w->made};
    free(text);
}

static void read_format(struct fields *f, struct wanted *w, const json_t *format)
{
    const char *kind = json_string_value(json_object_get(format, "type"));
    const json_t *inside = json_object_get(json_object_get(format, "json_schema"), "schema");
    inside = inside ? inside : json_object_get(format, "schema");
    if (kind && strcmp(kind, "json_object") == 0)
        read_schema(f, w, fields_named(f, "response_format"), inside);
    else if (kind && strcmp(kind, "json_schema") == 0 && inside)
        read_schema(f, w, fields_named(f, "response_format.json_schema.schema"), inside);
    else if (kind && strcmp(kind, "json_schema") == 0)
        fields_fail(f, "response_format.json_schema.schema is missing");
    else if (!kind || strcmp(kind, "text") != 0)
        fields_fail(f, "response_format.type must be text, json_object or json_schema");
}

/* Whether the request may name a form by this member: fails if it has named one. */
static bool is_only(struct fields *f, const struct wanted *w, const char *name)
{
    if (w->where)
        fields_fail(f, "%s and %s both name a form of the answer: send one of them", w->where,
                    name);
    return !f->failed;
}

/* The form that the request names. */
static struct wanted read_form(struct fields *f)
{
    struct wanted w = {0};
    const json_t *format = field(f, "response_format"), *schema = field(f, "json_schema");
    const char *gbnf = field_text(f, "grammar", NULL);
    if (format)
        read_format(f, &w, format);
    if (schema && is_only(f, &w, "json_schema"))
        read_schema(f, &w, "json_schema", schema);
    if (gbnf && *gbnf && is_only(f, &w, "grammar"))
        w = (struct wanted){.where = "grammar", .p = gbnf, .n = strlen(gbnf)};
    return w;
}

/* The grammar of answers with calls; with a form, of answers that are calls or the form. */
static void read_calls(struct request *r, const struct served *s, struct wanted *w)
{
    struct tft_error err;
    struct tft_chat_text gbnf;
    enum tft_status status =
        w->where && r->choice == TFT_CHAT_AUTO
            ? tft_chat_tools_or_form(&gbnf, r->tools, s->m, r->one_call, w->p, w->n, &err)
            : tft_chat_tools_grammar(&gbnf, r->tools, s->m, r->choice, r->only, r->one_call, &err);
    if (status != TFT_OK) {
        fields_fail(&r->f, "%s", err.msg);
        return;
    }
    const char *where = w->where && r->choice == TFT_CHAT_AUTO ? w->where : "tools";
    tft_chat_text_free(&w->made);
    *w = (struct wanted){where, gbnf.p, gbnf.n, gbnf};
}

/* Makes the shape of the answers. */
static void make_shape(struct request *r, const struct served *s)
{
    struct wanted w = read_form(&r->f);
    bool form = w.where, calls = r->tools && (!form || r->choice != TFT_CHAT_NO_CALL);
    if (!r->f.failed && calls)
        read_calls(r, s, &w);
    if (!r->f.failed && w.where && !(r->shape = shape_new(w.where, w.p, w.n)))
        fields_fail(&r->f, "out of memory");
    r->or_form = form && r->choice == TFT_CHAT_AUTO;
    tft_chat_text_free(&w.made);
}

/* Gives the job its form and its tools. */
static void put_form(const struct request *r, struct job *j)
{
    j->shape = r->shape ? shape_share(r->shape) : NULL;
    j->thinks = r->prompt.thinks;
    j->thinks_on = r->prompt.goes_on && r->prompt.in_thought;
    j->tools = r->tools && r->choice != TFT_CHAT_NO_CALL ? r->tools : NULL;
    j->calls_only = r->choice == TFT_CHAT_REQUIRED;
    j->or_form = r->or_form;
}

/* ---- jobs */

/* Applies -n and --time-limit. */
static void put_bounds(struct job *j, const struct server_options *o)
{
    j->time = o->seconds < 1e9f ? (uint64_t)((double)o->seconds * 1e9) : 0; /* a life's time: any */
    j->is_limit = o->n_most >= 0 && (j->most < 0 || j->most > o->n_most);
    j->most = j->is_limit ? o->n_most : j->most;
}

/* The job of choice i; an error goes to r->f. */
static struct job *make_job(struct request *r, const struct exchange *x, bool plain, size_t i)
{
    const struct served *s = x->served;
    struct job *j = job_new(s->m);
    if (!j || !params_put(&r->p, j, i) || !prompt_put(&r->prompt, j)) {
        fields_fail(&r->f, "out of memory");
        return j;
    }
    j->plain = plain || (r->prompt.goes_on && !r->prompt.in_thought);
    j->lead = !plain && !r->prompt.goes_on && template_lead(r->prompt.template, " ", 1);
    j->client = x->client;
    thinking_begin(&j->form.thinking, s->m, r->p.think_budget, r->prompt.in_thought);
    put_form(r, j);
    put_bounds(j, &x->server->o);
    return j;
}

void request_rename(struct fields *f, const char *to, const char *from, json_t *value)
{
    if (!value || json_is_null(value))
        return;
    if (field(f, to))
        fields_fail(f, "%s and %s say the same: send one of them", from, to);
    fields_name(f, to, from);
    json_object_set(f->body, to, value);
}

void request_lacks(struct fields *f, const char *fmt, ...)
{
    char name[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    f->unsupported |= !f->failed;
    fields_fail(f, "%s is not supported", name);
}

void request_fail(struct exchange *x, const struct fields *f)
{
    bool ours = fields_lack_memory(f->error);
    reply_error(x,
                f->unsupported ? 501
                : ours         ? 500
                               : 400,
                f->unsupported ? "not_supported_error"
                : ours         ? "server_error"
                               : "invalid_request_error",
                "%s", f->error);
}

void reply_stop(json_t *reply, const char *ended_by)
{
    if (ended_by)
        json_object_set_new(reply, "tuffet_stop", json_string(ended_by));
}

void reply_dropped(json_t *reply, size_t n)
{
    if (n)
        json_object_set_new(reply, "tuffet_dropped", json_integer((json_int_t)n));
}

void reply_failure(struct exchange *x, const struct job *j)
{
    if (j->finish)
        reply_error(x, 503, "unavailable_error", "the answer was cancelled");
    else if (j->refused)
        reply_error(x, 400, "invalid_request_error", "%s", j->error);
    else
        reply_error(x, 500, "server_error", "%s", j->error);
}

void request_too_many(struct exchange *x)
{
    reply_header(x, "Retry-After", "1");
    reply_error(x, 429, "rate_limit_error", "too many requests wait: try again later");
}

/* Agents look for Anthropic's words, and then shorten the conversation. */
void request_too_long(struct exchange *x, size_t n, size_t room)
{
    char text[100];
    snprintf(text, sizeof text,
             x->dialect == DIALECT_ANTHROPIC
                 ? "prompt is too long: %zu tokens > %zu maximum"
                 : "the prompt has %zu tokens, but the context holds only %zu",
             n, room);
    json_t *body =
        dialect_error(x->dialect, false, 400, "exceed_context_size_error", json_string(text));
    json_t *error = json_object_get(body, "error");
    if (json_is_object(error)) {
        json_object_set_new(error, "n_prompt_tokens", json_integer((json_int_t)n));
        json_object_set_new(error, "n_ctx", json_integer((json_int_t)room));
    }
    reply_json(x, 400, body);
}

bool request_jobs(struct request *r, struct exchange *x, bool plain, struct job **jobs, size_t n)
{
    size_t room = engine_capacity(x->served->engine), made = 0;
    if (!r->f.failed && !r->prompt.n && !r->prompt.n_held)
        fields_fail(&r->f, "the prompt is empty");
    if (!r->f.failed && r->prompt.n > room) {
        request_too_long(x, r->prompt.n, room);
        return false;
    }
    if (!r->f.failed && !r->shape)
        make_shape(r, x->served);
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
    if (engine_put(x->served->engine, jobs, n))
        return true;
    request_too_many(x);
    return false;
}
