/* Access control of the server. */
#ifndef SERVE_ACCESS_H
#define SERVE_ACCESS_H

#include "server.h"

/* Whether the request has the key of --api-key, or the server needs none. */
bool access_has_key(const struct exchange *x);

/*
 * Whether a page of another site sends the request, as a browser tells by Origin. If only this
 * machine can connect, also whether the page calls the server by a foreign name: a site can make
 * its own name point to 127.0.0.1 (DNS rebinding), and then has the server's origin. --cors allows
 * one origin, and its name.
 */
bool access_is_foreign(const struct exchange *x);

#endif
