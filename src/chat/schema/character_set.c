#include "character_set.h"

#include <string.h>

bool tft_schema_set_add(struct schema_set *set, uint32_t lo, uint32_t hi)
{
    if (set->n == SCHEMA_RANGES)
        return false;
    set->range[set->n].lo = lo;
    set->range[set->n++].hi = hi;
    return true;
}

void tft_schema_set_finish(struct schema_set *set, bool not )
{
    size_t n = 0;
    for (size_t i = 1; i < set->n; i++) /* by insertion */
        for (size_t k = i; k && set->range[k].lo < set->range[k - 1].lo; k--) {
            uint32_t lo = set->range[k].lo, hi = set->range[k].hi;
            set->range[k] = set->range[k - 1];
            set->range[k - 1].lo = lo, set->range[k - 1].hi = hi;
        }
    for (size_t i = 0; i < set->n; i++)
        if (n && set->range[i].lo <= set->range[n - 1].hi + 1) {
            if (set->range[i].hi > set->range[n - 1].hi)
                set->range[n - 1].hi = set->range[i].hi;
        } else {
            set->range[n++] = set->range[i];
        }
    set->n = n;
    if (!not )
        return;
    uint32_t next = 0;
    struct schema_set other = {.n = 0};
    for (size_t i = 0; i < n; next = set->range[i++].hi + 1)
        if (set->range[i].lo > next) {
            other.range[other.n].lo = next;
            other.range[other.n++].hi = set->range[i].lo - 1;
        }
    if (next <= 0x10ffff) {
        other.range[other.n].lo = next;
        other.range[other.n++].hi = 0x10ffff;
    }
    *set = other;
}

static bool has(const struct schema_set *set, uint32_t ch)
{
    for (size_t i = 0; i < set->n; i++)
        if (ch >= set->range[i].lo && ch <= set->range[i].hi)
            return true;
    return false;
}

/* The ranges of the set without escapes in JSON: no U+0000 .. U+001F, " and \. Or, in strings
   without quotes and escapes, all but U+0000 and <, which may begin the end of the string. */
static void put_plain(struct schema *c, const struct schema_set *set)
{
    static const uint32_t json[3][2] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}},
                          raw[3][2] = {{1, ';'}, {'=', 0x10ffff}, {1, 0}};
    const uint32_t(*piece)[2] = c->until ? raw : json;
    bool any = false;
    for (size_t i = 0; i < set->n; i++)
        for (size_t k = 0; k < 3; k++) {
            uint32_t lo = set->range[i].lo > piece[k][0] ? set->range[i].lo : piece[k][0],
                     hi = set->range[i].hi < piece[k][1] ? set->range[i].hi : piece[k][1];
            if (lo > hi)
                continue;
            tft_schema_put(c, any ? "" : "[");
            tft_schema_put(c, "\\U%08x", (unsigned)lo);
            if (hi > lo)
                tft_schema_put(c, "-\\U%08x", (unsigned)hi);
            any = true;
        }
    tft_schema_put(c, any ? "]" : "never");
}

void tft_schema_set_put(struct schema *c, const struct schema_set *set)
{
    static const char names[] = "\b\f\n\r\t", letters[] = "bfnrt";
    bool all = true;
    for (uint32_t ch = 1; ch < 0x20; ch++)
        all = all && has(set, ch);
    tft_schema_put(c, " (");
    put_plain(c, set);
    if (c->until) {
        tft_schema_put(c, ")");
        return;
    }
    if (all)
        tft_schema_put(c, " | \"\\\\\" ctl");
    for (uint32_t ch = 1; ch < 0x20 && !all; ch++)
        if (has(set, ch)) {
            const char *name = strchr(names, (int)ch);
            if (name)
                tft_schema_put(c, " | \"\\\\%c\"", letters[name - names]);
            else
                tft_schema_put(c, " | \"\\\\u%04x\"", (unsigned)ch);
        }
    tft_schema_put(c, has(set, '"') ? " | \"\\\\\\\"\"" : "");
    tft_schema_put(c, has(set, '\\') ? " | \"\\\\\\\\\"" : "");
    tft_schema_put(c, ")");
}
