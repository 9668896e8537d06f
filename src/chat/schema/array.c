/* Arrays: the items of prefixItems, each at its index, then further items by the keyword items. */
#include "schema.h"

/* *out: the schemas that item i must meet. Returns whether a part of s has a schema for item i. */
static bool item(struct schema *c, const struct schema_shape *s, size_t i, struct schema_all *out)
{
    bool known = false;
    *out = (struct schema_all){0};
    for (size_t k = 0; k < s->all.n && tft_jinja_spend(c->x, 1); k++) {
        const struct schema_place *at = s->all.part[k].at,
                                  *first = tft_schema_member(c, at, "prefixItems"),
                                  *rest = tft_schema_member(c, at, "items");
        if (first && i < first->v.list->n)
            tft_schema_add(c, out, tft_schema_item(c, first, i), 0);
        else if (rest)
            tft_schema_add(c, out, rest, 0);
        known = known || rest || (first && i < first->v.list->n);
    }
    return known;
}

static size_t places(struct schema *c, const struct schema_shape *s)
{
    size_t n = 0;
    for (size_t k = 0; k < s->all.n; k++) {
        const struct schema_place *first = tft_schema_member(c, s->all.part[k].at, "prefixItems");
        n = first && first->v.list->n > n ? first->v.list->n : n;
    }
    return n;
}

/* Writes the items from index n on, after the items of prefixItems. The whole array has min .. max
   items. */
static void write_rest(struct schema *c, const struct schema_all *all, size_t n, uint64_t min,
                       uint64_t max)
{
    unsigned r = tft_schema_rule(c, all);
    uint64_t least = min > n ? min - n : 0;
    const char *comma = tft_schema_spelling(c)->comma;
    tft_schema_put(c, " \"\"");
    if (max <= n)
        return;
    if (n) { /* each has a comma before it */
        tft_schema_put(c, " (\"%s\" r%u){%u,", comma, r, (unsigned)least);
        tft_schema_put(c, max == SCHEMA_NO_MAX ? "}" : "%u}", (unsigned)(max - n));
        return;
    }
    tft_schema_put(c, " (r%u (\"%s\" r%u){%u,", r, comma, r, (unsigned)(least ? least - 1 : 0));
    tft_schema_put(c, max == SCHEMA_NO_MAX ? "}" : "%u}", (unsigned)(max - 1));
    tft_schema_put(c, least ? ")" : ")?");
}

/* Writes a rule for each item of prefixItems; it ends with a reference to the next item's rule. */
static void write_places(struct schema *c, const struct schema_shape *s, size_t n, uint64_t max)
{
    struct schema_all all;
    uint32_t r = tft_schema_extra(c);
    tft_schema_put(c, "r%u", (unsigned)r);
    for (size_t i = 0; i <= n && i <= max && c->x->status == TFT_OK; i++) {
        tft_schema_begin_extra(c, r);
        item(c, s, i, &all);
        if (i < n && i < max) {
            r = tft_schema_extra(c);
            tft_schema_put(c, " (\"%s\" r%u r%u)%s", i ? tft_schema_spelling(c)->comma : "",
                           (unsigned)tft_schema_rule(c, &all), (unsigned)r,
                           i < s->min_items ? "" : "?");
        } else if (i < max) {
            write_rest(c, &all, n, s->min_items, max);
        } else {
            tft_schema_put(c, " \"\"");
        }
        tft_schema_end_extra(c);
    }
}

/* Writes the items of an array with uniqueItems. */
static void write_unique(struct schema *c, const struct schema_shape *s, size_t n)
{
    struct schema_all all;
    struct schema_shape one;
    item(c, s, 0, &all);
    tft_schema_read(c, &all, &one);
    if (c->x->status == TFT_OK && (n || !one.has_values))
        tft_schema_fail(c, s->unique_at, TFT_ERR_UNSUPPORTED,
                        "supported only where items has enum or const, or maxItems is 1");
    else if (c->x->status == TFT_OK)
        tft_schema_unique(c, s, &one);
}

void tft_schema_array(struct schema *c, const struct schema_shape *s)
{
    struct schema_all all;
    size_t n = places(c, s);
    bool open = item(c, s, n, &all) || !n;
    uint64_t max = s->max_items, most = s->min_items > n ? s->min_items : n;
    if (!open && max > most) /* items beyond prefixItems only up to minItems */
        max = most;
    tft_schema_put(c, "\"[\" ");
    if (s->unique_at && max > 1)
        write_unique(c, s, n);
    else if (n)
        write_places(c, s, n, max);
    else
        write_rest(c, &all, 0, s->min_items, max);
    tft_schema_put(c, " \"]\"");
}
