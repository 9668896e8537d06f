/* Chooses the handler of a request. */
#ifndef SERVE_ROUTER_H
#define SERVE_ROUTER_H

#include "server.h"

/* method: "GET", ...; path: without the query. Replies, or makes a handler reply. */
void route(struct exchange *x, const char *method, const char *path);

/* Whether the path is public even if --api-key requires a key. */
bool route_is_public(const char *path);

/* The format of errors for the path. */
enum dialect route_dialect(const char *path);

#endif
