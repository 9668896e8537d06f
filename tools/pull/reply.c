#define _POSIX_C_SOURCE 200809L
#include "reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WAIT_MOST = 86400 }; /* seconds */

/* value[room] = the value of the header, without spaces around. false: the line is another one, or
   the value is too long. */
static bool header(const char *p, size_t n, const char *name, char *value, size_t room)
{
    size_t len = strlen(name);
    if (n <= len || strncasecmp(p, name, len) != 0 || p[len] != ':')
        return false;
    p += len + 1;
    n -= len + 1;
    while (n && (*p == ' ' || *p == '\t')) {
        p++;
        n--;
    }
    while (n && strchr(" \t\r\n", p[n - 1]))
        n--;
    if (n >= room || memchr(p, 0, n))
        return false;
    memcpy(value, p, n);
    value[n] = 0;
    return true;
}

/* A message for people becomes part of a line on a terminal. */
static void keep_printable(char *p)
{
    for (; *p; p++)
        if (*p < 0x20 || *p > 0x7e)
            *p = '?';
}

/* Link: <URL>; rel="next", <URL>; rel="last" */
static void read_link(struct reply *r, const char *value)
{
    for (const char *p = strchr(value, '<'); p; p = strchr(p + 1, '<')) {
        const char *after = strchr(p, '>');
        size_t n = after ? (size_t)(after - p - 1) : 0, rest = after ? strcspn(after, "<") : 0;
        const char *rel = after ? strstr(after, "rel=\"next\"") : NULL;
        if (!rel || rel >= after + rest || n >= sizeof r->next)
            continue;
        memcpy(r->next, p + 1, n);
        r->next[n] = 0;
        return;
    }
}

static void set_wait(struct reply *r, unsigned long seconds)
{
    r->has_wait = true;
    r->wait = seconds < WAIT_MOST ? (unsigned)seconds : WAIT_MOST;
}

/* RateLimit: "api";r=0;t=55: no request is left for 55 seconds. */
static void read_limit(struct reply *r, const char *value)
{
    const char *left = strstr(value, ";r="), *until = strstr(value, ";t=");
    unsigned long seconds = until ? strtoul(until + 3, NULL, 10) : 0;
    if (left && until && strtoul(left + 3, NULL, 10) == 0)
        set_wait(r, seconds < WAIT_MOST ? seconds + 1 : WAIT_MOST);
}

void reply_add_line(struct reply *r, const char *p, size_t n)
{
    char value[2 * PULL_URL];
    if (n >= 5 && memcmp(p, "HTTP/", 5) == 0)
        *r = (struct reply){0};
    else if (header(p, n, "x-error-code", r->code, sizeof r->code))
        keep_printable(r->code);
    else if (header(p, n, "x-error-message", r->message, sizeof r->message))
        keep_printable(r->message);
    else if (header(p, n, "link", value, sizeof value))
        read_link(r, value);
    else if (header(p, n, "ratelimit", value, sizeof value))
        read_limit(r, value);
    else if (header(p, n, "retry-after", value, sizeof value) && !r->has_wait && *value >= '0' &&
             *value <= '9')
        set_wait(r, strtoul(value, NULL, 10));
    else if (header(p, n, "content-range", value, sizeof value))
        r->has_at = sscanf(value, "bytes %" SCNu64 "-", &r->at) == 1;
}
