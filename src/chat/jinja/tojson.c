/* The filter tojson: Python's json.dumps, with ensure_ascii=False by default. */
#include "jinja.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

struct writer {
    struct jinja *x;
    struct jinja_buffer b;
    const struct jinja_string *indent; /* NULL: one line */
    struct jinja_value item, key;      /* separators */
    bool sort, ascii;
    unsigned level; /* the number of lists and dicts around the value */
};

static void put(struct writer *w, const char *p)
{
    tft_jinja_add_text(w->x, &w->b, p, strlen(p), false);
}

static bool is_plain(const struct writer *w, char c)
{
    unsigned char byte = (unsigned char)c;
    return byte >= 0x20 && c != '"' && c != '\\' && !(w->ascii && byte >= 0x7f);
}

/* Writes the escape of the character at p, and returns the character's length in bytes. A character
   beyond U+FFFF becomes two UTF-16 units. A byte that is not UTF-8 becomes U+FFFD. */
static size_t write_escape(struct writer *w, const char *p, size_t n)
{
    static const char names[] = "\"\\bfnrt", chars[] = "\"\\\b\f\n\r\t";
    const char *name = *p ? strchr(chars, *p) : NULL;
    char text[16];
    uint32_t c;
    size_t len = tft_utf8_next(p, n, &c);
    if (c >= TFT_UTF8_BAD)
        c = 0xfffd;
    if (name)
        snprintf(text, sizeof text, "\\%c", names[name - chars]);
    else if (c > 0xffff)
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + (unsigned)((c - 0x10000) >> 10),
                 0xdc00 + (unsigned)(c & 0x3ff));
    else
        snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    put(w, text);
    return len;
}

static void write_string(struct writer *w, const struct jinja_string *s)
{
    put(w, "\"");
    for (size_t at = 0; at < s->n && w->x->status == TFT_OK;) {
        size_t from = at;
        while (at < s->n && is_plain(w, s->p[at]))
            at++;
        if (at > from)
            tft_jinja_add(w->x, &w->b, tft_jinja_part(w->x, s, from, at).string);
        if (at < s->n)
            at += write_escape(w, s->p + at, s->n - at);
    }
    put(w, "\"");
}

static void new_line(struct writer *w)
{
    if (w->indent)
        put(w, "\n");
    for (unsigned i = 0; w->indent && i < w->level && w->x->status == TFT_OK; i++)
        tft_jinja_add(w->x, &w->b, w->indent);
}

static void write_value(struct writer *w, struct jinja_value v);

static void write_key(struct writer *w, struct jinja_value key)
{
    if (key.kind == JINJA_STRING) {
        write_string(w, key.string);
    } else if (key.kind >= JINJA_NONE && key.kind <= JINJA_FLOAT) {
        put(w, "\"");
        write_value(w, key);
        put(w, "\"");
    } else {
        tft_jinja_fail(w->x, TFT_ERR_FORMAT, "tojson: a key is a %s", tft_jinja_type(key));
    }
}

/* The order of the keys of d, sorted or not; NULL after a failure. */
static size_t *key_order(struct writer *w, const struct jinja_dict *d)
{
    size_t *order = tft_jinja_take(w->x, d->n ? d->n : 1, sizeof *order);
    for (size_t i = 0; order && i < d->n; i++) {
        size_t at = i;
        while (w->sort && at && tft_jinja_spend(w->x, 1) &&
               tft_jinja_compare(w->x, d->key[order[at - 1]], d->key[i]) > 0) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    return order;
}

static void write_all(struct writer *w, const struct jinja_list *l, const struct jinja_dict *d)
{
    size_t n = l ? l->n : d->n, *order = l ? NULL : key_order(w, d);
    put(w, l ? "[" : "{");
    w->level++;
    for (size_t i = 0; i < n && w->x->status == TFT_OK; i++) {
        if (i)
            tft_jinja_add(w->x, &w->b, w->item.string);
        new_line(w);
        if (d) {
            write_key(w, d->key[order[i]]);
            tft_jinja_add(w->x, &w->b, w->key.string);
        }
        write_value(w, l ? l->item[i] : d->value[order[i]]);
    }
    w->level--;
    if (n)
        new_line(w);
    put(w, l ? "]" : "}");
}

static void write_value(struct writer *w, struct jinja_value v)
{
    switch (v.kind) {
    case JINJA_NONE: put(w, "null"); break;
    case JINJA_BOOL: put(w, v.truth ? "true" : "false"); break;
    case JINJA_FLOAT: tft_jinja_print_number(w->x, &w->b, v.number, true); break;
    case JINJA_INT:
    case JINJA_BIG: tft_jinja_print(w->x, &w->b, v); break;
    case JINJA_STRING: write_string(w, v.string); break;
    case JINJA_LIST:
    case JINJA_DICT:
        if (v.kind == JINJA_LIST && v.list->kind > JINJA_TUPLE)
            break;
        if (tft_jinja_enter(w->x))
            write_all(w, v.kind == JINJA_LIST ? v.list : NULL,
                      v.kind == JINJA_LIST ? NULL : v.dict);
        tft_jinja_leave(w->x);
        return;
    default: break;
    }
    if (v.kind == JINJA_LIST || v.kind == JINJA_UNDEFINED || v.kind > JINJA_DICT)
        tft_jinja_fail(w->x, TFT_ERR_FORMAT, "tojson: a %s is not JSON", tft_jinja_type(v));
}

/* The argument `indent`: a string, a number of spaces, or none. */
static const struct jinja_string *indent_of(struct jinja *x, struct jinja_value v)
{
    struct jinja_buffer b = {0};
    if (v.kind == JINJA_NONE)
        return NULL;
    for (int64_t i = 0; v.kind == JINJA_INT && i < v.integer && x->status == TFT_OK; i++)
        tft_jinja_add_text(x, &b, " ", 1, false);
    if (v.kind == JINJA_INT)
        v = tft_jinja_finish(x, &b);
    if (v.kind != JINJA_STRING)
        tft_jinja_fail(x, TFT_ERR_FORMAT, "tojson: indent is a %s", tft_jinja_type(v));
    return v.kind == JINJA_STRING ? v.string : NULL;
}

struct jinja_value tft_jinja_tojson(struct jinja *x, struct jinja_value v,
                                    const struct jinja_args *a)
{
    static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys", NULL};
    struct writer w = {.x = x};
    if (!tft_jinja_check_args(x, "tojson", a, 4, names))
        return tft_jinja_undefined;
    w.ascii = tft_jinja_true(x, tft_jinja_arg(a, 0, "ensure_ascii", tft_jinja_none));
    w.indent = indent_of(x, tft_jinja_arg(a, 1, "indent", tft_jinja_none));
    w.sort = tft_jinja_true(x, tft_jinja_arg(a, 3, "sort_keys", tft_jinja_none));
    w.item = tft_jinja_string(x, w.indent ? "," : ", ", w.indent ? 1 : 2, false);
    w.key = tft_jinja_string(x, ": ", 2, false);
    struct jinja_value s = tft_jinja_arg(a, 2, "separators", tft_jinja_none);
    if (s.kind == JINJA_LIST && s.list->n == 2) {
        w.item = s.list->item[0];
        w.key = s.list->item[1];
    }
    if ((s.kind != JINJA_NONE && (s.kind != JINJA_LIST || s.list->n != 2)) ||
        w.item.kind != JINJA_STRING || w.key.kind != JINJA_STRING)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "tojson: separators are two strings");
    write_value(&w, v);
    return tft_jinja_finish(x, &w.b);
}
