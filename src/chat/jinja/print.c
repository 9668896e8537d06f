/* str() and repr() of Python. */
#include "jinja.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* The shortest digits, of d.ddde+XX, that read back as the number, without the decimal point, which
   depends on the locale. Returns the count of digits; *exponent: of the first digit. */
static int shortest(double number, char digits[32], int *exponent)
{
    char text[40];
    int precision = 0, n = 0;
    do
        snprintf(text, sizeof text, "%.*e", precision, number);
    while (strtod(text, NULL) != number && ++precision < 17);
    const char *e = strchr(text, 'e');
    for (const char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    *exponent = atoi(e + 1);
    return n;
}

void tft_jinja_print_number(struct jinja *x, struct jinja_buffer *b, double number, bool json)
{
    char digits[32] = "0", text[64];
    int exponent, at = 0, n;
    if (!isfinite(number)) {
        const char *name = isnan(number) ? (json ? "NaN" : "nan") : json ? "Infinity" : "inf";
        tft_jinja_add_text(x, b, "-", !isnan(number) && number < 0, true);
        tft_jinja_add_text(x, b, name, strlen(name), true);
        return;
    }
    if (signbit(number))
        text[at++] = '-';
    n = shortest(fabs(number), digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        text[at++] = digits[0];
        if (n > 1)
            text[at++] = '.';
        memcpy(text + at, digits + 1, (size_t)n - 1);
        at += n - 1;
        at += snprintf(text + at, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    } else {
        for (int i = exponent < 0 ? exponent : 0; i < n || i <= exponent + 1; i++) {
            if (i == exponent + 1)
                text[at++] = '.';
            text[at++] = i >= 0 && i < n ? digits[i] : '0';
        }
    }
    tft_jinja_add_text(x, b, text, (size_t)at, true);
}

/* Whether Python's repr escapes c: controls, formats, separators (Unicode 15), private and
   unassigned characters. Of unassigned characters, only the ones beyond the last used plane are
   known here. */
static bool is_escaped(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0x7f, 0xa0},       {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
        {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},
        {0x1680, 0x1680},   {0x180e, 0x180e},   {0x2000, 0x200f},   {0x2028, 0x202f},
        {0x205f, 0x206f},   {0x3000, 0x3000},   {0xd800, 0xf8ff},   {0xfeff, 0xfeff},
        {0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
        {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0x323b0, 0xe00ff}, {0xe01f0, 0x10ffff},
    };
    bool found = c < 0x20;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        found |= c >= ranges[i][0] && c <= ranges[i][1];
    return found;
}

static void print_quoted(struct jinja *x, struct jinja_buffer *b, const struct jinja_string *s)
{
    char quote = memchr(s->p ? s->p : "", '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
    tft_jinja_add_text(x, b, &quote, 1, false);
    for (size_t at = 0, n; at < s->n && tft_jinja_spend(x, 1); at += n) {
        uint32_t c;
        char text[12];
        n = tft_utf8_next(s->p + at, s->n - at, &c);
        if (c == '\\' || c == (unsigned char)quote)
            snprintf(text, sizeof text, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < TFT_UTF8_BAD && is_escaped(c))
            snprintf(text, sizeof text,
                     c < 0x100     ? "\\x%02x"
                     : c < 0x10000 ? "\\u%04x"
                                   : "\\U%08x",
                     (unsigned)c);
        else {
            tft_jinja_add(x, b, tft_jinja_part(x, s, at, at + n).string);
            continue;
        }
        tft_jinja_add_text(x, b, text, strlen(text), false);
    }
    tft_jinja_add_text(x, b, &quote, 1, false);
}

static void print(struct jinja *x, struct jinja_buffer *b, struct jinja_value v, bool quoted);

static void print_list(struct jinja *x, struct jinja_buffer *b, const struct jinja_list *l)
{
    static const char *const around[][2] = {{"[", "]"}, {"(", ")"}};
    if (l->kind > JINJA_TUPLE) {
        tft_jinja_fail(x, TFT_ERR_UNSUPPORTED,
                       "printing a %s is not supported: use the filter list",
                       l->kind == JINJA_VIEW ? "dict view" : "generator");
        return;
    }
    tft_jinja_add_text(x, b, around[l->kind][0], 1, false);
    for (size_t i = 0; i < l->n && x->status == TFT_OK; i++) {
        tft_jinja_add_text(x, b, ", ", i ? 2 : 0, false);
        print(x, b, l->item[i], true);
    }
    tft_jinja_add_text(x, b, ",", l->kind == JINJA_TUPLE && l->n == 1, false);
    tft_jinja_add_text(x, b, around[l->kind][1], 1, false);
}

static void print_dict(struct jinja *x, struct jinja_buffer *b, const struct jinja_dict *d)
{
    tft_jinja_add_text(x, b, "{", 1, false);
    for (size_t i = 0; i < d->n && x->status == TFT_OK; i++) {
        tft_jinja_add_text(x, b, ", ", i ? 2 : 0, false);
        print(x, b, d->key[i], true);
        tft_jinja_add_text(x, b, ": ", 2, false);
        print(x, b, d->value[i], true);
    }
    tft_jinja_add_text(x, b, "}", 1, false);
}

static void print(struct jinja *x, struct jinja_buffer *b, struct jinja_value v, bool quoted)
{
    char text[32];
    switch (v.kind) {
    case JINJA_UNDEFINED: tft_jinja_add_text(x, b, "Undefined", quoted ? 9 : 0, true); break;
    case JINJA_NONE: tft_jinja_add_text(x, b, "None", 4, true); break;
    case JINJA_BOOL:
        tft_jinja_add_text(x, b, v.truth ? "True" : "False", v.truth ? 4 : 5, true);
        break;
    case JINJA_INT:
        snprintf(text, sizeof text, "%" PRId64, v.integer);
        tft_jinja_add_text(x, b, text, strlen(text), true);
        break;
    case JINJA_FLOAT: tft_jinja_print_number(x, b, v.number, false); break;
    case JINJA_BIG: tft_jinja_add(x, b, v.string); break;
    case JINJA_STRING:
        if (quoted)
            print_quoted(x, b, v.string);
        else
            tft_jinja_add(x, b, v.string);
        break;
    case JINJA_LIST:
    case JINJA_DICT:
        if (tft_jinja_enter(x)) {
            if (v.kind == JINJA_DICT && v.dict->text && !quoted)
                tft_jinja_add(x, b, v.dict->text);
            else if (v.kind == JINJA_LIST)
                print_list(x, b, v.list);
            else
                print_dict(x, b, v.dict);
        }
        tft_jinja_leave(x);
        break;
    default:
        tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "printing a %s is not supported", tft_jinja_type(v));
    }
}

void tft_jinja_print(struct jinja *x, struct jinja_buffer *b, struct jinja_value v)
{
    print(x, b, v, false);
}

const struct jinja_string *tft_jinja_str(struct jinja *x, struct jinja_value v)
{
    static const struct jinja_string empty = {.p = "", .trusted = true};
    struct jinja_buffer b = {0};
    if (v.kind == JINJA_STRING)
        return v.string;
    print(x, &b, v, false);
    v = tft_jinja_finish(x, &b);
    return v.kind == JINJA_STRING ? v.string : &empty;
}
