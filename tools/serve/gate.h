/*
 * Reads the bytes of a connection before evhttp does, which collects a whole body before it calls
 * anybody. The gate keeps the head of a request until it is complete. It drops a body as it comes
 * if the sender has no key or is foreign (access.h), and evhttp then gets the head alone. It bounds
 * the bytes that all connections together have sent of requests that are not complete.
 */
#ifndef SERVE_GATE_H
#define SERVE_GATE_H

#include "server.h"

struct bufferevent;
struct event_base;
struct evhttp_connection;

enum {
    GATE_HEADERS = 64 * 1024,       /* bytes of a request's headers */
    GATE_BODY = 8 * 1024 * 1024,    /* of its body */
    GATE_ALL = 64 * 1024 * 1024,    /* of all requests that are not complete: with more, the
                                       connection that has been silent longest is closed */
};

/* There is one gate for all connections. o: until gate_close. */
void gate_open(const struct server_options *o, struct event_base *base);
void gate_close(void); /* after the connections */

/* Looks at the input of a connection that evhttp gets. */
void gate_watch(struct bufferevent *b);

/* evhttp has a whole request: another one begins with the next byte. */
void gate_next(struct evhttp_connection *c);

/* The gate must know of a connection's end. evhttp has room for one callback: gate_keep sets the
   gate's. Who sets another one calls gate_closed in it, and gate_keep afterwards. */
void gate_keep(struct evhttp_connection *c);
void gate_closed(struct evhttp_connection *c);

#endif
