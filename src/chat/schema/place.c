/* Places in a schema: JSON pointers, $ref, and lists of schemas. */
#include "schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"

static size_t write_pointer(const struct schema_place *at, char *out, size_t room)
{
    size_t n = at->up ? write_pointer(at->up, out, room) : 0;
    if (!at->up)
        return (size_t)snprintf(out, room, "#");
    if (n + 32 > room) /* a deep place: the rest of the pointer is omitted */
        return n;
    if (!at->key)
        return n + (size_t)snprintf(out + n, room - n, "/%zu", at->index);
    out[n++] = '/';
    for (size_t i = 0; i < at->key->n && n + 3 < room; i++) {
        char ch = at->key->p[i];
        if (ch == '~' || ch == '/') {
            out[n++] = '~';
            ch = ch == '~' ? '0' : '1';
        }
        out[n++] = ch;
    }
    out[n] = 0;
    return n;
}

void tft_schema_fail(struct schema *c, const struct schema_place *at, enum tft_status status,
                     const char *fmt, ...)
{
    char pointer[128], what[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (at)
        write_pointer(at, pointer, sizeof pointer);
    else
        strcpy(pointer, "#");
    tft_jinja_fail(c->x, status, "%s: %s: %s", c->x->what, pointer, what);
}

const struct schema_place *tft_schema_place(struct schema *c, const struct schema_place *up,
                                            const struct jinja_string *key, size_t index,
                                            struct jinja_value v)
{
    struct schema_place *p = tft_jinja_take(c->x, 1, sizeof *p);
    if (p)
        *p = (struct schema_place){v, up, key, index};
    return p;
}

const struct schema_place *tft_schema_find(struct schema *c, const struct schema_place *at,
                                           const struct jinja_string *name)
{
    struct jinja_value key = {.kind = JINJA_STRING, .string = name},
                       *v = tft_jinja_find(c->x, at->v.dict, key);
    return v ? tft_schema_place(c, at, name, 0, *v) : NULL;
}

const struct schema_place *tft_schema_member(struct schema *c, const struct schema_place *at,
                                             const char *name)
{
    struct jinja_value key = tft_jinja_text(c->x, name);
    return key.kind == JINJA_STRING ? tft_schema_find(c, at, key.string) : NULL;
}

const struct schema_place *tft_schema_item(struct schema *c, const struct schema_place *list,
                                           size_t index)
{
    return tft_schema_place(c, list, NULL, index, list->v.list->item[index]);
}

/* The text of a URI with %XX decoded; NULL after a failure. */
static const struct jinja_string *decode(struct schema *c, const struct jinja_string *ref)
{
    struct jinja_buffer b = {0};
    for (size_t i = 0; i < ref->n && tft_jinja_spend(c->x, 1); i++) {
        int high = ref->p[i] == '%' && i + 2 < ref->n ? tft_hex_digit(ref->p[i + 1]) : -1,
            low = high >= 0 ? tft_hex_digit(ref->p[i + 2]) : -1;
        char ch = low >= 0 ? (char)(high * 16 + low) : ref->p[i];
        tft_jinja_add_text(c->x, &b, &ch, 1, false);
        i += low >= 0 ? 2 : 0;
    }
    return tft_jinja_finish(c->x, &b).string;
}

/* The next name of a JSON pointer (RFC 6901, section 3). */
static struct jinja_value next_name(struct schema *c, const struct jinja_string *ref, size_t *at)
{
    struct jinja_buffer b = {0};
    for (++*at; *at < ref->n && ref->p[*at] != '/'; ++*at) {
        char ch = ref->p[*at];
        if (ch == '~' && *at + 1 < ref->n)
            ch = ref->p[++*at] == '0' ? '~' : '/';
        tft_jinja_add_text(c->x, &b, &ch, 1, false);
    }
    return tft_jinja_finish(c->x, &b);
}

const struct schema_place *tft_schema_resolve(struct schema *c, const struct schema_place *ref)
{
    const struct schema_place *to = c->root;
    const struct jinja_string *s = ref->v.string;
    size_t at = 1;
    if (ref->v.kind != JINJA_STRING)
        return tft_schema_fail(c, ref, TFT_ERR_ARG, "not a string"), NULL;
    if (!s->n || s->p[0] != '#' || (s->n > 1 && s->p[1] != '/')) {
        tft_schema_fail(c, ref, TFT_ERR_UNSUPPORTED, "only references within the schema, #/...");
        return NULL;
    }
    s = decode(c, s);
    while (s && to && at < s->n && c->x->status == TFT_OK) {
        struct jinja_value name = next_name(c, s, &at);
        if (name.kind != JINJA_STRING)
            return NULL;
        size_t index = 0;
        for (size_t i = 0; i < name.string->n; i++) {
            bool digit = name.string->p[i] >= '0' && name.string->p[i] <= '9' && i < 9;
            index = digit ? index * 10 + (size_t)(name.string->p[i] - '0') : SIZE_MAX / 16;
        }
        if (to->v.kind == JINJA_DICT)
            to = tft_schema_find(c, to, name.string);
        else
            to = to->v.kind == JINJA_LIST && index < to->v.list->n ? tft_schema_item(c, to, index)
                                                                   : NULL;
    }
    if (!to)
        tft_schema_fail(c, ref, TFT_ERR_ARG, "refers to nothing");
    return to;
}

void tft_schema_add(struct schema *c, struct schema_all *all, const struct schema_place *at,
                    unsigned settled)
{
    if (!at || c->x->status != TFT_OK)
        return;
    if (at->v.kind == JINJA_BOOL) {
        all->never = all->never || !at->v.truth;
        return;
    }
    if (at->v.kind != JINJA_DICT) {
        tft_schema_fail(c, at, TFT_ERR_ARG, "a schema is an object, true or false");
        return;
    }
    for (size_t i = 0; i < all->n && tft_jinja_spend(c->x, 1); i++)
        if (all->part[i].at->v.dict == at->v.dict) {
            all->part[i].settled |= settled;
            return;
        }
    if (all->n == all->room) {
        size_t room = all->room ? all->room * 2 : 4;
        struct schema_part *more = tft_jinja_take(c->x, room, sizeof *more);
        if (!more)
            return;
        if (all->n)
            memcpy(more, all->part, all->n * sizeof *more);
        all->part = more;
        all->room = room;
    }
    all->part[all->n++] = (struct schema_part){at, settled};
}
