#define _POSIX_C_SOURCE 200809L
#include "openai.h"

#include <event2/http.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "openai_reply.h"
#include "request.h"

static json_t *describe(const struct server *s)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(s->m, &info);
    json_t *meta =
        json_pack("{s:I,s:I,s:I,s:I,s:I}", "n_vocab", (json_int_t)info.n_vocab, "n_ctx_train",
                  (json_int_t)info.n_ctx, "n_ctx", (json_int_t)engine_capacity(s->engine), "n_embd",
                  (json_int_t)info.n_embd, "n_params", (json_int_t)info.n_params);
    return json_pack("{s:s,s:s,s:I,s:s,s:o}", "id", s->id, "object", "model", "created",
                     (json_int_t)s->started, "owned_by", "tuffet", "meta", meta);
}

void openai_models(struct exchange *x)
{
    reply_json(x, 200, json_pack("{s:s,s:[o]}", "object", "list", "data", describe(x->server)));
}

void openai_model(struct exchange *x)
{
    char *name = evhttp_uridecode(x->path + strlen("/v1/models/"), 0, NULL);
    if (!name)
        reply_error(x, 500, "server_error", "out of memory");
    else if (strcmp(name, x->server->id) == 0)
        reply_json(x, 200, describe(x->server));
    else
        reply_error(x, 404, "not_found_error", "there is no such model: the one here is %s",
                    x->server->id);
    free(name);
}

/* ---- from a request to jobs */

/* Makes the jobs of the call and gives them to the engine, or replies with the error. */
static void start(struct call *c, struct request *r, size_t n)
{
    struct exchange *x = c->x;
    struct job *jobs[CALL_CHOICES];
    if (!request_jobs(r, x, !c->chat, jobs, n)) {
        call_free(c);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        jobs[i]->progress = c->stream;
        jobs[i]->take = call_take;
        jobs[i]->user = c;
        c->choice[i].job = jobs[i];
    }
    c->n = c->n_left = n;
    c->n_prompt = r->prompt.n + r->prompt.n_held;
    c->n_held = r->prompt.n_held;
    x->gone = call_gone;
    x->user = c;
    if (!request_start(x, jobs, n))
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

void openai_chat(struct exchange *x)
{
    struct request r;
    if (!request_begin(&r, x, API_CHAT))
        return;
    params_read(&r.p, &r.f, x->server->m);
    size_t n = (size_t)field_integer(&r.f, "n", 1, CALL_CHOICES, 1);
    bool logprobs = field_flag(&r.f, "logprobs", false);
    int top = (int)field_integer(&r.f, "top_logprobs", 0, JOB_LOGPROBS, 0);
    r.p.logprobs = logprobs ? top : -1;
    struct call *c = new_call(x, true, &r);
    if (c) {
        request_tools(&r, x->server);
        c->tools = r.tools;
        if (!r.f.failed)
            prompt_chat(&r.prompt, x, &r.f, r.tools);
        start(c, &r, n);
    }
    request_end(&r);
}

/* Returns the prompt: a string, or a list of tokens; NULL: no prompt. */
static const json_t *read_prompt(struct request *r, const struct server *s)
{
    const json_t *prompt = field(&r->f, "prompt"), *first = json_array_get(prompt, 0);
    if (json_array_size(prompt) == 1 && !json_is_number(first))
        prompt = first;
    if (!prompt || json_is_string(prompt))
        prompt_text(&r->prompt, s, &r->f, prompt ? json_string_value(prompt) : "",
                    json_string_length(prompt), true);
    else if (json_is_number(json_array_get(prompt, 0)))
        prompt_tokens(&r->prompt, s, &r->f, prompt);
    else
        fields_fail(&r->f, "prompt must be a string, or a list of tokens");
    return prompt;
}

void openai_completions(struct exchange *x)
{
    struct request r;
    if (!request_begin(&r, x, API_TEXT))
        return;
    r.p.most = 16; /* as OpenAI's */
    params_read(&r.p, &r.f, x->server->m);
    size_t n = (size_t)field_integer(&r.f, "n", 1, CALL_CHOICES, 1);
    r.p.logprobs = (int)field_integer(&r.f, "logprobs", 0, JOB_LOGPROBS, -1);
    bool echo = field_flag(&r.f, "echo", false);
    struct call *c = new_call(x, false, &r);
    if (c) {
        const json_t *text = r.f.failed ? NULL : read_prompt(&r, x->server);
        c->echo = echo && json_is_string(text) ? strdup(json_string_value(text)) : NULL;
        start(c, &r, n);
    }
    request_end(&r);
}
