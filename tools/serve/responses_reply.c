#define _POSIX_C_SOURCE 200809L
#include "responses_reply.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "turns.h"
#include "lost.h"
#include "pieces.h"
#include "talk.h"

enum { PING = 5 }; /* silent seconds, after which a stream sends a sign of life */

struct response {
    char id[NAME_ROOM];
    int64_t created;
    struct asked asked;
    bool goes_on; /* the answer goes on with the last message of the history */
    struct pieces pieces;
    bool begun;
    json_int_t n_events;
    uint64_t written; /* time of the last event, ns */
};

static void drop(void *own)
{
    struct response *r = own;
    json_decref(r->asked.echo);
    json_decref(r->asked.history);
    pieces_free(&r->pieces);
    free(r);
}

static json_t *text_of(const struct piece *p, bool whole)
{
    return whole ? json_bytes(p->text.p, p->text.n) : json_string("");
}

/* ---- items of the output */

static void name_piece(struct piece *p)
{
    name_make(p->id, p->kind == ITEM_THOUGHT ? "rs_" : p->kind == ITEM_CALL ? "fc_" : "msg_", 16);
}

/* whole: with the text. */
static json_t *part_of(const struct piece *p, bool whole)
{
    if (p->kind == ITEM_THOUGHT)
        return json_pack("{s:s,s:o}", "type", "reasoning_text", "text", text_of(p, whole));
    return json_pack("{s:s,s:o,s:[],s:[]}", "type", "output_text", "text", text_of(p, whole),
                     "annotations", "logprobs");
}

/* status: NULL at the beginning, before the text. */
static json_t *item_of(const struct piece *p, const char *status)
{
    const char *is = status ? status : "in_progress";
    if (p->kind == ITEM_CALL)
        return json_pack("{s:s,s:s,s:s,s:s,s:s,s:o}", "id", p->id, "type", "function_call",
                         "status", is, "call_id", p->call, "name", p->name, "arguments",
                         text_of(p, status));
    json_t *content = status ? json_pack("[o]", part_of(p, true)) : json_array();
    if (p->kind == ITEM_THOUGHT)
        return json_pack("{s:s,s:s,s:s,s:[],s:o}", "id", p->id, "type", "reasoning", "status", is,
                         "summary", "content", content);
    return json_pack("{s:s,s:s,s:s,s:s,s:o}", "id", p->id, "type", "message", "status", is, "role",
                     "assistant", "content", content);
}

/* ---- the response */

static bool is_cut(const struct talk *t) { return strcmp(t->job->finish, "length") == 0; }

static const char *status_of(const struct talk *t)
{
    return is_cut(t) ? "incomplete" : "completed";
}

/* The last item is the one that was cut off. */
static json_t *output_of(const struct talk *t)
{
    const struct response *r = t->own;
    json_t *all = json_array();
    for (size_t i = 0; i < r->pieces.n; i++)
        json_array_append_new(
            all, item_of(r->pieces.p + i, i + 1 == r->pieces.n ? status_of(t) : "completed"));
    return all;
}

static json_t *usage_of(const struct talk *t)
{
    json_int_t prompt = (json_int_t)t->n_prompt, tokens = (json_int_t)t->job->n_tokens;
    return json_pack("{s:I,s:{s:I},s:I,s:I}", "input_tokens", prompt, "input_tokens_details",
                     "cached_tokens", (json_int_t)(t->job->n_cached + t->n_held), "output_tokens",
                     tokens, "total_tokens", prompt + tokens);
}

/* Takes output, usage and error. */
static json_t *response_of(const struct talk *t, const char *status, json_t *output, json_t *usage,
                           json_t *error)
{
    const struct response *r = t->own;
    json_t *all =
        json_pack("{s:s,s:s,s:I,s:s,s:s,s:o,s:n,s:o,s:o}", "id", r->id, "object", "response",
                  "created_at", (json_int_t)r->created, "status", status, "model", t->served->id,
                  "error", error, "incomplete_details", "output", output, "usage", usage);
    if (strcmp(status, "incomplete") == 0)
        json_object_set_new(all, "incomplete_details",
                            json_pack("{s:s}", "reason", "max_output_tokens"));
    if (strcmp(status, "incomplete") == 0 && t->job->looped)
        json_object_set_new(all, "tuffet_stop", json_string("loop"));
    json_object_update_missing(all, r->asked.echo);
    return all;
}

static json_t *whole_of(const struct talk *t)
{
    return response_of(t, status_of(t), output_of(t), usage_of(t), json_null());
}

/* ---- later requests continue it */

static void add_piece(struct turns *c, const struct piece *p)
{
    json_t *text = text_of(p, true), *id = json_string(p->call),
           *name = json_string(p->name ? p->name : "");
    if (p->kind == ITEM_THOUGHT)
        turns_think(c, text);
    else if (p->kind == ITEM_TEXT)
        turns_say(c, turns_text(text));
    else
        turns_call(c, id, name, text);
    json_decref(text);
    json_decref(id);
    json_decref(name);
}

/* The conversation with the answer. NULL: out of memory. */
static char *messages_of(const struct response *r)
{
    struct fields f = {0};
    struct turns c = {.f = &f, .all = json_incref(r->asked.history)};
    if (r->goes_on)
        c.answer = json_array_get(c.all, json_array_size(c.all) - 1);
    for (size_t i = 0; i < r->pieces.n; i++)
        add_piece(&c, r->pieces.p + i);
    json_t *all = turns_end(&c);
    char *text = f.failed ? NULL : json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

static void keep(const struct talk *t, const json_t *whole)
{
    const struct response *r = t->own;
    if (!r->asked.history || t->x->lost)
        return;
    char *reply = json_dumps(whole, JSON_COMPACT | JSON_REAL_PRECISION(9));
    char *messages = messages_of(r);
    if (reply && messages) {
        kept_put(&t->server->kept, r->id, reply, messages);
    } else {
        free(reply);
        free(messages);
        lost_note();
    }
}

/* ---- a stream */

static void send(struct talk *t, json_t *event)
{
    struct response *r = t->own;
    r->written = cli_ns();
    json_object_set_new(event, "sequence_number", json_integer(r->n_events++));
    reply_typed(t->x, event);
}

static void send_response(struct talk *t, const char *type, json_t *response)
{
    send(t, json_pack("{s:s,s:o}", "type", type, "response", response));
}

static void begin(struct talk *t)
{
    static const char *const types[] = {"response.created", "response.in_progress"};
    struct response *r = t->own;
    if (r->begun)
        return;
    r->begun = true;
    for (size_t i = 0; i < 2; i++)
        send_response(t, types[i],
                      response_of(t, "in_progress", json_array(), json_null(), json_null()));
}

/* An event of the item at `index`, with the members of more, which it takes. */
static void send_item(struct talk *t, size_t index, const char *type, json_t *more)
{
    const struct response *r = t->own;
    json_t *event = json_pack("{s:s,s:s,s:I}", "type", type, "item_id", r->pieces.p[index].id,
                              "output_index", (json_int_t)index);
    json_object_update(event, more);
    json_decref(more);
    send(t, event);
}

/* Likewise, of its only part. */
static void send_part(struct talk *t, size_t index, const char *type, const char *member,
                      json_t *value)
{
    json_t *more = json_pack("{s:i,s:o}", "content_index", 0, member, value);
    if (strncmp(type, "response.output_text", strlen("response.output_text")) == 0)
        json_object_set_new(more, "logprobs", json_array());
    send_item(t, index, type, more);
}

static void begin_item(struct talk *t, size_t index)
{
    const struct response *r = t->own;
    const struct piece *p = r->pieces.p + index;
    send(t, json_pack("{s:s,s:I,s:o}", "type", "response.output_item.added", "output_index",
                      (json_int_t)index, "item", item_of(p, NULL)));
    if (p->kind != ITEM_CALL)
        send_part(t, index, "response.content_part.added", "part", part_of(p, false));
}

static void send_text(struct talk *t, size_t index, const struct item *item)
{
    json_t *text = json_bytes(item->p, item->n);
    switch (item->kind) {
    case ITEM_THOUGHT: send_part(t, index, "response.reasoning_text.delta", "delta", text); break;
    case ITEM_TEXT: send_part(t, index, "response.output_text.delta", "delta", text); break;
    case ITEM_ARGUMENTS:
        send_item(t, index, "response.function_call_arguments.delta",
                  json_pack("{s:o}", "delta", text));
        break;
    default: json_decref(text);
    }
}

static void end_item(struct talk *t, size_t index, const char *status)
{
    const struct response *r = t->own;
    const struct piece *p = r->pieces.p + index;
    if (p->kind == ITEM_CALL) {
        send_item(t, index, "response.function_call_arguments.done",
                  json_pack("{s:s,s:o}", "name", p->name, "arguments", text_of(p, true)));
    } else {
        send_part(t, index,
                  p->kind == ITEM_TEXT ? "response.output_text.done"
                                       : "response.reasoning_text.done",
                  "text", text_of(p, true));
        send_part(t, index, "response.content_part.done", "part", part_of(p, true));
    }
    send(t, json_pack("{s:s,s:I,s:o}", "type", "response.output_item.done", "output_index",
                      (json_int_t)index, "item", item_of(p, status)));
}

static void show_life(struct talk *t)
{
    struct response *r = t->own;
    if (cli_ns() - r->written <= PING * 1000000000ull)
        return;
    r->written = cli_ns();
    reply_part(t->x, ":\n\n", 3);
}

static void part(struct talk *t, const struct item *item)
{
    struct response *r = t->own;
    bool begins = false;
    if (t->stream)
        begin(t);
    if (item->kind == ITEM_PROMPT)
        show_life(t);
    struct piece *p = pieces_take(&r->pieces, item, &begins);
    if (!p)
        return;
    if (begins)
        name_piece(p);
    size_t index = r->pieces.n - 1;
    if (t->stream && begins && index)
        end_item(t, index - 1, "completed");
    if (t->stream && begins)
        begin_item(t, index);
    if (t->stream)
        send_text(t, index, item);
}

static void end(struct talk *t)
{
    const struct response *r = t->own;
    if (t->stream)
        begin(t);
    if (t->stream && r->pieces.n)
        end_item(t, r->pieces.n - 1, status_of(t));
    json_t *whole = whole_of(t);
    keep(t, whole);
    if (t->stream) {
        send_response(t, is_cut(t) ? "response.incomplete" : "response.completed", whole);
        reply_end(t->x);
    } else {
        reply_json(t->x, 200, whole);
    }
}

static void fail(struct talk *t)
{
    const struct job *j = t->job;
    const char *why = j->finish ? "the answer was cancelled" : j->error;
    send_response(t, "response.failed",
                  response_of(t, "failed", json_array(), json_null(),
                              json_pack("{s:s,s:o}", "code", "server_error", "message",
                                        json_bytes(why, strlen(why)))));
    reply_end(t->x);
}

void responses_reply(struct exchange *x, struct request *r, struct asked asked)
{
    static const struct talk_kind kind = {
        .part = part, .end = end, .fail = fail, .drop = drop, .keeps = true};
    struct response *own = calloc(1, sizeof *own);
    if (!own) {
        json_decref(asked.echo);
        json_decref(asked.history);
        tft_chat_tools_close(r->tools);
        reply_error(x, 500, "server_error", "out of memory");
        return;
    }
    *own = (struct response){
        .created = (int64_t)time(NULL), .asked = asked, .goes_on = r->prompt.goes_on};
    name_make(own->id, "resp_", 16);
    talk_begin(x, r, false, asked.stream ? "text/event-stream" : NULL, &kind, own);
}
