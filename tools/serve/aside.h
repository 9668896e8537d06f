/*
 * Long work of handlers beside the loop: reading a large body, making a prompt of it.
 *
 * A handler of a large request runs in a thread of its own, and either that thread or the clients'
 * thread is at work, never both, so handlers need no locks. Only between aside_begin() and
 * aside_end() they go on side by side. The clients' thread lets the handler go on from there when
 * it has no other event.
 */
#ifndef SERVE_ASIDE_H
#define SERVE_ASIDE_H

#include "server.h"

/* Calls handle(x), and returns when it has returned, or has begun long work; the rest is done by
   aside_step(). Small requests are handled in this thread; large ones beyond a number wait. */
void aside_run(struct exchange *x, void (*handle)(struct exchange *x));

/* In the clients' thread, after the loop was woken: goes on with handlers that have done their long
   work. */
void aside_step(struct server *s);

/* Whether this thread is a handler's: then the rest of the server may go on in any long work. */
bool aside_is_here(void);

/* Whether a handler beside the loop uses the model. */
bool aside_uses(const struct server *s, const struct served *m);

/* In a handler: between both it must not touch the server, the exchange or libevent. Without effect
   in the clients' thread. */
void aside_begin(void);
void aside_end(void);

#endif
