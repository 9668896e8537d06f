/*
 * The pool: several models in one server. A model is opened when a request asks for it, by a thread
 * of its own (the opener), and stays open until another model needs its memory or `keep_alive` ends
 * it; then the opener closes it, once it has answered. A request for a model that is not open
 * waits, with its body read; requests wait in their order, so each gets its model in the end. All
 * functions are the clients' thread's.
 */
#ifndef SERVE_POOL_H
#define SERVE_POOL_H

#include "server.h"

/* Reads each model for the lists. A file of the folder that cannot be read is left out, after an
   error message; the first n_asked models must be there. */
int pool_peek(struct server *s, size_t n_asked);

/* Starts the opener. The models of s are closed. Returns CLI_OK, or CLI_FAILED after an error
   message. */
int pool_open(struct pool **out, struct server *s, const struct served_options *o);

/* Waits for the opener and ends it. The models that are open stay so. p may be NULL. */
void pool_close(struct pool *p);

/* Where a request names its model: in the member `model` of its body, or in the query. */
enum pool_place { POOL_BODY, POOL_QUERY };

/* Sets the request's model and handles the request: at once, or once the model is open. Replies if
   there is no such model, or it cannot be opened. */
void pool_ask(struct exchange *x, enum pool_place place, void (*handle)(struct exchange *x));

/* The file of --config no longer has the model, which is in the list after n_models already: its
   requests under way go on, and requests that wait for it are refused. */
void pool_retire(struct pool *p, struct served *s);

/* Goes on: call it after engine_take of the models, and when pool_due has passed. */
void pool_step(struct pool *p);

/* ns until a model's `keep_alive` ends; UINT64_MAX: none ends. */
uint64_t pool_due(const struct pool *p);

#endif
