/* Makes, compares and iterates values. */
#include "jinja.h"

#include <math.h>
#include <string.h>

const struct jinja_value tft_jinja_undefined = {.kind = JINJA_UNDEFINED},
                         tft_jinja_none = {.kind = JINJA_NONE};

struct jinja_value tft_jinja_bool(bool truth)
{
    return (struct jinja_value){.kind = JINJA_BOOL, .truth = truth};
}

struct jinja_value tft_jinja_int(int64_t integer)
{
    return (struct jinja_value){.kind = JINJA_INT, .integer = integer};
}

struct jinja_value tft_jinja_float(double number)
{
    return (struct jinja_value){.kind = JINJA_FLOAT, .number = number};
}

struct jinja_value tft_jinja_list_value(struct jinja_list *l)
{
    return l ? (struct jinja_value){.kind = JINJA_LIST, .list = l} : tft_jinja_undefined;
}

struct jinja_list *tft_jinja_list(struct jinja *x, enum jinja_list_kind kind)
{
    struct jinja_list *l = tft_jinja_take(x, 1, sizeof *l);
    if (l)
        l->kind = kind;
    return l;
}

/* A larger copy of p, which has n of `room` items; p itself if n < room. */
static void *grown(struct jinja *x, void *p, size_t n, size_t room, size_t size)
{
    if (n < room)
        return p;
    void *more = tft_jinja_take(x, n ? n * 2 : 4, size);
    if (more && n)
        memcpy(more, p, n * size);
    return more;
}

void tft_jinja_push(struct jinja *x, struct jinja_list *l, struct jinja_value v)
{
    struct jinja_value *item = l ? grown(x, l->item, l->n, l->room, sizeof v) : NULL;
    if (!item || !tft_jinja_spend(x, 1))
        return;
    if (l->n == l->room)
        l->room = l->n ? l->n * 2 : 4;
    l->item = item;
    l->item[l->n++] = v;
}

struct jinja_dict *tft_jinja_dict(struct jinja *x)
{
    return tft_jinja_take(x, 1, sizeof(struct jinja_dict));
}

struct jinja_value *tft_jinja_find(struct jinja *x, const struct jinja_dict *d,
                                   struct jinja_value key)
{
    if (!d || !tft_jinja_spend(x, 1 + d->n / 8))
        return NULL;
    for (size_t i = 0; i < d->n; i++)
        if (tft_jinja_equal(x, d->key[i], key))
            return &d->value[i];
    return NULL;
}

void tft_jinja_put(struct jinja *x, struct jinja_dict *d, struct jinja_value key,
                   struct jinja_value value)
{
    struct jinja_value *found = tft_jinja_find(x, d, key);
    if (found)
        *found = value;
    if (found || !d || x->status != TFT_OK)
        return;
    struct jinja_value *k = grown(x, d->key, d->n, d->room, sizeof *k),
                       *v = grown(x, d->value, d->n, d->room, sizeof *v);
    if (!k || !v)
        return;
    if (d->n == d->room)
        d->room = d->n ? d->n * 2 : 4;
    d->key = k;
    d->value = v;
    d->key[d->n] = key;
    d->value[d->n++] = value;
}

const char *tft_jinja_type(struct jinja_value v)
{
    static const char *const names[] = {"Undefined", "NoneType",  "bool",     "int",
                                        "int",       "float",     "str",      "list",
                                        "dict",      "Namespace", "function", "LoopContext"};
    static const char *const lists[] = {"list", "tuple", "dict view", "generator"};
    return v.kind == JINJA_LIST ? lists[v.list->kind] : names[v.kind];
}

bool tft_jinja_is_number(struct jinja_value v, double *number)
{
    *number = v.kind == JINJA_BOOL    ? v.truth
              : v.kind == JINJA_INT   ? (double)v.integer
              : v.kind == JINJA_FLOAT ? v.number
                                      : 0;
    return v.kind == JINJA_BOOL || v.kind == JINJA_INT || v.kind == JINJA_FLOAT;
}

bool tft_jinja_true(struct jinja *x, struct jinja_value v)
{
    (void)x;
    switch (v.kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return v.truth;
    case JINJA_INT: return v.integer != 0;
    case JINJA_FLOAT: return v.number != 0;
    case JINJA_STRING: return v.string->n > 0;
    case JINJA_LIST: return v.list->n > 0 || v.list->kind == JINJA_GENERATOR;
    case JINJA_DICT: return v.dict->n > 0;
    default: return true;
    }
}

/* ---- comparing */

static bool equal_lists(struct jinja *x, const struct jinja_list *a, const struct jinja_list *b)
{
    bool same = a == b || (a->n == b->n && a->kind == b->kind && a->kind != JINJA_GENERATOR &&
                           a->kind != JINJA_VIEW);
    for (size_t i = 0; a != b && same && i < a->n; i++)
        same = tft_jinja_spend(x, 1) && tft_jinja_equal(x, a->item[i], b->item[i]);
    return same;
}

static bool equal_dicts(struct jinja *x, const struct jinja_dict *a, const struct jinja_dict *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; a != b && same && i < a->n; i++) {
        const struct jinja_value *v = tft_jinja_find(x, b, a->key[i]);
        same = v && tft_jinja_equal(x, a->value[i], *v);
    }
    return same;
}

static bool equal_other(struct jinja *x, struct jinja_value a, struct jinja_value b)
{
    bool same = false;
    if (!tft_jinja_enter(x) || !tft_jinja_spend(x, 1))
        same = false;
    else if (a.kind == JINJA_LIST)
        same = equal_lists(x, a.list, b.list);
    else if (a.kind == JINJA_DICT)
        same = equal_dicts(x, a.dict, b.dict);
    else
        same = a.call == b.call;
    tft_jinja_leave(x);
    return same;
}

bool tft_jinja_equal(struct jinja *x, struct jinja_value a, struct jinja_value b)
{
    double m, n;
    if (a.kind == JINJA_INT && b.kind == JINJA_INT)
        return a.integer == b.integer;
    if (tft_jinja_is_number(a, &m) && tft_jinja_is_number(b, &n))
        return m == n;
    if (a.kind != b.kind)
        return false;
    if (a.kind == JINJA_STRING || a.kind == JINJA_BIG) {
        if (a.string->n != b.string->n || !tft_jinja_spend(x, a.string->n / 16))
            return false;
        return tft_jinja_same(a.string, b.string);
    }
    return a.kind <= JINJA_NONE || equal_other(x, a, b);
}

static int compare_lists(struct jinja *x, const struct jinja_list *a, const struct jinja_list *b)
{
    int c = 0;
    if (!tft_jinja_enter(x))
        return 0;
    for (size_t i = 0; i < a->n && i < b->n && tft_jinja_spend(x, 1); i++)
        if (!tft_jinja_equal(x, a->item[i], b->item[i])) {
            c = tft_jinja_compare(x, a->item[i], b->item[i]);
            tft_jinja_leave(x);
            return c;
        }
    tft_jinja_leave(x);
    return (a->n > b->n) - (a->n < b->n);
}

int tft_jinja_compare(struct jinja *x, struct jinja_value a, struct jinja_value b)
{
    double m, n;
    if (a.kind == JINJA_INT && b.kind == JINJA_INT)
        return (a.integer > b.integer) - (a.integer < b.integer);
    if (tft_jinja_is_number(a, &m) && tft_jinja_is_number(b, &n))
        return (m > n) - (m < n);
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        /* the order of UTF-8 is that of code points */
        size_t least = a.string->n < b.string->n ? a.string->n : b.string->n;
        int c =
            tft_jinja_spend(x, least / 16) && least ? memcmp(a.string->p, b.string->p, least) : 0;
        return c ? c : (a.string->n > b.string->n) - (a.string->n < b.string->n);
    }
    if (a.kind == JINJA_LIST && b.kind == JINJA_LIST && a.list->kind == b.list->kind &&
        a.list->kind <= JINJA_TUPLE)
        return compare_lists(x, a.list, b.list);
    tft_jinja_fail(x, TFT_ERR_FORMAT, "cannot compare %s with %s", tft_jinja_type(a),
                   tft_jinja_type(b));
    return 0;
}

bool tft_jinja_contains(struct jinja *x, struct jinja_value in, struct jinja_value v)
{
    if (in.kind == JINJA_DICT)
        return tft_jinja_find(x, in.dict, v) != NULL;
    if (in.kind == JINJA_STRING) {
        if (v.kind != JINJA_STRING)
            tft_jinja_fail(x, TFT_ERR_FORMAT, "a string cannot contain %s", tft_jinja_type(v));
        return v.kind == JINJA_STRING &&
               tft_jinja_search(x, in.string, 0, v.string) <= in.string->n;
    }
    const struct jinja_list *l = tft_jinja_iterate(x, in);
    for (size_t i = 0; l && i < l->n && tft_jinja_spend(x, 1); i++)
        if (tft_jinja_equal(x, l->item[i], v))
            return true;
    return false;
}

/* ---- iterating */

static struct jinja_list *characters(struct jinja *x, const struct jinja_string *s)
{
    struct jinja_list *l = tft_jinja_list(x, JINJA_PLAIN);
    for (size_t at = 0, end; at < s->n && x->status == TFT_OK; at = end) {
        struct jinja_string rest = {.p = s->p + at, .n = s->n - at};
        end = at + tft_jinja_offset(&rest, 1);
        tft_jinja_push(x, l, tft_jinja_part(x, s, at, end));
    }
    return l;
}

struct jinja_list *tft_jinja_iterate(struct jinja *x, struct jinja_value v)
{
    struct jinja_list *l;
    switch (v.kind) {
    case JINJA_UNDEFINED: return tft_jinja_list(x, JINJA_PLAIN);
    case JINJA_STRING: return characters(x, v.string);
    case JINJA_LIST:
        if (v.list->kind != JINJA_GENERATOR)
            return v.list;
        l = tft_jinja_list(x, JINJA_PLAIN);
        if (l)
            *l = *v.list;
        v.list->n = v.list->room = 0;
        return l;
    case JINJA_DICT:
        l = tft_jinja_list(x, JINJA_PLAIN);
        if (l)
            *l = (struct jinja_list){.item = v.dict->key, .n = v.dict->n};
        return l;
    default:
        tft_jinja_fail(x, TFT_ERR_FORMAT, "cannot loop over a %s", tft_jinja_type(v));
        return NULL;
    }
}
