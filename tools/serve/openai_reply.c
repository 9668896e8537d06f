#include "openai_reply.h"

#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "lost.h"
#include "naming.h"
#include "request.h"

enum { PING = 5 }; /* silent seconds, after which a stream sends a sign of life */

void call_free(struct call *c)
{
    for (struct choice *k = c->choice; k < c->choice + c->n; k++) {
        job_free(k->job);
        free(k->echo.p);
        free(k->text.p);
        free(k->thought.p);
        json_decref(k->calls);
        logprobs_free(&k->logprobs);
    }
    job_free(c->failed);
    tft_chat_tools_close(c->tools);
    free(c);
}

void call_gone(void *user)
{
    struct call *c = user;
    for (struct choice *k = c->choice; k < c->choice + c->n; k++)
        if (k->job)
            engine_cancel(c->served->engine, k->job);
}

/* ---- common to all replies */

static json_t *usage(const struct call *c)
{
    json_int_t prompt = (json_int_t)c->n_prompt, tokens = (json_int_t)c->n_tokens;
    return json_pack("{s:I,s:I,s:I,s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", tokens,
                     "total_tokens", prompt + tokens, "prompt_tokens_details", "cached_tokens",
                     (json_int_t)(c->n_cached + c->n_held));
}

static double rate(double n, double seconds) { return seconds > 0 ? n / seconds : 0; }

static json_t *timings(const struct call *c)
{
    json_int_t prompt = (json_int_t)(c->n_prompt - c->n_held - c->n_cached),
               n = (json_int_t)c->n_tokens;
    return json_pack("{s:I,s:I,s:f,s:f,s:I,s:f,s:f}", "cache_n",
                     (json_int_t)(c->n_cached + c->n_held), "prompt_n", prompt, "prompt_ms",
                     c->prompt_seconds * 1e3, "prompt_per_second",
                     rate((double)prompt, c->prompt_seconds), "predicted_n", n, "predicted_ms",
                     c->seconds * 1e3, "predicted_per_second", rate((double)n, c->seconds));
}

/* A reply, or a part of one, with its choices. */
static json_t *frame(const struct call *c, json_t *choices)
{
    char print[40];
    const char *object = !c->chat    ? "text_completion"
                         : c->stream ? "chat.completion.chunk"
                                     : "chat.completion";
    snprintf(print, sizeof print, "tuffet-%s", tft_version());
    return json_pack("{s:s,s:s,s:I,s:s,s:s,s:o}", "id", c->id, "object", object, "created",
                     (json_int_t)c->created, "model", c->served->id, "system_fingerprint", print,
                     "choices", choices);
}

/* Begins a call. */
static json_t *new_call(const char *name)
{
    char id[NAME_ROOM];
    name_call(id);
    return json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", id, "type", "function", "function", "name",
                     name, "arguments", "");
}

static struct shown *shown_of(const struct call *c, struct choice *k)
{
    return c->chat ? NULL : &k->shown;
}

/* ---- a stream */

static void send(struct call *c, json_t *part)
{
    if (!c->x->streaming)
        reply_begin(c->x, "text/event-stream");
    c->written = cli_ns();
    reply_event(c->x, part);
}

/* member, body: content of the choice; finish: or NULL. */
static void send_choice(struct call *c, struct choice *k, const char *member, json_t *body,
                        const char *finish)
{
    json_t *one = json_pack("{s:i,s:o,s:o,s:s?}", "index", (int)(k - c->choice), member, body,
                            "logprobs", logprobs_take(c->served->m, &k->logprobs, shown_of(c, k)),
                            "finish_reason", finish);
    if (finish)
        reply_stop(one, k->ended_by);
    json_t *part = frame(c, json_pack("[o]", one));
    if (c->usage)
        json_object_set_new(part, "usage", json_null());
    if (finish && !c->n_left) {
        json_object_set_new(part, "timings", timings(c));
        reply_dropped(part, c->n_dropped);
    }
    send(c, part);
}

static void begin_choice(struct call *c, struct choice *k)
{
    if (k->begun)
        return;
    k->begun = true;
    if (c->chat) {
        struct logprobs logprobs = k->logprobs; /* they belong to the next text */
        k->logprobs = (struct logprobs){0};
        send_choice(c, k, "delta", json_pack("{s:s,s:n}", "role", "assistant", "content"), NULL);
        k->logprobs = logprobs;
    } else if (k->echo.n) {
        send_choice(c, k, "text", json_bytes(k->echo.p, k->echo.n), NULL);
    }
}

static void send_call(struct call *c, struct choice *k, size_t index, json_t *call)
{
    json_object_set_new(call, "index", json_integer((json_int_t)index));
    send_choice(c, k, "delta", json_pack("{s:[o]}", "tool_calls", call), NULL);
}

static void stream(struct call *c, struct choice *k, const struct item *item)
{
    begin_choice(c, k);
    switch (item->kind) {
    case ITEM_TEXT:
        if (c->chat)
            send_choice(c, k, "delta", json_pack("{s:o}", "content", json_bytes(item->p, item->n)),
                        NULL);
        else
            send_choice(c, k, "text", json_bytes(item->p, item->n), NULL);
        break;
    case ITEM_THOUGHT:
        send_choice(c, k, "delta",
                    json_pack("{s:o}", "reasoning_content", json_bytes(item->p, item->n)), NULL);
        break;
    case ITEM_CALL: send_call(c, k, item->index, new_call(item->p)); break;
    case ITEM_ARGUMENTS:
        send_call(c, k, item->index, json_pack("{s:{s:s}}", "function", "arguments", item->p));
        break;
    default: break;
    }
}

static void end_stream(struct call *c)
{
    if (c->usage) {
        json_t *part = frame(c, json_array());
        json_object_set_new(part, "usage", usage(c));
        json_object_set_new(part, "timings", timings(c));
        reply_dropped(part, c->n_dropped);
        send(c, part);
    }
    reply_part(c->x, "data: [DONE]\n\n", 14);
    reply_end(c->x);
}

/* A part of the prompt is computed. */
static void show_progress(struct call *c, const struct choice *k, const struct item *item)
{
    const struct job *j = item->job;
    if (c->progress) {
        json_t *part = frame(c, json_array());
        json_int_t held = (json_int_t)k->n_held;
        json_object_set_new(part, "prompt_progress",
                            json_pack("{s:I,s:I,s:I}", "total", (json_int_t)k->n_prompt, "cache",
                                      (json_int_t)j->n_cached + held, "processed",
                                      (json_int_t)item->index + held));
        send(c, part);
    } else if (cli_ns() - c->written > PING * 1000000000ull) {
        if (!c->x->streaming)
            reply_begin(c->x, "text/event-stream");
        reply_part(c->x, ":\n\n", 3);
        c->written = cli_ns();
    }
}

/* ---- a whole reply */

static void keep(struct cli_text *t, const char *p, size_t n)
{
    if (!cli_text_append(t, p, n))
        lost_note();
}

static void collect(struct choice *k, const struct item *item)
{
    json_t *function;
    switch (item->kind) {
    case ITEM_TEXT: keep(&k->text, item->p, item->n); break;
    case ITEM_THOUGHT: keep(&k->thought, item->p, item->n); break;
    case ITEM_CALL:
        if (!k->calls)
            k->calls = json_array();
        json_array_append_new(k->calls, new_call(item->p));
        break;
    case ITEM_ARGUMENTS:
        function = json_object_get(json_array_get(k->calls, item->index), "function");
        json_object_set_new(function, "arguments",
                            json_sprintf("%s%s",
                                         json_string_value(json_object_get(function, "arguments")),
                                         item->p));
        break;
    default: break;
    }
}

/* Log-probabilities are large: they are written into the text of the reply, in the place of this
   member. No string in JSON contains the member's text, for its quotes would be escaped. */
static const char logprobs_mark[] = "\"logprobs\":\"\"";

static json_t *mark(const struct choice *k)
{
    return k->logprobs.kept.n ? json_string("") : json_null();
}

static json_t *text_or_message(struct call *c, struct choice *k)
{
    struct cli_text all = {0};
    int index = (int)(k - c->choice);
    keep(&all, k->echo.p, k->echo.n);
    keep(&all, k->text.p, k->text.n);
    json_t *text = json_bytes(all.p, all.n);
    free(all.p);
    if (!c->chat)
        return json_pack("{s:i,s:o,s:o,s:s}", "index", index, "text", text, "logprobs",
                         mark(k), "finish_reason", k->finish);
    if ((k->calls || c->calls_only) && !k->text.n) {
        json_decref(text);
        text = json_null();
    }
    json_t *message = json_pack("{s:s,s:o}", "role", "assistant", "content", text);
    if (k->thought.n)
        json_object_set_new(message, "reasoning_content", json_bytes(k->thought.p, k->thought.n));
    if (k->calls)
        json_object_set(message, "tool_calls", k->calls);
    return json_pack("{s:i,s:o,s:o,s:s}", "index", index, "message", message, "logprobs",
                     mark(k), "finish_reason", k->finish);
}

static json_t *whole_choice(struct call *c, struct choice *k)
{
    json_t *one = text_or_message(c, k);
    reply_stop(one, k->ended_by);
    return one;
}

/* Writes the reply with the log-probabilities; false: out of memory. */
static bool write_whole(struct cli_text *to, struct call *c, const char *text)
{
    for (struct choice *k = c->choice; k < c->choice + c->n; k++) {
        const char *at = k->logprobs.kept.n ? strstr(text, logprobs_mark) : NULL;
        if (!at)
            continue;
        at += sizeof logprobs_mark - 1;
        if (!cli_text_append(to, text, (size_t)(at - text) - 2) ||
            !logprobs_write(to, c->served->m, &k->logprobs, shown_of(c, k)))
            return false;
        text = at;
    }
    return cli_text_append(to, text, strlen(text));
}

static void send_text(struct call *c, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    struct cli_text t = {0};
    json_decref(body);
    if (text && write_whole(&t, c, text))
        reply_text(c->x, 200, "application/json; charset=utf-8", t.p, t.n);
    else
        reply_error(c->x, 500, "server_error", "out of memory");
    free(t.p);
    free(text);
}

static bool has_logprobs(const struct call *c)
{
    for (const struct choice *k = c->choice; k < c->choice + c->n; k++)
        if (k->logprobs.kept.n)
            return true;
    return false;
}

static void send_whole(struct call *c)
{
    json_t *all = json_array();
    for (struct choice *k = c->choice; k < c->choice + c->n; k++)
        json_array_append_new(all, whole_choice(c, k));
    json_t *body = frame(c, all);
    json_object_set_new(body, "usage", usage(c));
    json_object_set_new(body, "timings", timings(c));
    reply_dropped(body, c->n_dropped);
    if (has_logprobs(c))
        send_text(c, body);
    else
        reply_json(c->x, 200, body);
}

/* ---- items */

/* The call ends with an error, when its jobs have ended: their tokens count. */
static void give_up(struct call *c)
{
    c->fails = true;
    call_gone(c);
}

static void send_failure(struct call *c)
{
    if (c->failed)
        reply_failure(c->x, c->failed);
    else
        reply_error(c->x, 503, "unavailable_error",
                    "the log-probabilities of the answers under way take more than %d MiB: ask for "
                    "a stream, for fewer alternatives or for fewer tokens",
                    LOGPROBS_ALL >> 20);
}

static void count_job(struct call *c, const struct choice *k)
{
    const struct job *j = k->job;
    c->n_left--;
    c->n_tokens += j->n_tokens;
    c->n_cached += k->first ? j->n_cached : 0;
    c->x->n_prompt = c->n_prompt;
    c->x->n_answer = c->n_tokens;
    if (k->first && j->prompt_seconds > c->prompt_seconds)
        c->prompt_seconds = j->prompt_seconds;
    c->seconds = j->seconds > c->seconds ? j->seconds : c->seconds;
}

static void end_choice(struct call *c, struct choice *k)
{
    struct job *j = k->job;
    k->finish = j->finish;
    k->ended_by = j->ended_by;
    count_job(c, k);
    k->job = NULL;
    if (!c->fails && (!j->finish || strcmp(j->finish, "cancelled") == 0)) {
        c->failed = j;
        give_up(c);
    } else if (!c->fails && c->stream) {
        begin_choice(c, k);
        send_choice(c, k, c->chat ? "delta" : "text", c->chat ? json_object() : json_string(""),
                    k->finish);
    }
    if (c->failed != j)
        job_free(j);
    if (c->n_left)
        return;
    if (c->fails)
        send_failure(c);
    else if (c->stream)
        end_stream(c);
    else
        send_whole(c);
    call_free(c);
}

void call_take(void *user, const struct item *item)
{
    struct call *c = user;
    struct choice *k = c->choice;
    while (k->job != item->job)
        k++;
    lost_watch(&c->x->lost);
    if (item->kind == ITEM_END) {
        end_choice(c, k);
        return;
    }
    if (c->fails)
        return;
    if (item->kind == ITEM_TOKEN) {
        if (!logprobs_keep(&k->logprobs, item))
            give_up(c);
    } else if (item->kind == ITEM_PROMPT) {
        if (c->stream)
            show_progress(c, k, item);
    } else if (c->stream) {
        stream(c, k, item);
    } else {
        collect(k, item);
    }
}
