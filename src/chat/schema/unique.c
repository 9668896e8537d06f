/* Arrays of distinct constants: up to SCHEMA_FREE of them in any order, more in the order of the
   enum. */
#include "schema.h"

enum { MOST_RULES = 4000 };

struct unique {
    struct schema *c;
    const struct schema_shape *s;
    struct jinja_list *value; /* [n] distinct */
    size_t n;
};

/* Writes value i, and a reference to the rule after it. */
static void put_item(struct unique *u, size_t i, bool comma, uint32_t next)
{
    if (comma)
        tft_schema_put(u->c, " \"%s\"", tft_schema_spelling(u->c)->comma);
    tft_schema_put(u->c, " ");
    tft_schema_put_value(u->c, u->value->item[i]);
    tft_schema_put(u->c, " r%u", (unsigned)next);
}

/* Writes a rule for each set of values that the array has. */
static void any_order(struct unique *u)
{
    size_t sets = (size_t)1 << u->n;
    uint32_t *rule = tft_jinja_take(u->c->x, sets, sizeof *rule);
    for (size_t set = 0; rule && set < sets; set++)
        rule[set] = tft_schema_extra(u->c);
    if (!rule)
        return;
    tft_schema_put(u->c, " r%u", (unsigned)rule[0]);
    for (size_t set = 0; set < sets && u->c->x->status == TFT_OK; set++) {
        size_t count = 0;
        for (size_t i = 0; i < u->n; i++)
            count += set >> i & 1;
        tft_schema_begin_extra(u->c, rule[set]);
        tft_schema_put(u->c, count >= u->s->min_items ? " \"\"" : " never");
        for (size_t i = 0; i < u->n && count < u->s->max_items; i++)
            if (!(set >> i & 1)) {
                tft_schema_put(u->c, " |");
                put_item(u, i, count > 0, rule[set | (size_t)1 << i]);
            }
        tft_schema_end_extra(u->c);
    }
}

/* Writes a rule for each value i and number m of values before it; counts stop at `most`. */
static void in_order(struct unique *u)
{
    uint64_t most = u->s->max_items != SCHEMA_NO_MAX ? u->s->max_items : u->s->min_items;
    size_t width = (most < u->n ? most : u->n) + 1;
    width = width > 1 ? width : 2; /* 0 and more: for the commas */
    if (width * (u->n + 1) > MOST_RULES) {
        tft_schema_fail(u->c, u->s->unique_at, TFT_ERR_UNSUPPORTED, "too many constants to count");
        return;
    }
    uint32_t *rule = tft_jinja_take(u->c->x, u->n + 1, width * sizeof *rule);
    if (!rule)
        return;
    for (size_t i = 0; i <= u->n; i++)
        for (size_t m = 0; m < width && m <= i; m++)
            rule[i * width + m] = tft_schema_extra(u->c);
    tft_schema_put(u->c, " r%u", (unsigned)rule[0]);
    for (size_t i = 0; i <= u->n; i++)
        for (size_t m = 0; m < width && m <= i && u->c->x->status == TFT_OK; m++) {
            tft_schema_begin_extra(u->c, rule[i * width + m]);
            if (i == u->n) {
                tft_schema_put(u->c, m >= u->s->min_items ? " \"\"" : " never");
            } else {
                tft_schema_put(u->c, " r%u", (unsigned)rule[(i + 1) * width + m]);
                if (m < u->s->max_items) {
                    tft_schema_put(u->c, " |");
                    put_item(u, i, m > 0, rule[(i + 1) * width + (m + 1 < width ? m + 1 : m)]);
                }
            }
            tft_schema_end_extra(u->c);
        }
}

void tft_schema_unique(struct schema *c, const struct schema_shape *s,
                       const struct schema_shape *item)
{
    struct unique u = {c, s, tft_jinja_list(c->x, JINJA_PLAIN), 0};
    for (size_t i = 0; u.value && i < item->value->n && c->x->status == TFT_OK; i++) {
        bool known = !tft_schema_all_hold(c, item, item->value->item[i], true);
        for (size_t k = 0; k < u.n && !known; k++)
            known = tft_schema_same(c, u.value->item[k], item->value->item[i]);
        if (!known)
            tft_jinja_push(c->x, u.value, item->value->item[i]);
        u.n = u.value->n;
    }
    if (c->x->status != TFT_OK)
        return;
    if (s->min_items > u.n)
        tft_schema_put(c, " never");
    else if (u.n <= SCHEMA_FREE)
        any_order(&u);
    else
        in_order(&u);
}
