#define _POSIX_C_SOURCE 200809L
#include "openai.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gap.h"
#include "openai_reply.h"
#include "request.h"

enum {
    MOST_ANSWERS = 8, /* to a prompt */
    MOST_ECHOED =
        1 << 16, /* tokens with a log-probability of all prompts: a token takes 700 bytes */
};

/* ---- from a request to jobs */

/* Makes n choices for the request's prompt; false after a reply with the error of the request. */
static bool add_choices(struct call *c, struct request *r, size_t n)
{
    const struct prompt *p = &r->prompt;
    struct job *jobs[MOST_ANSWERS];
    if (!request_jobs(r, c->x, !c->chat, jobs, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        jobs[i]->progress = c->stream;
        jobs[i]->take = call_take;
        jobs[i]->user = c;
        c->choice[c->n++] = (struct choice){.job = jobs[i],
                                            .shown.state.started = p->text_goes_on,
                                            .n_prompt = p->n + p->n_held,
                                            .n_held = p->n_held,
                                            .first = !i};
    }
    c->n_prompt += p->n + p->n_held;
    c->n_held += p->n_held;
    c->n_dropped = p->n_dropped;
    return true;
}

/* Gives the jobs of the call to the engine, or replies that too many wait. */
static void start(struct call *c)
{
    struct exchange *x = c->x;
    struct job *jobs[CALL_CHOICES];
    for (size_t i = 0; i < c->n; i++)
        jobs[i] = c->choice[i].job;
    c->n_left = c->n;
    x->gone = call_gone;
    x->user = c;
    if (!request_start(x, jobs, c->n))
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
    c->served = x->served;
    c->chat = chat;
    c->created = (int64_t)time(NULL);
    c->written = cli_ns();
    c->stream = field_flag(&r->f, "stream", false);
    c->progress = field_flag(&r->f, "return_progress", false);
    c->usage = json_is_true(json_object_get(field(&r->f, "stream_options"), "include_usage"));
    name_make(c->id, chat ? "chatcmpl-" : "cmpl-", 16);
    return c;
}

void openai_chat(struct exchange *x)
{
    struct request r;
    if (!request_begin(&r, x, API_CHAT))
        return;
    params_read(&r.p, &r.f, x->served->m);
    size_t n = (size_t)field_integer(&r.f, "n", 1, MOST_ANSWERS, 1);
    bool logprobs = field_flag(&r.f, "logprobs", false);
    int top = (int)field_integer(&r.f, "top_logprobs", 0, JOB_LOGPROBS, 0);
    r.p.logprobs = logprobs ? top : -1;
    if (top && !logprobs)
        fields_fail(&r.f, "top_logprobs needs logprobs to be true");
    struct call *c = new_call(x, true, &r);
    if (c) {
        request_tools(&r, x->served);
        c->tools = r.tools;
        c->calls_only = r.choice == TFT_CHAT_REQUIRED;
        if (!r.f.failed)
            prompt_chat(&r.prompt, x, &r.f, r.tools, r.p.most);
        if (add_choices(c, &r, n))
            start(c);
        else
            call_free(c);
    }
    request_end(&r);
}

/* ---- completions */

/* A text before a gap, and `suffix` after it. */
static void read_gap(struct request *r, const struct served *s, const json_t *prompt)
{
    const json_t *suffix = field(&r->f, "suffix");
    const struct cli_text before = {.p = (char *)(uintptr_t)json_string_value(prompt),
                                    .n = json_string_length(prompt)},
                          after = {.p = (char *)(uintptr_t)json_string_value(suffix),
                                   .n = json_string_length(suffix)};
    if (!json_is_string(suffix))
        fields_fail(&r->f, "suffix must be a string");
    else if (prompt && !json_is_string(prompt))
        fields_fail(&r->f, "prompt must be a string beside suffix");
    else
        prompt_gap(&r->prompt, s, &r->f, &before, &after);
}

/* A string, or a list of tokens; NULL: the empty text. */
static void read_prompt(struct request *r, const struct served *s, const json_t *prompt)
{
    free(r->prompt.ids);
    r->prompt = (struct prompt){0};
    if (field(&r->f, "suffix") && !json_void(field(&r->f, "suffix")))
        read_gap(r, s, prompt);
    else if (!prompt || json_is_string(prompt))
        prompt_text(&r->prompt, s, &r->f, prompt ? json_string_value(prompt) : "",
                    json_string_length(prompt), true);
    else if (json_is_number(json_array_get(prompt, 0)))
        prompt_tokens(&r->prompt, s, &r->f, prompt);
    else
        fields_fail(&r->f, "prompt must be a string, a list of tokens, or a list of these");
}

/* The text of tokens ids[n]. */
static bool write_text(struct cli_text *t, const struct tft_model *m, const int32_t *ids, size_t n)
{
    struct tft_text state = {0};
    char piece[TFT_TEXT_MAX];
    bool good = true;
    for (size_t i = 0; i <= n && good; i++)
        good = cli_text_append(t, piece, tft_text_push(&state, m, i < n ? ids[i] : -1, piece));
    return good;
}

/* Whether the token is the BOS that tuffet puts before a text that does not name it. */
static bool is_added(const struct tft_model *m, int32_t id, const char *text)
{
    size_t n;
    const char *name = tft_token_text(m, id, true, &n);
    return id == tft_token_bos(m) && strncmp(text, name, n) != 0;
}

/* Puts the prompt before the answer of the choice, and its tokens before the answer's. */
static bool echo_prompt(struct choice *k, const struct request *r, const struct tft_model *m,
                        const json_t *prompt)
{
    const struct prompt *p = &r->prompt;
    const char *text = prompt ? json_string_value(prompt) : "";
    if (!(text ? cli_text_append(&k->echo, text, json_string_length(prompt))
               : write_text(&k->echo, m, p->ids, p->n_held + p->n)))
        return false;
    if (r->p.logprobs < 0)
        return true;
    k->job->of_prompt = true;
    k->shown = (struct shown){.echo = k->echo.p, .n_echo = k->echo.n};
    bool good = true;
    for (size_t i = 0; i <= p->n_held && i < p->n_held + p->n && good; i++)
        if (i || !text || !is_added(m, p->ids[i], text))
            good = logprobs_keep_unknown(&k->logprobs, p->ids[i]);
    return good;
}

/* Counts the log-probabilities of a prompt in n choices; fails if there are too many. */
static void count_echoed(size_t *sum, struct request *r, size_t n)
{
    *sum += n * (r->prompt.n_held + r->prompt.n) * (1 + (size_t)r->p.logprobs);
    if (*sum > MOST_ECHOED)
        fields_fail(&r->f, "echo and logprobs ask for more than %d log-probabilities of prompts",
                    MOST_ECHOED);
}

/* Makes n choices for each prompt; false after a reply. */
static bool add_prompts(struct call *c, struct request *r, size_t n, bool echo)
{
    const struct served *s = c->served;
    const json_t *prompt = field(&r->f, "prompt"), *first = json_array_get(prompt, 0);
    bool several = first && !json_is_number(first);
    size_t n_prompts = several ? json_array_size(prompt) : 1, echoed = 0;
    if (n_prompts * n > CALL_CHOICES)
        fields_fail(&r->f, "prompt and n ask for more than %d answers", CALL_CHOICES);
    for (size_t i = 0; i < n_prompts; i++) {
        const json_t *one = several ? json_array_get(prompt, i) : prompt;
        if (!r->f.failed)
            read_prompt(r, s, one);
        if (!r->f.failed && echo && r->p.logprobs >= 0)
            count_echoed(&echoed, r, n);
        if (!add_choices(c, r, n))
            return false;
        for (struct choice *k = c->choice + c->n - n; echo && k < c->choice + c->n; k++)
            if (!echo_prompt(k, r, s->m, one)) {
                reply_error(c->x, 500, "server_error", "out of memory");
                return false;
            }
    }
    return true;
}

void openai_completions(struct exchange *x)
{
    struct request r;
    if (!request_begin(&r, x, API_TEXT))
        return;
    r.p.most = 16; /* as OpenAI's */
    params_read(&r.p, &r.f, x->served->m);
    size_t n = (size_t)field_integer(&r.f, "n", 1, MOST_ANSWERS, 1);
    r.p.logprobs = (int)field_integer(&r.f, "logprobs", 0, JOB_LOGPROBS, -1);
    bool echo = field_flag(&r.f, "echo", false);
    if (echo && json_string_length(field(&r.f, "suffix")))
        fields_fail(&r.f, "echo and suffix cannot come together");
    struct call *c = new_call(x, false, &r);
    if (c && add_prompts(c, &r, n, echo))
        start(c);
    else if (c)
        call_free(c);
    request_end(&r);
}
