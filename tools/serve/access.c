#include "access.h"

#include <string.h>
#include <strings.h>

#include "tools/cli/system.h"

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

static bool has_one_key(const char *key, const struct claims *c)
{
    const char *bearer = bearer_of(c->bearer);
    return (bearer && is_same(bearer, key)) || (c->key && is_same(c->key, key));
}

const char *access_key_name(const struct server_options *o, const struct claims *c)
{
    const char *bearer = bearer_of(c->bearer);
    const char *name = o->keys && bearer ? keys_find(o->keys, bearer) : NULL;
    return o->keys && !name && c->key ? keys_find(o->keys, c->key) : name;
}

bool access_has_key(const struct server_options *o, const struct claims *c)
{
    return (!o->key && !o->keys) || (o->key && has_one_key(o->key, c)) || access_key_name(o, c);
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

/* The machine's own name, whole or up to its first dot, and that with .local, as mDNS has it. */
static bool is_own(const char *host)
{
    char own[256 + sizeof ".local"];
    if (!system_host_name(own, 256))
        return false;
    if (is_name(host, own))
        return true;
    strcpy(own + strcspn(own, "."), ".local");
    size_t label = strlen(own) - strlen(".local");
    return is_name(host, own) || (label && label == strcspn(host, ":") &&
                                  strncasecmp(host, own, label) == 0);
}

static bool is_allowed(const struct server_options *o, const char *host)
{
    for (uint32_t i = 0; i < o->allowed.n; i++)
        if (is_name(host, o->allowed.p[i]))
            return true;
    return is_name(host, host_of(o->origin));
}

bool access_is_foreign(const struct server_options *o, const struct claims *c)
{
    const char *name = host_of(c->origin), *host = c->host;
    if (o->origin && strcmp(o->origin, "*") == 0)
        return false;
    if (host && !is_address(host) && !is_name(host, "localhost") && !is_own(host) &&
        !is_allowed(o, host))
        return true;
    return c->origin && !(name && host && strcmp(name, host) == 0) &&
           !(o->origin && strcmp(o->origin, c->origin) == 0);
}
