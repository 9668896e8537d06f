/* The server: the event loop, its signals, access control, and the engine's items. */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/util.h> /* and the system's header of sockets */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "access.h"
#include "aside.h"
#include "gate.h"
#include "listener.h"
#include "loop.h"
#include "lost.h"
#include "pool.h"
#include "refusal.h"
#include "reload.h"
#include "router.h"
#include "service.h"

enum {
    BACKLOG = 4096, /* connections waiting to be accepted, as far as the system allows */
    PATIENCE = 60,  /* seconds without a byte of a request, or of a reply being read */
};

/* ---- the end */

void loop_end_if_done(struct loop *l)
{
    if (l->ending && !l->open)
        event_base_loopbreak(l->base);
}

/* The first signal: no new connections, and the answers in progress are completed. The second one
   cancels them, and does not wait for clients to read the others. */
static void on_signal(evutil_socket_t sig, short what, void *user)
{
    struct server *s = user;
    struct loop *l = s->loop;
    (void)sig;
    (void)what;
    if (!l->ending)
        evhttp_del_accept_socket(l->http, l->bound);
    else
        for (struct exchange *x = l->open, *next; x; x = next) {
            next = x->next;
            if (x->ended)
                evhttp_connection_free(evhttp_request_get_connection(x->request));
            else if (x->gone)
                x->gone(x->user);
        }
    l->ending = true;
    loop_end_if_done(l);
}

/* Sets the timer for the end of a model's keep_alive. */
static void await(struct server *s)
{
    uint64_t ns = s->pool ? pool_due(s->pool) : UINT64_MAX;
    uint64_t us = ns / 1000 + 1;
    struct timeval t = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (long)(us % 1000000)};
    if (ns != UINT64_MAX)
        event_add(s->loop->due, &t);
}

/* After items of engines, or after a time: requests that wait for a model may go on. */
static void go_on(struct server *s)
{
    if (s->pool)
        pool_step(s->pool);
    await(s);
}

/* SIGHUP: reads the files again, and opens the log again. */
static void on_hang_up(evutil_socket_t sig, short what, void *user)
{
    struct server *s = user;
    (void)sig;
    (void)what;
    reload(s);
    log_open(&s->log);
    go_on(s);
}

/* ---- requests */

static void allow_origin(struct exchange *x)
{
    if (!x->server->o.origin)
        return;
    reply_header(x, "Access-Control-Allow-Origin", x->server->o.origin);
    reply_header(x, "Vary", "Origin, Access-Control-Request-Headers");
}

/* Clients in pages send headers of their own, such as openai's x-stainless-lang. "*" would not
   allow Authorization. */
static void preflight(struct exchange *x)
{
    const char *asked = exchange_header(x, "Access-Control-Request-Headers");
    reply_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE");
    reply_header(x, "Access-Control-Allow-Headers",
                 asked ? asked : "Authorization, Content-Type, X-Api-Key, Anthropic-Version");
    reply_header(x, "Access-Control-Max-Age", "86400");
    reply_text(x, 204, "text/plain", NULL, 0);
}

static const char *method_of(struct evhttp_request *r)
{
    switch (evhttp_request_get_command(r)) {
    case EVHTTP_REQ_GET: return "GET";
    case EVHTTP_REQ_HEAD: return "HEAD";
    case EVHTTP_REQ_POST: return "POST";
    case EVHTTP_REQ_DELETE: return "DELETE";
    default: return "OPTIONS";
    }
}

static struct claims claims_of(const struct exchange *x)
{
    return (struct claims){.bearer = exchange_header(x, "Authorization"),
                           .key = exchange_header(x, "X-Api-Key"),
                           .host = exchange_header(x, "Host"),
                           .origin = exchange_header(x, "Origin")};
}

static void on_request(struct evhttp_request *r, void *user)
{
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(r);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL, *method = method_of(r);
    struct server *s = user;
    struct exchange *x = exchange_new(s, r);
    gate_next(evhttp_request_get_connection(r));
    if (!x) {
        evhttp_send_error(r, 500, NULL);
        return;
    }
    path = path && *path ? path : "/";
    lost_watch(&x->lost);
    x->path = path;
    x->method = method;
    x->query = uri ? evhttp_uri_get_query(uri) : NULL;
    x->dialect = route_dialect(path);
    allow_origin(x);
    const struct server_options *o = &s->o;
    const struct claims c = claims_of(x);
    const char *name = access_key_name(o, &c);
    snprintf(x->key_name, sizeof x->key_name, "%s", name ? name : "");
    if (strcmp(method, "POST") != 0)
        exchange_drop(x);
    x->size = evbuffer_get_length(evhttp_request_get_input_buffer(r));
    if (access_is_foreign(o, &c))
        reply_error(x, 403, "permission_error",
                    "pages of other sites, and other names of this machine, may not use this "
                    "server: --cors ORIGIN allows a site, --allow-host NAME a name");
    else if (strcmp(method, "OPTIONS") == 0 && o->origin)
        preflight(x);
    else if (!route_is_public(path) && !access_has_key(o, &c))
        reply_error(x, 401, "authentication_error", "the API key is missing or wrong");
    else
        route(x, method, path);
    lost_watch(NULL);
    await(s);
}

/* ---- the loop */

static void on_wake(evutil_socket_t fd, short what, void *user)
{
    struct server *s = user;
    char bytes[64];
    (void)what;
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        ;
    for (size_t i = 0; i < s->n_all; i++)
        if (s->models[i]->engine)
            engine_take(s->models[i]->engine);
    lost_watch(NULL);
    aside_step(s);
    go_on(s);
}

/* A model's keep_alive has ended. */
static void on_due(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    go_on(user);
}

/* If the sockets are full, the loop wakes up anyway. */
void loop_wake(struct server *s) { send(s->loop->pair[1], "", 1, 0); }

/* Called by the engine's thread. */
static void wake(void *user) { loop_wake(user); }

static int add_events(struct server *s)
{
    const struct service_signals *signals = &service_signals;
    struct loop *l = s->loop;
    if (evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, l->pair) != 0)
        return cli_fail("%s", evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
    for (int i = 0; i < 2; i++) {
        evutil_make_socket_nonblocking(l->pair[i]);
        evutil_make_socket_closeonexec(l->pair[i]);
    }
    l->woken = event_new(l->base, l->pair[0], EV_READ | EV_PERSIST, on_wake, s);
    l->due = evtimer_new(l->base, on_due, s);
    if (!l->due || !l->woken || event_add(l->woken, NULL) != 0)
        return cli_fail("out of memory");
    for (int i = 0; i < 2; i++) {
        l->signals[i] = evsignal_new(l->base, signals->end[i], on_signal, s);
        if (!l->signals[i] || event_add(l->signals[i], NULL) != 0)
            return cli_fail("out of memory");
    }
    if (!signals->hang_up || (!s->o.key_file && !s->log.path && !s->setup))
        return CLI_OK; /* the terminal's end ends the server */
    l->hang_up = evsignal_new(l->base, signals->hang_up, on_hang_up, s);
    return l->hang_up && event_add(l->hang_up, NULL) == 0 ? CLI_OK : cli_fail("out of memory");
}

/* The server's own socket, or the one that was passed. */
static struct evhttp_bound_socket *take_socket(struct loop *l, const struct server_options *o)
{
    const char *count;
    int fd = service_socket(&count);
    if (fd < 0)
        return evhttp_bind_socket_with_handle(l->http, o->host, (uint16_t)o->port);
    evutil_make_socket_nonblocking(fd);
    evutil_make_socket_closeonexec(fd);
    return evhttp_accept_socket_with_handle(l->http, fd);
}

/* Prints the address, with the actual port. */
static int listen_at(struct server *s)
{
    struct loop *l = s->loop;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } a;
    socklen_t n = sizeof a;
    char url[128];
    const char *count;
    bool passed = service_socket(&count) >= 0;
    EVUTIL_SET_SOCKET_ERROR(0);
    if (passed && strcmp(count, "1") != 0)
        return cli_fail("LISTEN_FDS is %s: the server takes one socket", count);
    l->bound = take_socket(l, &s->o);
    int os = EVUTIL_SOCKET_ERROR();
    if (!l->bound)
        return cli_fail("%s:%u: %s", s->o.host, s->o.port,
                        os ? evutil_socket_error_to_string(os) : "no such address");
    if (!listener_guard(l))
        return cli_fail("out of memory");
    /* evhttp lets 128 wait; further clients try again only after seconds */
    listen(evhttp_bound_socket_get_fd(l->bound), BACKLOG);
    getsockname(evhttp_bound_socket_get_fd(l->bound), &a.any, &n);
    bool six = a.any.sa_family == AF_INET6;
    if (!six && a.any.sa_family != AF_INET)
        return cli_fail("the socket in LISTEN_FDS is not one of TCP");
    unsigned port = ntohs(six ? a.v6.sin6_port : a.v4.sin_port);
    char host[INET6_ADDRSTRLEN] = "";
    if (passed)
        evutil_inet_ntop(a.any.sa_family, six ? (void *)&a.v6.sin6_addr : (void *)&a.v4.sin_addr,
                         host, sizeof host);
    snprintf(url, sizeof url, six ? "http://[%s]:%u" : "http://%s:%u", *host ? host : s->o.host,
             port);
    if (s->o.json)
        printf("{\"url\":\"%s\",\"port\":%u}\n", url, port);
    else
        puts(url);
    fflush(stdout);
    service_ready();
    return CLI_OK;
}

static struct bufferevent *new_bufferevent(struct event_base *base, void *user)
{
    struct bufferevent *b = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    (void)user;
    if (b) {
        refusal_as_json(b);
        gate_watch(b);
    }
    return b;
}

static int open_loop(struct server *s)
{
    struct loop *l = s->loop;
    l->base = event_base_new();
    l->http = l->base ? evhttp_new(l->base) : NULL;
    if (!l->http)
        return cli_fail("out of memory");
    evhttp_set_max_headers_size(l->http, GATE_HEADERS);
    evhttp_set_max_body_size(l->http, GATE_BODY);
    evhttp_set_timeout(l->http, PATIENCE);
    evhttp_set_allowed_methods(l->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST |
                                            EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS);
    evhttp_set_gencb(l->http, on_request, s);
    evhttp_set_bevcb(l->http, new_bufferevent, NULL);
    gate_open(&s->o, l->base);
    return add_events(s);
}

static void close_loop(struct loop *l)
{
    listener_close(l);
    if (l->http)
        evhttp_free(l->http);
    gate_close();
    for (int i = 0; i < 2; i++) {
        if (l->signals[i])
            event_free(l->signals[i]);
        if (l->pair[i] >= 0)
            evutil_closesocket(l->pair[i]);
        /* one that comes now does not make the end a failure */
        signal(service_signals.end[i], SIG_IGN);
    }
    if (l->woken)
        event_free(l->woken);
    if (l->due)
        event_free(l->due);
    if (l->hang_up)
        event_free(l->hang_up);
    if (l->base)
        event_base_free(l->base);
    libevent_global_shutdown();
    service_end();
}

/* Several models are opened when requests ask for them. One is open from the beginning. */
static int open_models(struct server *s, struct baton *baton)
{
    struct served_options o = {.n_slots = s->o.n_slots,
                               .n_queue = s->o.n_queue,
                               .pooling = s->o.pooling,
                               .store = s->o.store,
                               .several = s->several,
                               .baton = s->several ? baton : NULL,
                               .wake = wake,
                               .user = s};
    if (s->several)
        return pool_open(&s->pool, s, &o);
    struct served *one = *s->models;
    int status = served_open(one, &o);
    one->state = SERVED_OPEN;
    if (status == CLI_OK && one->bytes > s->o.memory)
        return cli_fail("%s takes %llu MB with the caches of %u slots, and --mem allows %llu MB",
                        one->path, (unsigned long long)(one->bytes >> 20), o.n_slots,
                        (unsigned long long)(s->o.memory >> 20));
    return status;
}

int server_run(struct server *s)
{
    struct loop l = {.pair = {-1, -1}};
    lost_begin();
    s->loop = &l;
    service_begin();
    struct baton baton;
    baton_begin(&baton);
    int status = open_models(s, &baton);
    if (status == CLI_OK)
        status = open_loop(s);
    if (status == CLI_OK)
        status = listen_at(s);
    if (status == CLI_OK && event_base_dispatch(l.base) < 0)
        status = cli_fail("the event loop has failed");
    pool_close(s->pool);
    for (size_t i = 0; i < s->n_all; i++)
        served_close(s->models[i]);
    baton_end(&baton);
    kept_free(&s->kept);
    close_loop(&l);
    return status;
}
