/* Shared by http.c and exchange.c: the event loop, and how a request becomes an exchange. */
#ifndef SERVE_LOOP_H
#define SERVE_LOOP_H

#include <event2/util.h>

#include "server.h"

struct event_base;
struct evhttp;
struct evhttp_bound_socket;

struct loop {
    struct event_base *base;
    struct evhttp *http;
    struct evhttp_bound_socket *bound;
    struct event *woken, *signals[2];
    struct event *hang_up; /* SIGHUP; NULL: it ends the program */
    struct event *due;   /* a model's keep_alive ends */
    struct event *again; /* listener.c's: tries to accept again */
    uint64_t said;       /* listener.c's: time of its last message, s; 0: never */
    evutil_socket_t pair[2]; /* the engine writes a byte when items are ready */
    struct exchange *open;
    struct aside *asides; /* aside.c's: handlers beside the loop */
    bool ending;
};

/* Wakes the loop: an engine has items, or a handler beside the loop goes on. Any thread may call
   it. */
void loop_wake(struct server *s);

/* Ends the loop if a signal has come and no exchange is open. */
void loop_end_if_done(struct loop *l);

/* NULL: out of memory. */
struct exchange *exchange_new(struct server *s, struct evhttp_request *r);

#endif
