/* Access control of the server. */
#ifndef SERVE_ACCESS_H
#define SERVE_ACCESS_H

#include "server.h"

/* The headers in which a request describes its sender: values, or NULL. */
struct claims {
    const char *bearer, *key; /* Authorization, X-Api-Key */
    const char *host, *origin;
};

/* Whether the request has the key of --api-key or one of --api-key-file, or the server needs
   none. */
bool access_has_key(const struct server_options *o, const struct claims *c);

/* The name of the request's key in --api-key-file; NULL: it has none of that file. */
const char *access_key_name(const struct server_options *o, const struct claims *c);

/*
 * Whether a page of another site sends the request, as a browser tells by Origin, or a page that
 * calls the server by a foreign name: a site can make its own name point to any address that the
 * browser reaches (DNS rebinding), and then has the server's origin. Addresses, localhost, the
 * machine's own name and the names of --allow-host are not foreign. --cors allows one origin, and
 * its name.
 */
bool access_is_foreign(const struct server_options *o, const struct claims *c);

#endif
