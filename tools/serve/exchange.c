/* Requests and their replies, of evhttp. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aside.h"
#include "fields.h"
#include "gate.h"
#include "lost.h"
#include "loop.h"

/* ---- exchanges */

static void exchange_free(struct exchange *x)
{
    struct loop *l = x->server->loop;
    *x->at = x->next;
    if (x->next)
        x->next->at = x->at;
    if (x->watch)
        event_free(x->watch);
    lost_forget(&x->lost);
    json_decref(x->body);
    free(x);
    loop_end_if_done(l);
}

static void lose(struct exchange *x)
{
    if (x->watch)
        event_free(x->watch);
    x->watch = NULL;
    if (x->gone)
        x->gone(x->user);
}

/* The client has closed its side while waiting for a reply. */
static void on_hang_up(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    lose(user);
}

/* The connection ends: evhttp frees it. */
static void on_close(struct evhttp_connection *c, void *user)
{
    struct exchange *x = user;
    gate_closed(c);
    x->closed = true;
    if (x->ended)
        exchange_free(x);
    else
        lose(x);
}

/* All of the reply has been written. */
static void on_complete(struct evhttp_request *r, void *user)
{
    struct evhttp_connection *c = evhttp_request_get_connection(r);
    if (c)
        gate_keep(c);
    exchange_free(user);
}

static uint64_t hash(const char *p)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    return h;
}

struct exchange *exchange_new(struct server *s, struct evhttp_request *r)
{
    struct exchange *x = calloc(1, sizeof *x);
    struct evhttp_connection *c = evhttp_request_get_connection(r);
    char *address = NULL;
    uint16_t port;
    if (!x)
        return NULL;
    x->server = s;
    x->request = r;
    x->start = cli_ns();
    x->at = &s->loop->open;
    x->next = s->loop->open;
    if (x->next)
        x->next->at = &x->next;
    s->loop->open = x;
    evhttp_connection_get_peer(c, &address, &port);
    x->client = hash(address ? address : "");
    evhttp_connection_set_closecb(c, on_close, x);
    evhttp_request_set_on_complete_cb(r, on_complete, x);
    /* while waiting for a reply, evhttp does not read, and would not see that the client closes */
    x->watch = event_new(s->loop->base, bufferevent_getfd(evhttp_connection_get_bufferevent(c)),
                         EV_CLOSED, on_hang_up, x);
    if (x->watch)
        event_add(x->watch, NULL);
    return x;
}

const char *exchange_header(const struct exchange *x, const char *name)
{
    return x->take ? NULL
                   : evhttp_find_header(evhttp_request_get_input_headers(x->request), name);
}

/* Whether the body is as it is; else it gets no answer but an error. */
static bool is_plain(struct exchange *x)
{
    const char *coding = exchange_header(x, "Content-Encoding");
    if (!coding || !*coding || evutil_ascii_strcasecmp(coding, "identity") == 0)
        return true;
    exchange_drop(x);
    reply_error(x, 415, "invalid_request_error",
                "Content-Encoding: %s: a body must not be compressed", coding);
    return false;
}

/* read: json_body or json_list. */
static json_t *read_input(struct exchange *x, json_t *read(const char *p, size_t n, char *why))
{
    if (!is_plain(x))
        return NULL;
    struct evbuffer *in = evhttp_request_get_input_buffer(x->request);
    size_t n = evbuffer_get_length(in);
    char *p = malloc(n + 1);
    if (!p) {
        exchange_drop(x);
        reply_error(x, 500, "server_error", "out of memory");
        return NULL;
    }
    char why[FIELDS_WHY];
    evbuffer_remove(in, p, n);
    aside_begin();
    json_t *body = read(p, n, why);
    free(p);
    aside_end();
    if (!body)
        reply_error(x, fields_lack_memory(why) ? 500 : 400,
                    fields_lack_memory(why) ? "server_error" : "invalid_request_error", "%s", why);
    return body;
}

json_t *exchange_json(struct exchange *x)
{
    json_t *body = x->body;
    x->body = NULL;
    return body ? body : read_input(x, json_body);
}

json_t *exchange_list(struct exchange *x) { return read_input(x, json_list); }

void exchange_drop(struct exchange *x)
{
    struct evbuffer *in = evhttp_request_get_input_buffer(x->request);
    evbuffer_drain(in, evbuffer_get_length(in));
}

/* ---- replies */

static const char *reason(int code)
{
    switch (code) {
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 429: return "Too Many Requests";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
    }
}

void reply_header(struct exchange *x, const char *name, const char *value)
{
    if (!x->take)
        evhttp_add_header(evhttp_request_get_output_headers(x->request), name, value);
}

/* Writes the exchange to the log. */
static void note(const struct exchange *x)
{
    struct log_entry e = {.time = (int64_t)time(NULL),
                          .method = x->method,
                          .path = x->path,
                          .model = x->served ? x->served->id : NULL,
                          .key = *x->key_name ? x->key_name : NULL,
                          .status = x->status,
                          .n_prompt = x->n_prompt,
                          .n_answer = x->n_answer,
                          .ms = (double)(cli_ns() - x->start) / 1e6};
    log_write(&x->server->log, &e);
}

/* From here on evhttp owns the request, and frees it if the connection is gone. */
static void ends(struct exchange *x)
{
    if (x->watch)
        event_free(x->watch);
    x->watch = NULL;
    x->gone = NULL;
    x->ended = true;
    if (x->counts)
        quota_spend(x->server->quota, x->key_name, cli_ns(), x->n_prompt + x->n_answer);
    note(x);
    exchange_drop(x);
    if (x->server->loop->ending && !x->streaming)
        reply_header(x, "Connection", "close");
}

static const char type_of_json[] = "application/json; charset=utf-8";

static const char *no_memory_of(const struct exchange *x)
{
    return dialect_no_memory(x->dialect, x->streaming);
}

/* evhttp may have ended the exchange already. */
static bool is_open(const struct loop *l, const struct exchange *x)
{
    const struct exchange *open = l->open;
    while (open && open != x)
        open = open->next;
    return open;
}

/* Gives evhttp the end of the reply; code: 0 in a stream. If evhttp cannot take a part, the client
   sees the connection end before the reply does. */
static void finish(struct exchange *x, int code)
{
    const struct loop *l = x->server->loop;
    struct evhttp_request *r = x->request;
    bool closed = x->closed, lost = x->lost;
    lost_watch(&lost);
    if (code)
        evhttp_send_reply(r, code, reason(code), NULL);
    else
        evhttp_send_reply_end(r);
    lost_watch(NULL);
    if (closed)
        exchange_free(x);
    else if (lost && is_open(l, x))
        evhttp_connection_free(evhttp_request_get_connection(r));
}

void reply_text(struct exchange *x, int code, const char *type, const char *p, size_t n)
{
    struct evhttp_request *r = x->request;
    if (x->lost && code < 400) {
        code = 500;
        type = type_of_json;
        p = no_memory_of(x);
        n = strlen(p);
    }
    x->lost = false;
    x->status = code;
    if (x->take) {
        x->take(x, code, p, n);
        return;
    }
    ends(x);
    bool head = evhttp_request_get_command(r) == EVHTTP_REQ_HEAD;
    char size[24];
    snprintf(size, sizeof size, "%zu", n);
    reply_header(x, "Content-Type", type);
    if (head) /* evhttp would send the body, and not its size */
        reply_header(x, "Content-Length", size);
    else if (n && evbuffer_add(evhttp_request_get_output_buffer(r), p, n) != 0)
        x->lost = true;
    finish(x, code);
}

static char *dump(json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(body);
    return text;
}

void reply_json(struct exchange *x, int code, json_t *body)
{
    char *text = dump(body);
    const char *p = text ? text : no_memory_of(x);
    reply_text(x, text ? code : 500, type_of_json, p, strlen(p));
    free(text);
}

void reply_begin(struct exchange *x, const char *type)
{
    reply_header(x, "Content-Type", type);
    reply_header(x, "Cache-Control", "no-cache");
    reply_header(x, "X-Accel-Buffering", "no"); /* nginx forwards parts at once */
    if (x->server->loop->ending)
        reply_header(x, "Connection", "close");
    x->streaming = true;
    x->status = 200;
    evhttp_send_reply_start(x->request, 200, "OK");
}

void reply_part(struct exchange *x, const char *p, size_t n)
{
    struct evbuffer *b = x->closed || x->lost ? NULL : evbuffer_new();
    if (b && evbuffer_add(b, p, n) == 0)
        evhttp_send_reply_chunk(x->request, b);
    else if (!x->closed)
        x->lost = true;
    if (b)
        evbuffer_free(b);
    if (x->lost && x->gone)
        x->gone(x->user); /* the rest is of no use */
}

static void send_json(struct exchange *x, const char *before, json_t *part, const char *behind)
{
    char *text = dump(part);
    struct cli_text t = {0};
    if (text && cli_text_append(&t, before, strlen(before)) &&
        cli_text_append(&t, text, strlen(text)) && cli_text_append(&t, behind, strlen(behind)))
        reply_part(x, t.p, t.n);
    else
        x->lost = true;
    free(t.p);
    free(text);
}

void reply_event(struct exchange *x, json_t *part) { send_json(x, "data: ", part, "\n\n"); }

void reply_typed(struct exchange *x, json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    char before[80];
    snprintf(before, sizeof before, "event: %s\ndata: ", type ? type : "error");
    send_json(x, before, part, "\n\n");
}

void reply_line(struct exchange *x, json_t *part) { send_json(x, "", part, "\n"); }

/* In place of parts that are missing. */
static void say_lost(struct exchange *x)
{
    char line[160];
    int n = snprintf(line, sizeof line, "%s%s%s", dialect_before(x->dialect), no_memory_of(x),
                     dialect_after(x->dialect));
    x->lost = false;
    reply_part(x, line, (size_t)n);
}

void reply_end(struct exchange *x)
{
    x->gone = NULL;
    if (x->lost && !x->closed)
        say_lost(x);
    ends(x);
    finish(x, 0);
}

void reply_error(struct exchange *x, int code, const char *type, const char *fmt, ...)
{
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    json_t *text = json_bytes(message, strlen(message)); /* a name may be cut within a character */
    json_t *body = dialect_error(x->dialect, x->streaming, code, type, text);
    if (!x->streaming) {
        reply_json(x, code, body);
        return;
    }
    send_json(x, dialect_before(x->dialect), body, dialect_after(x->dialect));
    reply_end(x);
}
