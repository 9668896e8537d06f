/* Methods of strings, lists and dicts. */
#include "jinja.h"

#include <string.h>

#include "base/utf8.h"

typedef struct jinja_value method_fn(struct jinja *x, struct jinja_value self,
                                     const struct jinja_args *a);

/* The string argument at `index`. NULL: absent; a failure unless `optional`. */
static const struct jinja_string *text_arg(struct jinja *x, const struct jinja_args *a,
                                           size_t index, const char *name, bool optional)
{
    struct jinja_value v = tft_jinja_arg(a, index, name, tft_jinja_none);
    if (v.kind != JINJA_STRING && !(optional && v.kind == JINJA_NONE))
        tft_jinja_fail(x, TFT_ERR_FORMAT, "the argument is not a string but a %s",
                       tft_jinja_type(v));
    return v.kind == JINJA_STRING ? v.string : NULL;
}

/* ---- splitting */

/* Splits at white space into `most` parts; the rest is one more part. */
static void split_words(struct jinja *x, const struct jinja_string *s, int64_t most,
                        struct jinja_list *out)
{
    size_t at = 0, n;
    uint32_t c;
    while (x->status == TFT_OK) {
        for (; at < s->n; at += n) {
            n = tft_utf8_next(s->p + at, s->n - at, &c);
            if (!tft_jinja_space(c))
                break;
        }
        size_t begin = at;
        for (; at < s->n; at += n) {
            n = tft_utf8_next(s->p + at, s->n - at, &c);
            if (tft_jinja_space(c) && (most < 0 || (int64_t)out->n < most))
                break;
        }
        if (begin == s->n)
            break;
        tft_jinja_push(x, out, tft_jinja_part(x, s, begin, at));
    }
}

static struct jinja_value split(struct jinja *x, struct jinja_value self,
                                const struct jinja_args *a)
{
    const struct jinja_string *s = self.string, *by = text_arg(x, a, 0, "sep", true);
    struct jinja_value count = tft_jinja_arg(a, 1, "maxsplit", tft_jinja_int(-1));
    struct jinja_list *l = tft_jinja_list(x, JINJA_PLAIN);
    int64_t most = count.kind == JINJA_INT ? count.integer : -1;
    size_t begin = 0;
    if (!tft_jinja_spend(x, s->n / 16))
        return self;
    if (!by) {
        split_words(x, s, most, l);
        return tft_jinja_list_value(l);
    }
    if (!by->n)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "split: the separator is empty");
    for (; most != 0 && x->status == TFT_OK; most -= most > 0) {
        size_t at = tft_jinja_search(x, s, begin, by);
        if (at > s->n)
            break;
        tft_jinja_push(x, l, tft_jinja_part(x, s, begin, at));
        begin = at + by->n;
    }
    tft_jinja_push(x, l, tft_jinja_part(x, s, begin, s->n));
    return tft_jinja_list_value(l);
}

/* The last occurrence of `what` in s[0, end); SIZE_MAX if absent. */
static size_t search_back(struct jinja *x, const struct jinja_string *s, size_t end,
                          const struct jinja_string *what)
{
    for (size_t at = end + 1; at-- > what->n && tft_jinja_spend(x, 1 + what->n / 16);)
        if (memcmp(s->p + at - what->n, what->p, what->n) == 0)
            return at - what->n;
    return SIZE_MAX;
}

static struct jinja_value rsplit(struct jinja *x, struct jinja_value self,
                                 const struct jinja_args *a)
{
    const struct jinja_string *s = self.string, *by = text_arg(x, a, 0, "sep", false);
    struct jinja_value count = tft_jinja_arg(a, 1, "maxsplit", tft_jinja_int(-1));
    struct jinja_list *back = tft_jinja_list(x, JINJA_PLAIN), *l = tft_jinja_list(x, JINJA_PLAIN);
    int64_t most = count.kind == JINJA_INT ? count.integer : -1;
    size_t end = s->n;
    if (x->status != TFT_OK)
        return self;
    if (!by->n)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "split: the separator is empty");
    for (; most != 0 && x->status == TFT_OK; most -= most > 0) {
        size_t at = search_back(x, s, end, by);
        if (at == SIZE_MAX)
            break;
        tft_jinja_push(x, back, tft_jinja_part(x, s, at + by->n, end));
        end = at;
    }
    tft_jinja_push(x, l, tft_jinja_part(x, s, 0, end));
    for (size_t i = back->n; i-- > 0 && x->status == TFT_OK;)
        tft_jinja_push(x, l, back->item[i]);
    return tft_jinja_list_value(l);
}

/* ---- strings */

static struct jinja_value strip(struct jinja *x, struct jinja_value self,
                                const struct jinja_args *a)
{
    return tft_jinja_strip(x, self.string, text_arg(x, a, 0, "", true), true, true);
}

static struct jinja_value lstrip(struct jinja *x, struct jinja_value self,
                                 const struct jinja_args *a)
{
    return tft_jinja_strip(x, self.string, text_arg(x, a, 0, "", true), true, false);
}

static struct jinja_value rstrip(struct jinja *x, struct jinja_value self,
                                 const struct jinja_args *a)
{
    return tft_jinja_strip(x, self.string, text_arg(x, a, 0, "", true), false, true);
}

/* Whether s begins, or ends, with the argument, or with one of a tuple. */
static struct jinja_value is_at(struct jinja *x, const struct jinja_string *s,
                                const struct jinja_args *a, bool end)
{
    struct jinja_value v = tft_jinja_arg(a, 0, "", tft_jinja_none);
    struct jinja_list one = {.item = &v, .n = 1};
    const struct jinja_list *l =
        v.kind == JINJA_LIST && v.list->kind == JINJA_TUPLE ? v.list : &one;
    for (size_t i = 0; i < l->n && x->status == TFT_OK; i++) {
        if (l->item[i].kind != JINJA_STRING)
            return tft_jinja_fail(x, TFT_ERR_FORMAT, "a string cannot begin or end with a %s",
                                  tft_jinja_type(l->item[i]));
        const struct jinja_string *t = l->item[i].string;
        tft_jinja_spend(x, 1 + t->n / 16);
        if (t->n <= s->n && (!t->n || memcmp(s->p + (end ? s->n - t->n : 0), t->p, t->n) == 0))
            return tft_jinja_bool(true);
    }
    return tft_jinja_bool(false);
}

static struct jinja_value startswith(struct jinja *x, struct jinja_value self,
                                     const struct jinja_args *a)
{
    return is_at(x, self.string, a, false);
}

static struct jinja_value endswith(struct jinja *x, struct jinja_value self,
                                   const struct jinja_args *a)
{
    return is_at(x, self.string, a, true);
}

static struct jinja_value replace(struct jinja *x, struct jinja_value self,
                                  const struct jinja_args *a)
{
    const struct jinja_string *from = text_arg(x, a, 0, "old", false),
                              *to = text_arg(x, a, 1, "new", false);
    struct jinja_value count = tft_jinja_arg(a, 2, "count", tft_jinja_int(-1));
    return from && to ? tft_jinja_replace(x, self.string, from, to,
                                          count.kind == JINJA_INT ? count.integer : -1)
                      : self;
}

static struct jinja_value upper(struct jinja *x, struct jinja_value self,
                                const struct jinja_args *a)
{
    (void)a;
    return tft_jinja_cased(x, self.string, JINJA_UPPER);
}

static struct jinja_value lower(struct jinja *x, struct jinja_value self,
                                const struct jinja_args *a)
{
    (void)a;
    return tft_jinja_cased(x, self.string, JINJA_LOWER);
}

static struct jinja_value title(struct jinja *x, struct jinja_value self,
                                const struct jinja_args *a)
{
    (void)a;
    return tft_jinja_cased(x, self.string, JINJA_TITLE);
}

static struct jinja_value capitalize(struct jinja *x, struct jinja_value self,
                                     const struct jinja_args *a)
{
    (void)a;
    return tft_jinja_cased(x, self.string, JINJA_CAPITALIZE);
}

/* The argument of {FIELD} in format(): the next one, or by number, or by name. */
static const struct jinja_value *field(const struct jinja_args *a, const char *p, size_t n,
                                       size_t *next)
{
    size_t index = n ? 0 : (*next)++;
    for (size_t i = 0; i < n && index < a->n; i++)
        index = p[i] >= '0' && p[i] <= '9' ? index * 10 + (size_t)(p[i] - '0') : SIZE_MAX;
    if (index < a->n)
        return &a->value[index];
    for (size_t i = 0; i < a->n_named; i++)
        if (a->name[i]->n == n && memcmp(a->name[i]->p, p, n) == 0)
            return &a->named[i];
    return NULL;
}

static struct jinja_value format(struct jinja *x, struct jinja_value self,
                                 const struct jinja_args *a)
{
    const struct jinja_string *s = self.string;
    struct jinja_buffer b = {0};
    size_t next = 0;
    for (size_t at = 0, end; at < s->n && x->status == TFT_OK; at = end) {
        char c = s->p[at];
        end = at + 1;
        if (c != '{' && c != '}') {
            while (end < s->n && s->p[end] != '{' && s->p[end] != '}')
                end++;
            tft_jinja_add(x, &b, tft_jinja_part(x, s, at, end).string);
        } else if (end < s->n && s->p[end] == c) {
            tft_jinja_add(x, &b, tft_jinja_part(x, s, at, end).string);
            end++;
        } else {
            while (c == '{' && end < s->n && s->p[end] != '}')
                end++;
            const struct jinja_value *v =
                c == '{' && end < s->n ? field(a, s->p + at + 1, end - at - 1, &next) : NULL;
            if (!v)
                return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED,
                                      "format: only {}, {0} and {name} are supported");
            tft_jinja_print(x, &b, *v);
            end++;
        }
    }
    return tft_jinja_finish(x, &b);
}

/* ---- dicts and lists */

static struct jinja_value get(struct jinja *x, struct jinja_value self, const struct jinja_args *a)
{
    struct jinja_value key = tft_jinja_arg(a, 0, "", tft_jinja_none);
    const struct jinja_value *found = tft_jinja_find(x, self.dict, key);
    return found ? *found : tft_jinja_arg(a, 1, "", tft_jinja_none);
}

/* keys() and values() share the dict's arrays: a template cannot change a dict. */
static struct jinja_value view(struct jinja *x, struct jinja_value *item, size_t n)
{
    struct jinja_list *l = tft_jinja_list(x, JINJA_VIEW);
    if (l)
        *l = (struct jinja_list){.item = item, .n = n, .kind = JINJA_VIEW};
    return tft_jinja_list_value(l);
}

static struct jinja_value keys(struct jinja *x, struct jinja_value self, const struct jinja_args *a)
{
    (void)a;
    return view(x, self.dict->key, self.dict->n);
}

static struct jinja_value values(struct jinja *x, struct jinja_value self,
                                 const struct jinja_args *a)
{
    (void)a;
    return view(x, self.dict->value, self.dict->n);
}

static struct jinja_value items(struct jinja *x, struct jinja_value self,
                                const struct jinja_args *a)
{
    static const struct jinja_string name = {.p = "items", .n = 5, .trusted = true};
    struct jinja_value v = tft_jinja_filter(x, &name, self, a);
    if (v.kind == JINJA_LIST)
        v.list->kind = JINJA_VIEW;
    return v;
}

static struct jinja_value append(struct jinja *x, struct jinja_value self,
                                 const struct jinja_args *a)
{
    tft_jinja_push(x, self.list, tft_jinja_arg(a, 0, "", tft_jinja_none));
    return tft_jinja_none;
}

static struct jinja_value pop(struct jinja *x, struct jinja_value self, const struct jinja_args *a)
{
    struct jinja_list *l = self.list;
    struct jinja_value at = tft_jinja_arg(a, 0, "", tft_jinja_int(-1)), v;
    int64_t n = (int64_t)l->n, i = at.kind != JINJA_INT ? n
                                   : at.integer < 0     ? at.integer + n
                                                        : at.integer;
    if (i < 0 || i >= n)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "pop: the list has no such item");
    v = l->item[i];
    for (; i + 1 < n && tft_jinja_spend(x, 1); i++)
        l->item[i] = l->item[i + 1];
    l->n--;
    return v;
}

/* ---- all */

static const struct {
    enum jinja_kind kind;
    const char *name;
    method_fn *run;
    size_t least, most; /* arguments */
    const char *args[4];
} methods[] = {
    {JINJA_STRING, "split", split, 0, 2, {"sep", "maxsplit", NULL}},
    {JINJA_STRING, "rsplit", rsplit, 0, 2, {"sep", "maxsplit", NULL}},
    {JINJA_STRING, "strip", strip, 0, 1, {NULL}},
    {JINJA_STRING, "lstrip", lstrip, 0, 1, {NULL}},
    {JINJA_STRING, "rstrip", rstrip, 0, 1, {NULL}},
    {JINJA_STRING, "startswith", startswith, 1, 1, {NULL}},
    {JINJA_STRING, "endswith", endswith, 1, 1, {NULL}},
    {JINJA_STRING, "replace", replace, 2, 3, {"count", NULL}},
    {JINJA_STRING, "upper", upper, 0, 0, {NULL}},
    {JINJA_STRING, "lower", lower, 0, 0, {NULL}},
    {JINJA_STRING, "title", title, 0, 0, {NULL}},
    {JINJA_STRING, "capitalize", capitalize, 0, 0, {NULL}},
    {JINJA_STRING, "format", format, 0, SIZE_MAX, {NULL}},
    {JINJA_DICT, "get", get, 1, 2, {NULL}},
    {JINJA_DICT, "keys", keys, 0, 0, {NULL}},
    {JINJA_DICT, "values", values, 0, 0, {NULL}},
    {JINJA_DICT, "items", items, 0, 0, {NULL}},
    {JINJA_LIST, "append", append, 1, 1, {NULL}},
    {JINJA_LIST, "pop", pop, 0, 1, {NULL}},
};

bool tft_jinja_method(struct jinja *x, struct jinja_value self, const struct jinja_string *name,
                      struct jinja_value *out)
{
    if (self.kind == JINJA_LIST && self.list->kind != JINJA_PLAIN)
        return false;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].kind == self.kind && tft_jinja_is(name, methods[i].name)) {
            struct jinja_callable *f = tft_jinja_take(x, 1, sizeof *f);
            if (!f)
                return false;
            *f = (struct jinja_callable){.name = methods[i].name, .self = self};
            *out = (struct jinja_value){.kind = JINJA_CALLABLE, .call = f};
            return true;
        }
    return false;
}

struct jinja_value tft_jinja_call_method(struct jinja *x, const struct jinja_callable *f,
                                         const struct jinja_args *a)
{
    size_t i = 0;
    while (methods[i].kind != f->self.kind || strcmp(methods[i].name, f->name) != 0)
        i++;
    if (methods[i].run != format)
        tft_jinja_check_args(x, f->name, a, methods[i].most, methods[i].args);
    if (a->n < methods[i].least)
        tft_jinja_fail(x, TFT_ERR_FORMAT, "%s: too few arguments", f->name);
    return x->status == TFT_OK ? methods[i].run(x, f->self, a) : tft_jinja_undefined;
}
