#include "query.h"

#include <stddef.h>
#include <string.h>

/* The value of a hexadecimal digit; -1: it is none. */
static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool decode(const char *p, size_t n, char out[QUERY_VALUE])
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        char c = p[i] == '+' ? ' ' : p[i];
        if (c == '%' && i + 2 < n && digit(p[i + 1]) >= 0 && digit(p[i + 2]) >= 0) {
            c = (char)(digit(p[i + 1]) << 4 | digit(p[i + 2]));
            i += 2;
        }
        if (at + 1 == QUERY_VALUE || !c)
            return false;
        out[at++] = c;
    }
    out[at] = 0;
    return true;
}

bool query_value(const char *query, const char *name, char value[QUERY_VALUE])
{
    size_t len = strlen(name);
    for (const char *p = query; p && *p;) {
        size_t n = strcspn(p, "&");
        if (n > len && p[len] == '=' && memcmp(p, name, len) == 0)
            return decode(p + len + 1, n - len - 1, value);
        p += n + (p[n] == '&');
    }
    return false;
}
