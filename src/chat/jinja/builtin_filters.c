/* Filters on one value. builtin_list_filters.c has the filters on lists. */
#include "jinja.h"

#include <string.h>

struct jinja_value tft_jinja_arg(const struct jinja_args *a, size_t index, const char *name,
                                 struct jinja_value otherwise)
{
    if (index < a->n)
        return a->value[index];
    for (size_t i = 0; i < a->n_named; i++)
        if (tft_jinja_is(a->name[i], name))
            return a->named[i];
    return otherwise;
}

bool tft_jinja_check_args(struct jinja *x, const char *what, const struct jinja_args *a,
                          size_t most, const char *const *names)
{
    for (size_t i = 0; i < a->n_named; i++) {
        size_t k = 0;
        while (names && names[k] && !tft_jinja_is(a->name[i], names[k]))
            k++;
        if (!names || !names[k])
            tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "%s: the argument %.*s is not supported", what,
                           (int)(a->name[i]->n < 40 ? a->name[i]->n : 40), a->name[i]->p);
    }
    if (a->n > most)
        tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "%s: more than %zu arguments", what, most);
    return x->status == TFT_OK;
}

static struct jinja_value length(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    (void)a;
    if (v.kind == JINJA_STRING)
        return tft_jinja_spend(x, v.string->n / 16)
                   ? tft_jinja_int((int64_t)tft_jinja_length(v.string))
                   : tft_jinja_undefined;
    if (v.kind == JINJA_LIST && v.list->kind != JINJA_GENERATOR)
        return tft_jinja_int((int64_t)v.list->n);
    if (v.kind == JINJA_DICT)
        return tft_jinja_int((int64_t)v.dict->n);
    if (v.kind == JINJA_UNDEFINED)
        return tft_jinja_int(0);
    return tft_jinja_fail(x, TFT_ERR_FORMAT, "a %s has no length", tft_jinja_type(v));
}

static struct jinja_value string(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    (void)a;
    return (struct jinja_value){.kind = JINJA_STRING, .string = tft_jinja_str(x, v)};
}

static struct jinja_value safe(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    (void)a;
    return tft_jinja_markup(x, tft_jinja_str(x, v));
}

static struct jinja_value otherwise(struct jinja *x, struct jinja_value v,
                                    const struct jinja_args *a)
{
    struct jinja_value other = tft_jinja_arg(a, 0, "default_value", tft_jinja_undefined),
                       falsy = tft_jinja_arg(a, 1, "boolean", tft_jinja_none);
    if (!a->n && other.kind == JINJA_UNDEFINED)
        other = tft_jinja_text(x, "");
    return v.kind == JINJA_UNDEFINED || (tft_jinja_true(x, falsy) && !tft_jinja_true(x, v)) ? other
                                                                                            : v;
}

static struct jinja_value trim(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    struct jinja_value set = tft_jinja_arg(a, 0, "chars", tft_jinja_none);
    return tft_jinja_strip(x, tft_jinja_str(x, v), set.kind == JINJA_STRING ? set.string : NULL,
                           true, true);
}

static struct jinja_value upper(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    (void)a;
    return tft_jinja_cased(x, tft_jinja_str(x, v), JINJA_UPPER);
}

static struct jinja_value lower(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    (void)a;
    return tft_jinja_cased(x, tft_jinja_str(x, v), JINJA_LOWER);
}

static struct jinja_value capitalize(struct jinja *x, struct jinja_value v,
                                     const struct jinja_args *a)
{
    (void)a;
    return tft_jinja_cased(x, tft_jinja_str(x, v), JINJA_CAPITALIZE);
}

static struct jinja_value title(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    (void)a;
    return tft_jinja_cased(x, tft_jinja_str(x, v), JINJA_TITLE_FILTER);
}

static struct jinja_value replace(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    struct jinja_value from = tft_jinja_arg(a, 0, "old", tft_jinja_none),
                       to = tft_jinja_arg(a, 1, "new", tft_jinja_none),
                       count = tft_jinja_arg(a, 2, "count", tft_jinja_int(-1));
    return tft_jinja_replace(x, tft_jinja_str(x, v), tft_jinja_str(x, from), tft_jinja_str(x, to),
                             count.kind == JINJA_INT ? count.integer : -1);
}

/* The number of an integer, or of a string of digits; otherwise the argument `default`. */
static struct jinja_value integer(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    struct jinja_value none = tft_jinja_arg(a, 0, "default", tft_jinja_int(0));
    if (v.kind == JINJA_INT || v.kind == JINJA_BIG)
        return v;
    if (v.kind == JINJA_BOOL)
        return tft_jinja_int(v.truth);
    if (v.kind == JINJA_FLOAT)
        return v.number > -9e18 && v.number < 9e18 ? tft_jinja_int((int64_t)v.number) : none;
    if (v.kind != JINJA_STRING)
        return none;
    v = tft_jinja_strip(x, v.string, NULL, true, true);
    const char *p = v.string ? v.string->p : NULL;
    size_t n = v.string ? v.string->n : 0, i = n && (*p == '-' || *p == '+'), first = i;
    int64_t number = 0;
    for (; i < n && p[i] >= '0' && p[i] <= '9' && i < 18; i++)
        number = number * 10 + (p[i] - '0');
    if (i < n && (p[i] == '.' || p[i] == '_' || p[i] == 'e' || (p[i] >= '0' && p[i] <= '9')))
        return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED,
                              "the filter int of this text is not "
                              "supported");
    return i < n || i == first ? none : tft_jinja_int(*p == '-' ? -number : number);
}

/* The length in bytes of the line break at `at` of s, by Python's splitlines; 0: none. */
static size_t line_break(const struct jinja_string *s, size_t at)
{
    static const char *const breaks[] = {"\r\n",     "\n",           "\r",          "\v",
                                         "\f",       "\x1c",         "\x1d",        "\x1e",
                                         "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        size_t n = strlen(breaks[i]);
        if (n <= s->n - at && memcmp(s->p + at, breaks[i], n) == 0)
            return n;
    }
    return 0;
}

static struct jinja_value indent(struct jinja *x, struct jinja_value v, const struct jinja_args *a)
{
    struct jinja_value width = tft_jinja_arg(a, 0, "width", tft_jinja_int(4));
    bool first = tft_jinja_true(x, tft_jinja_arg(a, 1, "first", tft_jinja_none)),
         blank = tft_jinja_true(x, tft_jinja_arg(a, 2, "blank", tft_jinja_none));
    const struct jinja_string *s = tft_jinja_str(x, v);
    struct jinja_buffer b = {0}, spaces = {0};
    for (int64_t i = 0; width.kind == JINJA_INT && i < width.integer && x->status == TFT_OK; i++)
        tft_jinja_add_text(x, &spaces, " ", 1, true);
    if (width.kind == JINJA_INT)
        width = tft_jinja_finish(x, &spaces);
    if (width.kind != JINJA_STRING)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "indent: a width is a number or a text");
    bool trusted = true, more = true; /* a line break at the end of the text begins one more line */
    for (size_t at = 0, line = 0; more && x->status == TFT_OK; line++) {
        size_t end = at, n = 0;
        while (end < s->n && !(n = line_break(s, end)))
            end++;
        if (line)
            tft_jinja_add_text(x, &b, "\n", 1, trusted);
        if (line ? blank || end > at : first)
            tft_jinja_add(x, &b, width.string);
        tft_jinja_add(x, &b, tft_jinja_part(x, s, at, end).string);
        at = end + n;
        more = n > 0;
        trusted = more && tft_jinja_trusts(s, end);
    }
    return tft_jinja_finish(x, &b);
}

static struct jinja_value from_json(struct jinja *x, struct jinja_value v,
                                    const struct jinja_args *a)
{
    (void)a;
    if (v.kind != JINJA_STRING)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "from_json of a %s", tft_jinja_type(v));
    return tft_jinja_read_json(x, v.string);
}

struct jinja_value tft_jinja_filter(struct jinja *x, const struct jinja_string *name,
                                    struct jinja_value v, const struct jinja_args *a)
{
    static const struct {
        const char *name;
        struct jinja_value (*run)(struct jinja *, struct jinja_value, const struct jinja_args *);
        size_t most;
        const char *args[4];
    } filters[] = {
        {"tojson", tft_jinja_tojson, 4, {"ensure_ascii", "indent", "separators", NULL}},
        {"length", length, 0, {NULL}},
        {"count", length, 0, {NULL}},
        {"trim", trim, 1, {"chars", NULL}},
        {"string", string, 0, {NULL}},
        {"default", otherwise, 2, {"default_value", "boolean", NULL}},
        {"d", otherwise, 2, {"default_value", "boolean", NULL}},
        {"lower", lower, 0, {NULL}},
        {"upper", upper, 0, {NULL}},
        {"capitalize", capitalize, 0, {NULL}},
        {"title", title, 0, {NULL}},
        {"replace", replace, 3, {"old", "new", "count", NULL}},
        {"safe", safe, 0, {NULL}},
        {"int", integer, 1, {"default", NULL}},
        {"indent", indent, 3, {"width", "first", "blank", NULL}},
        {"from_json", from_json, 0, {NULL}},
    };
    struct jinja_value out;
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (tft_jinja_is(name, filters[i].name)) {
            if (filters[i].run != tft_jinja_tojson)
                tft_jinja_check_args(x, filters[i].name, a, filters[i].most, filters[i].args);
            return x->status == TFT_OK ? filters[i].run(x, v, a) : v;
        }
    if (x->status == TFT_OK && tft_jinja_filter_list(x, name, v, a, &out))
        return out;
    return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "the filter %.*s is not supported",
                          (int)(name->n < 40 ? name->n : 40), name->p);
}
