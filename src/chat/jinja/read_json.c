/* Reads JSON (RFC 8259): messages and tools. */
#include "jinja.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/utf8.h"

struct reader {
    struct jinja *x;
    const struct jinja_string *s;
    size_t at;
};

static struct jinja_value wrong(struct reader *r, const char *what)
{
    size_t line = 1, start = 0;
    for (size_t i = 0; i < r->at && i < r->s->n; i++)
        if (r->s->p[i] == '\n') {
            line++;
            start = i + 1;
        }
    return tft_jinja_fail(r->x, TFT_ERR_ARG, "JSON: line %zu, column %zu: %s", line,
                          r->at - start + 1, what);
}

static void skip_space(struct reader *r)
{
    while (r->at < r->s->n && r->s->p[r->at] && strchr(" \t\r\n", r->s->p[r->at]))
        r->at++;
}

static bool skip(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    bool there = n <= r->s->n - r->at && memcmp(r->s->p + r->at, word, n) == 0;
    r->at += there ? n : 0;
    return there;
}

/* Reads the four hexadecimal digits of \u; UINT32_MAX if invalid. */
static uint32_t read_hex(struct reader *r)
{
    uint32_t c = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        int digit = r->at < r->s->n ? tft_hex_digit(r->s->p[r->at]) : -1;
        if (digit < 0)
            return UINT32_MAX;
        c = c * 16 + (uint32_t)digit;
    }
    return c;
}

enum { HALF = 0xd800 };

/* Half of a surrogate pair becomes U+FFFD, or HALF where the text must be exact. */
static uint32_t read_unicode(struct reader *r)
{
    uint32_t c = read_hex(r);
    size_t after = r->at;
    if (c < 0xd800 || c > 0xdfff)
        return c;
    uint32_t low = c < 0xdc00 && skip(r, "\\u") ? read_hex(r) : 0;
    if (low >= 0xdc00 && low <= 0xdfff)
        return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    r->at = after;
    return r->x->exact ? HALF : 0xfffd;
}

static void read_escape(struct reader *r, struct jinja_buffer *b)
{
    static const char names[] = "\"\\/bfnrt", chars[] = "\"\\/\b\f\n\r\t";
    char p[4];
    char c = r->at < r->s->n ? r->s->p[r->at++] : 0;
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        tft_jinja_add_text(r->x, b, &chars[name - names], 1, false);
        return;
    }
    uint32_t code = c == 'u' ? read_unicode(r) : UINT32_MAX;
    if (code == UINT32_MAX)
        wrong(r, "not an escape sequence");
    else if (code == HALF)
        wrong(r, "half of a surrogate pair, which is no character");
    else
        tft_jinja_add_text(r->x, b, p, tft_utf8_put(p, code), false);
}

static struct jinja_value read_string(struct reader *r)
{
    struct jinja_buffer b = {0};
    for (r->at++; r->at < r->s->n && r->s->p[r->at] != '"' && r->x->status == TFT_OK;) {
        size_t from = r->at;
        while (r->at < r->s->n && r->s->p[r->at] != '"' && r->s->p[r->at] != '\\' &&
               (unsigned char)r->s->p[r->at] >= 0x20)
            r->at++;
        tft_jinja_add_text(r->x, &b, r->s->p + from, r->at - from, false);
        if (r->at < r->s->n && r->s->p[r->at] == '\\') {
            r->at++;
            read_escape(r, &b);
        } else if (r->at < r->s->n && r->s->p[r->at] != '"') {
            return wrong(r, "a control character in a string");
        }
    }
    if (r->at >= r->s->n)
        return wrong(r, "the string does not end");
    r->at++;
    return tft_jinja_finish(r->x, &b);
}

static size_t skip_digits(struct reader *r)
{
    size_t from = r->at;
    while (r->at < r->s->n && r->s->p[r->at] >= '0' && r->s->p[r->at] <= '9')
        r->at++;
    return r->at - from;
}

/* strtod needs the locale's decimal point. */
static double read_float(const char *p, size_t n)
{
    char text[400], half[8];
    double number;
    snprintf(half, sizeof half, "%.1f", 0.5);
    if (n >= sizeof text) /* further digits do not change a double, but the exponent does */
        return NAN;
    memcpy(text, p, n);
    text[n] = 0;
    char *point = strchr(text, '.');
    if (point)
        *point = half[1];
    number = strtod(text, NULL);
    return number;
}

static struct jinja_value read_number(struct reader *r)
{
    size_t from = r->at;
    bool minus = skip(r, "-"), whole = true;
    size_t first = r->at, digits = skip_digits(r);
    if (!digits || (digits > 1 && r->s->p[first] == '0'))
        return wrong(r, "not a value");
    if (skip(r, ".")) {
        whole = false;
        if (!skip_digits(r))
            return wrong(r, "no digits after the decimal point");
    }
    if (skip(r, "e") || skip(r, "E")) {
        whole = false;
        if (!skip(r, "-"))
            skip(r, "+");
        if (!skip_digits(r))
            return wrong(r, "a number without its exponent");
    }
    const char *p = r->s->p + from;
    size_t n = r->at - from;
    if (whole && digits <= 18) {
        int64_t value = 0;
        for (size_t i = 0; i < digits; i++)
            value = value * 10 + (r->s->p[first + i] - '0');
        return tft_jinja_int(minus ? -value : value);
    }
    if (whole) {
        struct jinja_value v = tft_jinja_string(r->x, p, n, true);
        v.kind = v.kind == JINJA_STRING ? JINJA_BIG : v.kind;
        return v;
    }
    double number = read_float(p, n);
    return isnan(number) ? wrong(r, "a number of this length is not supported")
                         : tft_jinja_float(number);
}

static struct jinja_value read_value(struct reader *r);

static struct jinja_value read_list(struct reader *r)
{
    struct jinja_list *l = tft_jinja_list(r->x, JINJA_PLAIN);
    r->at++;
    skip_space(r);
    if (skip(r, "]"))
        return tft_jinja_list_value(l);
    do {
        tft_jinja_push(r->x, l, read_value(r));
        skip_space(r);
    } while (r->x->status == TFT_OK && skip(r, ","));
    return skip(r, "]") ? tft_jinja_list_value(l) : wrong(r, "expected , or ] in a list");
}

static struct jinja_value read_dict(struct reader *r)
{
    struct jinja_dict *d = tft_jinja_dict(r->x);
    struct jinja_value value = {.kind = JINJA_DICT, .dict = d};
    r->at++;
    skip_space(r);
    if (skip(r, "}"))
        return value;
    do {
        skip_space(r);
        if (r->at >= r->s->n || r->s->p[r->at] != '"')
            return wrong(r, "a name is expected");
        struct jinja_value key = read_string(r);
        skip_space(r);
        if (!skip(r, ":"))
            return wrong(r, "a name is followed by :");
        tft_jinja_put(r->x, d, key, read_value(r));
        skip_space(r);
    } while (r->x->status == TFT_OK && skip(r, ","));
    return skip(r, "}") ? value : wrong(r, "expected , or } in an object");
}

static struct jinja_value read_value(struct reader *r)
{
    struct jinja_value v;
    skip_space(r);
    char c = r->at < r->s->n ? r->s->p[r->at] : 0;
    if (!tft_jinja_enter(r->x) || !tft_jinja_spend(r->x, 1))
        v = tft_jinja_undefined;
    else if (c == '"')
        v = read_string(r);
    else if (c == '[')
        v = read_list(r);
    else if (c == '{')
        v = read_dict(r);
    else if (skip(r, "true") || skip(r, "false"))
        v = tft_jinja_bool(c == 't');
    else
        v = skip(r, "null") ? tft_jinja_none : read_number(r);
    tft_jinja_leave(r->x);
    return v;
}

struct jinja_value tft_jinja_read_json(struct jinja *x, const struct jinja_string *s)
{
    struct reader r = {.x = x, .s = s};
    struct jinja_value v = read_value(&r);
    skip_space(&r);
    if (x->status == TFT_OK && r.at < s->n)
        return wrong(&r, "text after the value");
    return v;
}
