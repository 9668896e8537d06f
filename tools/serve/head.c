#include "head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool head_is_line(const char *p, size_t n, bool first)
{
    static const char version[] = " HTTP/1.";
    size_t len = sizeof version - 1;
    if (first)
        return n > len + 1 && memcmp(p + n - len - 1, version, len) == 0;
    return *p == ' ' || *p == '\t' || memchr(p, ':', n);
}

bool head_may_begin(char c) { return c == '\r' || c == '\n' || (c > ' ' && c < 0x7f); }

size_t head_slashes(char *p, size_t n)
{
    const char *target = memchr(p, ' ', n);
    size_t out = target ? (size_t)(target - p) + 1 : n, at = out;
    bool path = at < n && p[at] == '/'; /* not http://HOST/PATH */
    for (; at < n; at++) {
        path &= p[at] > ' ' && p[at] != '?' && p[at] != '#';
        if (!path || p[at] != '/' || p[out - 1] != '/')
            p[out++] = p[at];
    }
    return out;
}

static bool is_digits(const char *p) { return *p && p[strspn(p, "0123456789")] == 0; }

/* ---- reading */

static void take_length(struct head *h, const char *value)
{
    h->unclear |= h->has_length || h->coded || !is_digits(value);
    h->has_length = true;
    h->length = is_digits(value) && strlen(value) < 18 ? strtoll(value, NULL, 10) : -1;
}

static void take_coding(struct head *h, const char *value)
{
    h->unclear |= h->has_length || h->coded || strcasecmp(value, "chunked") != 0;
    h->coded = true;
}

/* The first of several headers counts, as in evhttp_find_header. */
static void take_header(struct head *h, const char *name, const char *value)
{
    const struct {
        const char *name, **to;
    } all[] = {{"Authorization", &h->claims.bearer},
               {"X-Api-Key", &h->claims.key},
               {"Host", &h->claims.host},
               {"Origin", &h->claims.origin}};
    h->unclear |= h->claims.host && strcasecmp(name, "Host") == 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcasecmp(name, all[i].name) == 0 && !*all[i].to)
            *all[i].to = value;
    if (strcasecmp(name, "Content-Length") == 0)
        take_length(h, value);
    else if (strcasecmp(name, "Transfer-Encoding") == 0)
        take_coding(h, value);
    h->expects |= strcasecmp(name, "Expect") == 0;
}

static void take_line(struct head *h, char *line)
{
    char *colon = strchr(line, ':'), *value = colon ? colon + 1 : NULL;
    if (!colon || *line == ' ' || *line == '\t')
        return;
    *colon = 0;
    h->unclear |= colon == line || colon[-1] == ' ' || colon[-1] == '\t';
    value += strspn(value, " ");
    size_t n = strlen(value);
    while (n && (value[n - 1] == ' ' || value[n - 1] == '\t' || value[n - 1] == '\r'))
        n--;
    value[n] = 0;
    take_header(h, line, value);
}

bool head_read(struct head *h, const char *p, size_t n)
{
    *h = (struct head){.length = -1, .text = cli_copy(p, n)};
    char *line = h->text ? strchr(h->text, '\n') : NULL;
    while (line) {
        char *end = strchr(++line, '\n');
        if (end)
            *end = 0;
        take_line(h, line);
        line = end;
    }
    return h->text;
}

void head_free(struct head *h) { free(h->text); }

bool head_has_body(const struct head *h) { return h->coded || (h->has_length && h->length != 0); }

/* ---- changing */

static bool is_dropped(const char *p, size_t n, bool connection)
{
    static const char *const names[] = {"Content-Length", "Transfer-Encoding", "Expect",
                                        "Connection"};
    for (size_t i = 0; i < 3 + (size_t)connection; i++) {
        size_t len = strlen(names[i]);
        if (n > len && p[len] == ':' && strncasecmp(p, names[i], len) == 0)
            return true;
    }
    return false;
}

size_t head_strip(char *p, size_t n, bool connection)
{
    size_t out = 0;
    bool drops = false;
    for (size_t at = 0, len; at < n; at += len) {
        len = (size_t)((char *)memchr(p + at, '\n', n - at) - (p + at)) + 1;
        bool goes_on = p[at] == ' ' || p[at] == '\t';
        drops = goes_on ? drops : is_dropped(p + at, len, connection);
        if (drops)
            continue;
        memmove(p + out, p + at, len);
        out += len;
    }
    return out;
}

bool head_add(struct cli_text *t, const char *line)
{
    size_t blank = t->n > 1 && t->p[t->n - 2] == '\r' ? 2 : 1;
    t->n -= blank;
    return cli_text_append(t, line, strlen(line)) && cli_text_append(t, "\r\n", 2);
}
