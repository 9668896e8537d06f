/* Strings without quotes and escapes, of some formats of calls. */
#include "schema.h"

#include <string.h>

/* The types of values that the schemas allow. */
static unsigned types_of(struct schema *c, const struct schema_all *all)
{
    struct schema_shape s;
    unsigned types = 0;
    if (tft_jinja_enter(c->x) && tft_jinja_spend(c->x, 1)) {
        tft_schema_read(c, all, &s);
        types = s.types;
        if (c->x->status == TFT_OK && s.has_values) {
            types = 0;
            for (size_t i = 0; i < s.value->n; i++)
                types |= s.value->item[i].kind == JINJA_STRING ? SCHEMA_STRING
                         : s.value->item[i].kind == JINJA_NONE ? SCHEMA_NULL
                                                               : SCHEMA_ALL_TYPES;
        } else if (c->x->status == TFT_OK && s.choice) {
            types = 0;
            for (size_t i = 0; i < s.choice->v.list->n && c->x->status == TFT_OK; i++) {
                struct schema_all option = tft_schema_option(c, &s, i);
                types |= types_of(c, &option);
            }
        }
    }
    tft_jinja_leave(c->x);
    return types;
}

bool tft_schema_is_raw(struct schema *c, const struct schema_all *all)
{
    unsigned types = types_of(c, all);
    return types & SCHEMA_STRING && !(types & ~(unsigned)(SCHEMA_STRING | SCHEMA_NULL));
}

static bool contains(const struct jinja_string *s, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= s->n; i++)
        if (memcmp(s->p + i, what, n) == 0)
            return true;
    return false;
}

void tft_schema_raw_literal(struct schema *c, const struct jinja_string *s, const char *until)
{
    if ((s->n && memchr(s->p, 0, s->n)) || contains(s, until))
        tft_schema_fail(c, c->root, TFT_ERR_UNSUPPORTED,
                        "a constant with U+0000 or %s, in this format", until);
    tft_schema_literal(c, s->p, s->n);
}

static void put_values(struct schema *c, const struct schema_shape *s, const char *until)
{
    tft_schema_put(c, "never");
    for (size_t i = 0; i < s->value->n && c->x->status == TFT_OK; i++) {
        struct jinja_value v = s->value->item[i];
        if (v.kind != JINJA_STRING || !tft_schema_all_hold(c, s, v, true))
            continue;
        tft_schema_put(c, " | ");
        tft_schema_raw_literal(c, v.string, until);
    }
}

void tft_schema_raw(struct schema *c, const struct schema_all *all, const char *until)
{
    struct schema_shape s;
    if (tft_jinja_enter(c->x) && tft_jinja_spend(c->x, 1)) {
        tft_schema_read(c, all, &s);
        tft_schema_put(c, "(");
        if (c->x->status == TFT_OK && s.has_values) {
            put_values(c, &s, until);
        } else if (c->x->status == TFT_OK && s.choice) {
            tft_schema_put(c, "never");
            for (size_t i = 0; i < s.choice->v.list->n && c->x->status == TFT_OK; i++) {
                struct schema_all option = tft_schema_option(c, &s, i);
                tft_schema_put(c, " | ");
                tft_schema_raw(c, &option, until);
            }
        } else if (c->x->status == TFT_OK && s.types & SCHEMA_STRING) {
            c->until = until;
            tft_schema_pattern(c, &s);
            c->until = NULL;
        } else {
            tft_schema_put(c, "never");
        }
        tft_schema_put(c, ")");
    }
    tft_jinja_leave(c->x);
}
