#include "anthropic_reply.h"

#include <stdlib.h>
#include <string.h>

#include "turns.h"
#include "lost.h"
#include "pieces.h"
#include "talk.h"

enum { PING = 5 }; /* silent seconds, after which a stream sends a sign of life */

/* Clients send it back with the thoughts, and drop thoughts without one. */
static const char signature[] = "tuffet";

struct message {
    char id[NAME_ROOM];
    struct pieces pieces;
    bool begun;
    uint64_t written; /* time of the last event, ns */
};

static void drop(void *own)
{
    struct message *m = own;
    pieces_free(&m->pieces);
    free(m);
}

static json_t *text_of(const struct piece *p) { return json_bytes(p->text.p, p->text.n); }

/* The arguments; {} if they were cut off. */
static json_t *input_of(const struct piece *p)
{
    json_error_t e;
    json_t *input = json_text(p->text.n ? p->text.p : "", p->text.n, JSON_ALLOW_NUL, &e);
    return input ? input : json_object();
}

/* A block of content; as the beginning of a stream's, without its text. */
static json_t *block_of(const struct piece *p, bool whole)
{
    switch (p->kind) {
    case ITEM_THOUGHT:
        return json_pack("{s:s,s:o,s:s}", "type", "thinking", "thinking",
                         whole ? text_of(p) : json_string(""), "signature", whole ? signature : "");
    case ITEM_CALL:
        return json_pack("{s:s,s:s,s:s,s:o}", "type", "tool_use", "id", p->call, "name", p->name,
                         "input", whole ? input_of(p) : json_object());
    default:
        return json_pack("{s:s,s:o}", "type", "text", "text", whole ? text_of(p) : json_string(""));
    }
}

static const char *stop_reason(const struct job *j)
{
    if (strcmp(j->finish, "length") == 0)
        return "max_tokens";
    if (strcmp(j->finish, "tool_calls") == 0)
        return "tool_use";
    return j->answer.stopped ? "stop_sequence" : "end_turn";
}

/* input_tokens are the computed ones, as Anthropic counts. */
static json_t *usage(const struct talk *t, size_t n_tokens)
{
    size_t cached = t->job->n_cached + t->n_held;
    return json_pack("{s:I,s:i,s:I,s:I}", "input_tokens", (json_int_t)(t->n_prompt - cached),
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens",
                     (json_int_t)cached, "output_tokens", (json_int_t)n_tokens);
}

/* reason: NULL at the beginning of a stream. */
static json_t *message_of(const struct talk *t, json_t *content, const char *reason)
{
    const struct message *m = t->own;
    return json_pack("{s:s,s:s,s:s,s:s,s:o,s:s?,s:s?,s:o}", "id", m->id, "type", "message", "role",
                     "assistant", "model", t->served->id, "content", content, "stop_reason", reason,
                     "stop_sequence", reason ? t->job->answer.stopped : NULL, "usage",
                     usage(t, reason ? t->job->n_tokens : 0));
}

/* ---- a stream */

static void send(struct talk *t, json_t *event)
{
    struct message *m = t->own;
    m->written = cli_ns();
    reply_typed(t->x, event);
}

static void ping(struct talk *t) { send(t, json_pack("{s:s}", "type", "ping")); }

static void begin(struct talk *t)
{
    struct message *m = t->own;
    if (m->begun)
        return;
    m->begun = true;
    send(t, json_pack("{s:s,s:o}", "type", "message_start", "message",
                      message_of(t, json_array(), NULL)));
    ping(t);
}

static void send_delta(struct talk *t, size_t index, const char *type, const char *member,
                       json_t *text)
{
    send(t, json_pack("{s:s,s:I,s:{s:s,s:o}}", "type", "content_block_delta", "index",
                      (json_int_t)index, "delta", "type", type, member, text));
}

/* Ends the block of the last piece but `after`. */
static void end_block(struct talk *t, size_t after)
{
    const struct message *m = t->own;
    if (m->pieces.n <= after)
        return;
    size_t index = m->pieces.n - 1 - after;
    if (m->pieces.p[index].kind == ITEM_THOUGHT)
        send_delta(t, index, "signature_delta", "signature", json_string(signature));
    send(t, json_pack("{s:s,s:I}", "type", "content_block_stop", "index", (json_int_t)index));
}

static void send_piece(struct talk *t, const struct piece *p, const struct item *item, bool begins)
{
    const struct message *m = t->own;
    size_t index = m->pieces.n - 1;
    if (begins) {
        end_block(t, 1);
        send(t, json_pack("{s:s,s:I,s:o}", "type", "content_block_start", "index",
                          (json_int_t)index, "content_block", block_of(p, false)));
    }
    json_t *text = json_bytes(item->p, item->n);
    switch (item->kind) {
    case ITEM_THOUGHT: send_delta(t, index, "thinking_delta", "thinking", text); break;
    case ITEM_TEXT: send_delta(t, index, "text_delta", "text", text); break;
    case ITEM_ARGUMENTS: send_delta(t, index, "input_json_delta", "partial_json", text); break;
    default: json_decref(text);
    }
}

static void part(struct talk *t, const struct item *item)
{
    struct message *m = t->own;
    bool begins = false;
    if (t->stream)
        begin(t);
    if (item->kind == ITEM_PROMPT && cli_ns() - m->written > PING * 1000000000ull)
        ping(t);
    const struct piece *p = pieces_take(&m->pieces, item, &begins);
    if (p && t->stream)
        send_piece(t, p, item, begins);
}

static void end_stream(struct talk *t)
{
    begin(t);
    end_block(t, 0);
    json_t *delta = json_pack("{s:s,s:s?}", "stop_reason", stop_reason(t->job), "stop_sequence",
                              t->job->answer.stopped);
    if (t->job->looped)
        json_object_set_new(delta, "tuffet_stop", json_string("loop"));
    send(t, json_pack("{s:s,s:o,s:o}", "type", "message_delta", "delta", delta, "usage",
                      usage(t, t->job->n_tokens)));
    send(t, json_pack("{s:s}", "type", "message_stop"));
    reply_end(t->x);
}

/* Not by reply_json, which rounds numbers: arguments keep their digits. */
static void send_whole(struct talk *t, json_t *message)
{
    char *text = message ? turns_json(message) : NULL;
    json_decref(message);
    if (text)
        reply_text(t->x, 200, "application/json; charset=utf-8", text, strlen(text));
    else
        reply_error(t->x, 500, "server_error", "out of memory");
    free(text);
}

static void end(struct talk *t)
{
    const struct message *m = t->own;
    if (t->stream) {
        end_stream(t);
        return;
    }
    json_t *content = json_array();
    for (size_t i = 0; i < m->pieces.n; i++)
        json_array_append_new(content, block_of(m->pieces.p + i, true));
    json_t *message = message_of(t, content, stop_reason(t->job));
    if (t->job->looped)
        json_object_set_new(message, "tuffet_stop", json_string("loop"));
    send_whole(t, message);
}

void anthropic_reply(struct exchange *x, struct request *r, bool stream)
{
    static const struct talk_kind kind = {.part = part, .end = end, .drop = drop, .keeps = true};
    struct message *m = calloc(1, sizeof *m);
    if (!m) {
        tft_chat_tools_close(r->tools);
        reply_error(x, 500, "server_error", "out of memory");
        return;
    }
    name_make(m->id, "msg_", 16);
    talk_begin(x, r, false, stream ? "text/event-stream" : NULL, &kind, m);
}
