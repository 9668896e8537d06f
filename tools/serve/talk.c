#include "talk.h"

#include <stdlib.h>
#include <string.h>

#include "lost.h"

static void free_talk(struct talk *t)
{
    job_free(t->job);
    tft_chat_tools_close(t->tools);
    if (t->kind->drop)
        t->kind->drop(t->own);
    free(t->text.p);
    free(t->thought.p);
    json_decref(t->calls);
    json_decref(t->tokens);
    free(t);
}

static void gone(void *user)
{
    struct talk *t = user;
    engine_cancel(t->served->engine, t->job);
}

static void keep_text(struct cli_text *text, const struct item *item)
{
    if (!cli_text_append(text, item->p, item->n))
        lost_note();
}

static void keep(struct talk *t, const struct item *item)
{
    json_t *call;
    switch (item->kind) {
    case ITEM_TEXT: keep_text(&t->text, item); break;
    case ITEM_THOUGHT: keep_text(&t->thought, item); break;
    case ITEM_CALL:
        json_array_append_new(t->calls, json_pack("{s:s,s:s}", "name", item->p, "arguments", ""));
        break;
    case ITEM_ARGUMENTS:
        call = json_array_get(t->calls, item->index);
        json_object_set_new(
            call, "arguments",
            json_sprintf("%s%s", json_string_value(json_object_get(call, "arguments")), item->p));
        break;
    case ITEM_TOKEN: {
        struct tft_choice chosen;
        memcpy(&chosen, item->p, sizeof chosen);
        json_array_append_new(t->tokens, json_integer(chosen.id));
        break;
    }
    default: break;
    }
}

static void begin_stream(struct talk *t)
{
    if (t->stream && !t->x->streaming)
        reply_begin(t->x, t->stream);
}

static void end(struct talk *t)
{
    const struct job *j = t->job;
    bool failed = !j->finish || strcmp(j->finish, "cancelled") == 0;
    t->x->n_prompt = t->n_prompt;
    t->x->n_answer = j->n_tokens;
    if (failed && t->x->streaming && t->kind->fail) {
        t->kind->fail(t);
    } else if (failed) {
        reply_failure(t->x, j);
    } else {
        begin_stream(t);
        t->kind->end(t);
    }
    free_talk(t);
}

static void take(void *user, const struct item *item)
{
    struct talk *t = user;
    lost_watch(&t->x->lost);
    if (item->kind == ITEM_END) {
        end(t);
        return;
    }
    if (!t->kind->keeps)
        keep(t, item);
    begin_stream(t);
    if (t->stream || t->kind->keeps)
        t->kind->part(t, item);
}

void talk_begin(struct exchange *x, struct request *r, bool plain, const char *stream,
                const struct talk_kind *kind, void *own)
{
    struct talk *t = calloc(1, sizeof *t);
    if (!t) {
        tft_chat_tools_close(r->tools);
        if (kind->drop)
            kind->drop(own);
        reply_error(x, 500, "server_error", "out of memory");
        return;
    }
    *t = (struct talk){.x = x,
                       .server = x->server,
                       .served = x->served,
                       .kind = kind,
                       .own = own,
                       .tools = r->tools,
                       .stream = stream,
                       .calls = json_array(),
                       .tokens = json_array()};
    t->n_held = r->prompt.n_held;
    t->n_prompt = r->prompt.n + t->n_held;
    if (!request_jobs(r, x, plain, &t->job, 1)) {
        t->job = NULL;
        free_talk(t);
        return;
    }
    t->job->progress = stream && kind->keeps;
    t->job->take = take;
    t->job->user = t;
    x->gone = gone;
    x->user = t;
    if (!request_start(x, &t->job, 1))
        free_talk(t);
}
