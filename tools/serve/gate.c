#include "gate.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdlib.h>
#include <string.h>

#include "access.h"
#include "head.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { TRIM = 4 << 20 }; /* bytes given back to the heap, after which the heap gives back pages */

enum at {
    GATE_AT_HEAD,
    GATE_AT_BODY,  /* evhttp has the head; it gets all that comes */
    GATE_AT_WASTE, /* a body that is dropped; evhttp gets the head after it */
    GATE_SHUT,     /* all that comes is dropped */
};

struct gate {
    struct bufferevent *b;
    enum at at;
    bool busy;            /* the gate itself changes the input */
    struct cli_text head; /* so far */
    size_t line;          /* where its last line begins, which is not complete */
    uint64_t left;        /* bytes of GATE_AT_WASTE */
    size_t held;          /* bytes of the request so far */
    struct gate *newer, *older; /* of the gates with bytes */
};

static struct {
    const struct server_options *o;
    struct event_base *base;
    struct gate **by_fd; /* [n] */
    size_t n, held, freed;
    struct gate *newest, *oldest; /* by their last byte */
    bool trims;
} all;

/* ---- bytes of all connections */

static void trim_soon(void);

/* What was released before this event may be freed after it, on a busy machine: so there is another
   one, until nothing was released in between. */
static void trim(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    (void)user;
    bool again = all.freed >= TRIM;
    all.trims = false;
    all.freed = 0;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    if (again)
        trim_soon();
}

static void trim_soon(void)
{
    static const struct timeval soon = {.tv_usec = 100000};
    if (!all.trims)
        all.trims = event_base_once(all.base, -1, EV_TIMEOUT, trim, NULL, &soon) == 0;
}

/* The memory is freed soon after, so the pages go back a moment later. */
static void note_freed(size_t n)
{
    all.freed += n;
    if (all.freed >= TRIM)
        trim_soon();
}

static void unlink_gate(struct gate *g)
{
    *(g->newer ? &g->newer->older : &all.newest) = g->older;
    *(g->older ? &g->older->newer : &all.oldest) = g->newer;
}

static void release(struct gate *g)
{
    if (!g->held)
        return;
    unlink_gate(g);
    all.held -= g->held;
    note_freed(g->held);
    g->held = 0;
}

static void drop_head(struct gate *g)
{
    free(g->head.p);
    g->head = (struct cli_text){0};
    g->line = 0;
}

static void drain(struct evbuffer *in) { evbuffer_drain(in, evbuffer_get_length(in)); }

/* Closes the connection from the event loop: evhttp may be at work on it. */
static void shut(struct gate *g)
{
    release(g);
    drop_head(g);
    g->at = GATE_SHUT;
    drain(bufferevent_get_input(g->b));
    bufferevent_trigger_event(g->b, BEV_EVENT_READING | BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
}

/* n bytes have come. */
static void hold(struct gate *g, size_t n)
{
    if (!n)
        return;
    if (g->held)
        unlink_gate(g);
    g->held += n;
    all.held += n;
    g->newer = NULL;
    g->older = all.newest;
    *(all.newest ? &all.newest->newer : &all.oldest) = g;
    all.newest = g;
    while (all.held > GATE_ALL)
        shut(all.oldest);
}

/* ---- a request */

static void put_back(struct gate *g, struct evbuffer *in, const char *p, size_t n)
{
    g->busy = true;
    bool good = evbuffer_prepend(in, p, n) == 0;
    g->busy = false;
    if (!good)
        shut(g);
}

/* Gives evhttp the head, and the bytes that have come after it. */
static void pass(struct gate *g, struct evbuffer *in, enum at then)
{
    g->at = then;
    put_back(g, in, g->head.p, g->head.n);
    drop_head(g);
}

static void waste(struct gate *g, struct evbuffer *in)
{
    size_t n = evbuffer_get_length(in);
    n = n < g->left ? n : (size_t)g->left;
    evbuffer_drain(in, n);
    g->left -= n;
    if (!g->left)
        pass(g, in, GATE_AT_BODY);
}

/* The sender may not send the body. A client reads no reply while it still sends, so a body of a
   known size is read to its end; after any other the connection is closed. */
static void refuse(struct gate *g, struct evbuffer *in, size_t n, const struct head *h)
{
    bool reads_on = h->length >= 0 && h->length <= GATE_BODY && !h->coded && !h->expects;
    size_t rest = g->head.n - n;
    if (reads_on)
        put_back(g, in, g->head.p + n, rest);
    else
        drain(in);
    if (g->at == GATE_SHUT)
        return;
    g->head.n = head_strip(g->head.p, n, !reads_on);
    if (!reads_on && !head_add(&g->head, "Connection: close\r\n")) {
        shut(g);
        return;
    }
    g->left = reads_on ? (uint64_t)h->length : 0;
    g->at = GATE_AT_WASTE;
    if (reads_on)
        waste(g, in);
    else
        pass(g, in, GATE_SHUT);
}

/* evhttp refuses such a request itself, and closes the connection. */
static void refuse_unclear(struct gate *g, struct evbuffer *in)
{
    static const char bad[] = "GET\r\n\r\n";
    drain(in);
    g->head.n = 0;
    if (cli_text_append(&g->head, bad, sizeof bad - 1))
        pass(g, in, GATE_SHUT);
    else
        shut(g);
}

static void take_whole_head(struct gate *g, struct evbuffer *in, size_t n)
{
    struct head h;
    size_t rest = g->head.n - n, less = head_slashes(g->head.p, n);
    memmove(g->head.p + less, g->head.p + n, rest);
    n = less;
    g->head.n = n + rest;
    if (!head_read(&h, g->head.p, n))
        shut(g);
    else if (h.unclear)
        refuse_unclear(g, in);
    else if (!head_has_body(&h) ||
             (access_has_key(all.o, &h.claims) && !access_is_foreign(all.o, &h.claims)))
        pass(g, in, GATE_AT_BODY);
    else
        refuse(g, in, n, &h);
    head_free(&h);
}

/* Moves the bytes that have come to the head. False: out of memory. */
static bool collect(struct gate *g, struct evbuffer *in)
{
    char piece[4096];
    int n = 1;
    while (n > 0 && g->head.n <= GATE_HEADERS) {
        n = evbuffer_remove(in, piece, sizeof piece);
        if (n > 0 && !cli_text_append(&g->head, piece, (size_t)n))
            return false;
    }
    return true;
}

static void take_head(struct gate *g, struct evbuffer *in)
{
    size_t before = g->head.n;
    if (!collect(g, in)) {
        shut(g);
        return;
    }
    hold(g, g->head.n - before);
    const char *p = g->head.p, *end;
    if (g->at == GATE_AT_HEAD && p && !head_may_begin(*p)) {
        refuse_unclear(g, in); /* now: the rest may have no end of a line */
        return;
    }
    while (g->at == GATE_AT_HEAD && p &&
           (end = memchr(p + g->line, '\n', g->head.n - g->line)) != NULL) {
        const char *line = p + g->line;
        size_t n = (size_t)(end - line);
        n -= n && line[n - 1] == '\r';
        if (n && head_is_line(line, n, !g->line)) {
            g->line = (size_t)(end - p) + 1;
            continue;
        }
        if (n) /* evhttp refuses it at once */
            pass(g, in, GATE_AT_BODY);
        else
            take_whole_head(g, in, (size_t)(end - p) + 1);
        return;
    }
    if (g->at == GATE_AT_HEAD && g->head.n > GATE_HEADERS)
        pass(g, in, GATE_AT_BODY); /* likewise */
}

static void take(struct gate *g, struct evbuffer *in, size_t n)
{
    switch (g->at) {
    case GATE_AT_HEAD: take_head(g, in); break;
    case GATE_AT_BODY: hold(g, n); break;
    case GATE_AT_WASTE: waste(g, in); break;
    case GATE_SHUT: drain(in); break;
    }
}

/* ---- connections */

static struct gate *find(struct bufferevent *b)
{
    evutil_socket_t fd = bufferevent_getfd(b);
    struct gate *g = fd >= 0 && (size_t)fd < all.n ? all.by_fd[fd] : NULL;
    return g && g->b == b ? g : NULL;
}

static bool has_room(size_t fd)
{
    size_t n = fd + 64;
    if (fd < all.n)
        return true;
    struct gate **more = realloc(all.by_fd, n * sizeof *more);
    if (!more)
        return false;
    memset(more + all.n, 0, (n - all.n) * sizeof *more);
    all.by_fd = more;
    all.n = n;
    return true;
}

/* evhttp has told the bufferevent its connection. */
static struct gate *make(struct bufferevent *b)
{
    void *c = NULL;
    evutil_socket_t fd = bufferevent_getfd(b);
    struct gate *g = fd >= 0 && has_room((size_t)fd) ? calloc(1, sizeof *g) : NULL;
    bufferevent_getcb(b, NULL, NULL, NULL, &c);
    if (!g || !c) {
        free(g);
        return NULL;
    }
    g->b = b;
    all.by_fd[fd] = g;
    gate_keep(c);
    return g;
}

static void on_input(struct evbuffer *in, const struct evbuffer_cb_info *info, void *user)
{
    struct bufferevent *b = user;
    if (!info->n_added)
        return;
    struct gate *g = find(b);
    g = g ? g : make(b);
    if (g && !g->busy) {
        take(g, in, info->n_added);
    } else if (!g) {
        drain(in);
        bufferevent_trigger_event(b, BEV_EVENT_READING | BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
    }
}

static void on_close(struct evhttp_connection *c, void *user)
{
    (void)user;
    gate_closed(c);
}

void gate_watch(struct bufferevent *b)
{
    evbuffer_add_cb(bufferevent_get_input(b), on_input, b);
}

void gate_next(struct evhttp_connection *c)
{
    struct gate *g = find(evhttp_connection_get_bufferevent(c));
    if (!g || g->at == GATE_SHUT)
        return;
    struct evbuffer *in = bufferevent_get_input(g->b);
    release(g);
    g->at = GATE_AT_HEAD;
    if (evbuffer_get_length(in))
        take_head(g, in);
}

void gate_keep(struct evhttp_connection *c) { evhttp_connection_set_closecb(c, on_close, NULL); }

void gate_closed(struct evhttp_connection *c)
{
    struct gate *g = find(evhttp_connection_get_bufferevent(c));
    if (!g)
        return;
    all.by_fd[bufferevent_getfd(g->b)] = NULL;
    release(g);
    drop_head(g);
    free(g);
}

void gate_open(const struct server_options *o, struct event_base *base)
{
    all.o = o;
    all.base = base;
}

void gate_close(void)
{
    free(all.by_fd);
    all.by_fd = NULL;
    all.n = 0;
}
