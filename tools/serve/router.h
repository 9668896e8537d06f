/* Which handler answers a request. */
#ifndef SERVE_ROUTER_H
#define SERVE_ROUTER_H

#include "server.h"

/* method: "GET", ...; path: without the query. Replies, or makes a handler do so. */
void route(struct exchange *x, const char *method, const char *path);

/* Whether the path is for everybody, also where --api-key wants a key. */
bool route_is_public(const char *path);

/* How the path's errors are written. */
enum dialect route_dialect(const char *path);

#endif
