/* Filters on lists. */
#include "jinja.h"

#include <stdlib.h>
#include <string.h>

/* The member that a path such as "function.name" leads to; digits are an index. */
static struct jinja_value by_path(struct jinja *x, struct jinja_value v, struct jinja_value path)
{
    if (path.kind != JINJA_STRING)
        return tft_jinja_item(x, v, path);
    const struct jinja_string *s = path.string;
    for (size_t at = 0, end; at <= s->n && x->status == TFT_OK; at = end + 1) {
        bool digits = true;
        for (end = at; end < s->n && s->p[end] != '.'; end++)
            digits &= s->p[end] >= '0' && s->p[end] <= '9';
        if (digits && end > at)
            return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "an index in a path is not supported");
        v = tft_jinja_item(x, v, tft_jinja_part(x, s, at, end));
    }
    return v;
}

/* The arguments from `from` on. */
static struct jinja_args rest(const struct jinja_args *a, size_t from)
{
    struct jinja_args r = *a;
    from = from < a->n ? from : a->n;
    r.value = from ? a->value + from : a->value;
    r.n = a->n - from;
    return r;
}

static struct jinja_value list(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    struct jinja_list *from = tft_jinja_iterate(x, v), *l = tft_jinja_list(x, JINJA_PLAIN);
    (void)a;
    for (size_t i = 0; from && i < from->n && x->status == TFT_OK; i++)
        tft_jinja_push(x, l, from->item[i]);
    return tft_jinja_list_value(l);
}

static struct jinja_value items(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    struct jinja_list *l = tft_jinja_list(x, JINJA_GENERATOR);
    (void)a;
    if (v.kind != JINJA_DICT && v.kind != JINJA_UNDEFINED)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "items of a %s", tft_jinja_type(v));
    for (size_t i = 0; v.kind == JINJA_DICT && i < v.dict->n && x->status == TFT_OK; i++) {
        struct jinja_list *pair = tft_jinja_list(x, JINJA_TUPLE);
        tft_jinja_push(x, pair, v.dict->key[i]);
        tft_jinja_push(x, pair, v.dict->value[i]);
        tft_jinja_push(x, l, tft_jinja_list_value(pair));
    }
    return tft_jinja_list_value(l);
}

static struct jinja_value join(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    struct jinja_list *l = tft_jinja_iterate(x, v);
    struct jinja_value by = tft_jinja_arg(a, 1, "attribute", tft_jinja_none),
                       sum = tft_jinja_text(x, ""),
                       between = tft_jinja_arg(a, 0, "d", tft_jinja_text(x, ""));
    const struct jinja_string *d = tft_jinja_str(x, between);
    struct jinja_buffer b = {0};
    for (size_t i = 0; l && i < l->n && tft_jinja_spend(x, 1); i++) {
        struct jinja_value item = by.kind == JINJA_NONE ? l->item[i] : by_path(x, l->item[i], by);
        if (i)
            tft_jinja_add(x, &b, d);
        tft_jinja_add(x, &b, tft_jinja_str(x, item));
    }
    return b.n ? tft_jinja_finish(x, &b) : sum;
}

static struct jinja_value end_of(struct jinja *x, struct jinja_value v, bool last)
{
    if (last && v.kind == JINJA_LIST && v.list->kind == JINJA_GENERATOR)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "last of a generator");
    struct jinja_list *l = tft_jinja_iterate(x, v);
    return l && l->n ? l->item[last ? l->n - 1 : 0] : tft_jinja_undefined;
}

static struct jinja_value first(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    (void)a;
    return end_of(x, v, false);
}

static struct jinja_value last(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    (void)a;
    return end_of(x, v, true);
}

/* ---- choosing */

/* The items of v for map, select and the like; a false value, such as none, has no items. */
static struct jinja_list *items_of(struct jinja *x, struct jinja_value v)
{
    return tft_jinja_true(x, v) ? tft_jinja_iterate(x, v) : tft_jinja_list(x, JINJA_PLAIN);
}

/* map(attribute="a", default=...), or map("filter", ...) */
static struct jinja_value map(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    struct jinja_list *from = items_of(x, v), *l = tft_jinja_list(x, JINJA_GENERATOR);
    struct jinja_args more = rest(a, 1);
    static const char *const names[] = {"attribute", "default", NULL};
    struct jinja_value by = tft_jinja_arg(a, SIZE_MAX, "attribute", tft_jinja_undefined),
                       other = tft_jinja_arg(a, SIZE_MAX, "default", tft_jinja_undefined);
    if (!a->n && !tft_jinja_check_args(x, "map", a, 0, names))
        return v;
    if (a->n ? a->value[0].kind != JINJA_STRING : by.kind == JINJA_UNDEFINED)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "map: a filter or an attribute is expected");
    if (a->n && tft_jinja_is(a->value[0].string, "map")) /* it would recurse once for each
                                                            argument */
        return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "map of the filter map is not supported");
    for (size_t i = 0; from && i < from->n && x->status == TFT_OK; i++) {
        struct jinja_value item =
            a->n ? tft_jinja_filter(x, a->value[0].string, from->item[i], &more)
                 : by_path(x, from->item[i], by);
        tft_jinja_push(x, l, item.kind == JINJA_UNDEFINED && !a->n ? other : item);
    }
    return tft_jinja_list_value(l);
}

/* The items that pass the test (select) or fail it (reject); selectattr and rejectattr test
   an attribute of each item. */
static struct jinja_value choose(struct jinja *x, struct jinja_value v, const struct jinja_args *a,
                                 bool by_attribute, bool wanted)
{
    struct jinja_list *from = items_of(x, v), *l = tft_jinja_list(x, JINJA_GENERATOR);
    struct jinja_args tail = rest(a, by_attribute), more = rest(&tail, 1);
    if ((by_attribute && !a->n) || (tail.n && tail.value[0].kind != JINJA_STRING))
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "select or reject: a name is expected");
    for (size_t i = 0; from && i < from->n && tft_jinja_spend(x, 1); i++) {
        struct jinja_value item = from->item[i];
        if (by_attribute)
            item = by_path(x, item, a->value[0]);
        bool holds =
            tail.n ? tft_jinja_test(x, tail.value[0].string, item, &more) : tft_jinja_true(x, item);
        if (holds == wanted)
            tft_jinja_push(x, l, from->item[i]);
    }
    return tft_jinja_list_value(l);
}

static struct jinja_value select_(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    return choose(x, v, a, false, true);
}

static struct jinja_value reject(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    return choose(x, v, a, false, false);
}

static struct jinja_value selectattr(struct jinja *x, struct jinja_value v,
                                     const struct jinja_args *a)
{
    return choose(x, v, a, true, true);
}

static struct jinja_value rejectattr(struct jinja *x, struct jinja_value v,
                                     const struct jinja_args *a)
{
    return choose(x, v, a, true, false);
}

/* ---- sorting */

/* The sort key of an item: its attribute, in lower case unless case counts. */
static struct jinja_value sort_key(struct jinja *x, struct jinja_value v, struct jinja_value by,
                                   bool case_counts)
{
    if (by.kind == JINJA_STRING && by.string->n && memchr(by.string->p, ',', by.string->n))
        return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED,
                              "sorting by several attributes is not supported");
    if (by.kind != JINJA_NONE)
        v = by_path(x, v, by);
    return v.kind == JINJA_STRING && !case_counts ? tft_jinja_cased(x, v.string, JINJA_LOWER) : v;
}

/* Sorts the items by their keys; the sort is stable. */
static void sort_by(struct jinja *x, struct jinja_list *l, struct jinja_list *keys, bool reverse)
{
    for (size_t i = 1; keys && i < l->n && x->status == TFT_OK; i++) {
        struct jinja_value item = l->item[i], key = keys->item[i];
        size_t at = i;
        for (; at && tft_jinja_spend(x, 1); at--) {
            int c = tft_jinja_compare(x, keys->item[at - 1], key);
            if (reverse ? c >= 0 : c <= 0)
                break;
            l->item[at] = l->item[at - 1];
            keys->item[at] = keys->item[at - 1];
        }
        l->item[at] = item;
        keys->item[at] = key;
    }
}

static struct jinja_value sorted(struct jinja *x, struct jinja_list *l, struct jinja_value by,
                                 bool case_counts, bool reverse)
{
    struct jinja_list *keys = tft_jinja_list(x, JINJA_PLAIN);
    for (size_t i = 0; i < l->n && x->status == TFT_OK; i++)
        tft_jinja_push(x, keys, sort_key(x, l->item[i], by, case_counts));
    if (x->status == TFT_OK)
        sort_by(x, l, keys, reverse);
    return tft_jinja_list_value(l);
}

static struct jinja_value sort(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    bool reverse = tft_jinja_true(x, tft_jinja_arg(a, 0, "reverse", tft_jinja_none)),
         case_counts = tft_jinja_true(x, tft_jinja_arg(a, 1, "case_sensitive", tft_jinja_none));
    struct jinja_value l = list(x, v, a);
    return x->status == TFT_OK ? sorted(x, l.list, tft_jinja_arg(a, 2, "attribute", tft_jinja_none),
                                        case_counts, reverse)
                               : v;
}

static struct jinja_value dictsort(struct jinja *x, struct jinja_value v,
                                   const struct jinja_args *a)
{
    bool case_counts = tft_jinja_true(x, tft_jinja_arg(a, 0, "case_sensitive", tft_jinja_none)),
         reverse = tft_jinja_true(x, tft_jinja_arg(a, 2, "reverse", tft_jinja_none));
    struct jinja_value by = tft_jinja_arg(a, 1, "by", tft_jinja_text(x, "key"));
    if (v.kind != JINJA_DICT)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "dictsort of a %s", tft_jinja_type(v));
    if (by.kind != JINJA_STRING ||
        (!tft_jinja_is(by.string, "key") && !tft_jinja_is(by.string, "value")))
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "dictsort: by is \"key\" or \"value\"");
    struct jinja_value l = items(x, v, a);
    if (x->status != TFT_OK)
        return v;
    l.list->kind = JINJA_PLAIN;
    return sorted(x, l.list, tft_jinja_int(tft_jinja_is(by.string, "value")), case_counts, reverse);
}

static struct jinja_value unique(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    struct jinja_list *from = tft_jinja_iterate(x, v), *l = tft_jinja_list(x, JINJA_GENERATOR);
    struct jinja_dict *seen = tft_jinja_dict(x);
    bool case_counts = tft_jinja_true(x, tft_jinja_arg(a, 0, "case_sensitive", tft_jinja_none));
    struct jinja_value by = tft_jinja_arg(a, 1, "attribute", tft_jinja_none);
    for (size_t i = 0; from && i < from->n && x->status == TFT_OK; i++) {
        struct jinja_value key = sort_key(x, from->item[i], by, case_counts);
        if (tft_jinja_find(x, seen, key))
            continue;
        tft_jinja_put(x, seen, key, key);
        tft_jinja_push(x, l, from->item[i]);
    }
    return tft_jinja_list_value(l);
}

static struct jinja_value extreme(struct jinja *x, struct jinja_value v, const struct jinja_args *a,
                                  int sign)
{
    struct jinja_list *l = tft_jinja_iterate(x, v);
    bool case_counts = tft_jinja_true(x, tft_jinja_arg(a, 0, "case_sensitive", tft_jinja_none));
    struct jinja_value by = tft_jinja_arg(a, 1, "attribute", tft_jinja_none),
                       best = tft_jinja_undefined, best_key = tft_jinja_undefined;
    for (size_t i = 0; l && i < l->n && tft_jinja_spend(x, 1); i++) {
        struct jinja_value key = sort_key(x, l->item[i], by, case_counts);
        if (!i || tft_jinja_compare(x, key, best_key) * sign > 0) {
            best = l->item[i];
            best_key = key;
        }
    }
    return best;
}

static struct jinja_value least(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    return extreme(x, v, a, -1);
}

static struct jinja_value most(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    return extreme(x, v, a, 1);
}

bool tft_jinja_filter_list(struct jinja *x, const struct jinja_string *name, struct jinja_value v,
                           const struct jinja_args *a, struct jinja_value *out)
{
    static const struct {
        const char *name;
        struct jinja_value (*run)(struct jinja *, struct jinja_value, const struct jinja_args *);
        const char *args[4]; /* empty: the filter checks its arguments */
    } filters[] = {
        {"list", list, {NULL}},
        {"items", items, {NULL}},
        {"join", join, {"d", "attribute", NULL}},
        {"first", first, {NULL}},
        {"last", last, {NULL}},
        {"map", map, {"", NULL}},
        {"select", select_, {"", NULL}},
        {"reject", reject, {"", NULL}},
        {"selectattr", selectattr, {"", NULL}},
        {"rejectattr", rejectattr, {"", NULL}},
        {"sort", sort, {"reverse", "case_sensitive", "attribute", NULL}},
        {"dictsort", dictsort, {"case_sensitive", "by", "reverse", NULL}},
        {"unique", unique, {"case_sensitive", "attribute", NULL}},
        {"min", least, {"case_sensitive", "attribute", NULL}},
        {"max", most, {"case_sensitive", "attribute", NULL}},
    };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (tft_jinja_is(name, filters[i].name)) {
            const char *const *args = filters[i].args;
            size_t n = 0;
            while (args[n])
                n++;
            *out = v;
            if (n && !*args[0] ? x->status == TFT_OK
                               : tft_jinja_check_args(x, filters[i].name, a, n, args))
                *out = filters[i].run(x, v, a);
            return true;
        }
    return false;
}
