#include "room.h"

#include <stdlib.h>
#include <string.h>

/* Whether a goes rather than b. */
static bool goes_first(const struct lodger *a, const struct lodger *b)
{
    return a->idle != b->idle ? a->idle : a->used < b->used;
}

size_t room_leaver(const struct lodger *all, size_t n)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (all[i].may_go && (best == n || goes_first(&all[i], &all[best])))
            best = i;
    return best;
}

uint64_t room_taken(const struct lodger *all, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = all[i].bytes > UINT64_MAX - sum ? UINT64_MAX : sum + all[i].bytes;
    return sum;
}

/* The seconds of a unit at the start of *p, which it passes; 0: there is no such unit. */
static double unit(const char **p)
{
    static const struct {
        const char *name;
        double seconds;
    } all[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n = strlen(all[i].name);
        if (strncmp(*p, all[i].name, n) == 0) {
            *p += n;
            return all[i].seconds;
        }
    }
    return 0;
}

bool room_keep(const char *p, int64_t *ns)
{
    static const char digits[] = "0123456789.";
    bool negative = *p == '-';
    double sum = 0;
    p += negative || *p == '+';
    if (!*p)
        return false;
    for (bool first = true; *p; first = false) {
        char number[32], *end;
        size_t n = strspn(p, digits);
        if (!n || n >= sizeof number)
            return false;
        memcpy(number, p, n);
        number[n] = 0;
        double x = strtod(number, &end);
        p += n;
        double seconds = first && !*p ? 1 : unit(&p);
        if (*end || seconds == 0)
            return false;
        sum += x * seconds;
    }
    *ns = negative || sum > 9e9 ? -1 : (int64_t)(sum * 1e9);
    return true;
}
