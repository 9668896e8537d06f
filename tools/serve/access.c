#define _POSIX_C_SOURCE 200809L
#include "access.h"

#include <string.h>
#include <strings.h>

/* ---- the key */

/* Takes as long for a wrong key as for the right one. */
static bool is_same(const char *a, const char *b)
{
    size_t n = strlen(b), m = strlen(a);
    unsigned char differs = n != m;
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)(b[i] ^ a[m ? i % m : 0]);
    return !differs;
}

/* The key after the scheme, which may be written in any case; NULL: another scheme. */
static const char *bearer_of(const char *authorization)
{
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    return authorization + 7 + strspn(authorization + 7, " ");
}

bool access_has_key(const struct exchange *x)
{
    const char *key = x->server->o.key, *bearer = bearer_of(exchange_header(x, "Authorization")),
               *own = exchange_header(x, "X-Api-Key");
    return !key || (bearer && is_same(bearer, key)) || (own && is_same(own, key));
}

/* ---- pages of other sites */

/* The host of an origin, with its port; NULL for an origin without one, such as "null". */
static const char *host_of(const char *origin)
{
    const char *p = origin ? strstr(origin, "://") : NULL;
    return p ? p + 3 : NULL;
}

/* Whether a and b, each perhaps with a port, are the same name. */
static bool is_name(const char *a, const char *b)
{
    size_t n = a && b ? strcspn(a, ":") : 0;
    return n && n == strcspn(b, ":") && strncasecmp(a, b, n) == 0;
}

/* An address is never the name of another site. */
static bool is_address(const char *host)
{
    size_t n = strcspn(host, ":");
    return *host == '[' || (n && strspn(host, "0123456789.") == n);
}

static bool is_loopback(const char *host)
{
    return is_name(host, "localhost") || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

bool access_is_foreign(const struct exchange *x)
{
    const struct server_options *o = &x->server->o;
    const char *origin = exchange_header(x, "Origin"), *name = host_of(origin),
               *host = exchange_header(x, "Host");
    if (o->origin && strcmp(o->origin, "*") == 0)
        return false;
    if (host && is_loopback(o->host) && !is_address(host) && !is_name(host, "localhost") &&
        !is_name(host, host_of(o->origin)))
        return true;
    return origin && !(name && host && strcmp(name, host) == 0) &&
           !(o->origin && strcmp(o->origin, origin) == 0);
}
