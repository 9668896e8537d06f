#include "fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "lost.h"
#include "tools/json/read.h"

/* Errors are single lines, even if they quote newlines. */
static void make_line(char *p)
{
    for (; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
}

static bool is_in_name(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* Whether the text at p, after the character `before`, is the name and no more. */
static bool is_name(const char *p, char before, const char *name)
{
    size_t n = strlen(name);
    return strncmp(p, name, n) == 0 && !is_in_name(p[n]) &&
           !(is_in_name(*name) && (is_in_name(before) || before == '.'));
}

/* Copies the text with the client's names. */
static void rename_all(const struct fields *f, char *to, size_t room, const char *from)
{
    size_t n = 0;
    bool in_path = false;
    for (const char *p = from; *p && n + 1 < room;) {
        size_t i = 0;
        while (i < f->n_names &&
               (!is_name(p, p > from ? p[-1] : 0, f->name[i].ours) || (*p == '/' && in_path)))
            i++;
        if (i == f->n_names) {
            to[n++] = *p++;
            continue;
        }
        in_path |= *p == '/';
        size_t len = strlen(f->name[i].theirs);
        len = len < room - 1 - n ? len : room - 1 - n;
        memcpy(to + n, f->name[i].theirs, len);
        n += len;
        p += strlen(f->name[i].ours);
    }
    to[n] = 0;
}

void fields_fail(struct fields *f, const char *fmt, ...)
{
    char text[sizeof f->error];
    va_list args;
    if (f->failed)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    make_line(text);
    rename_all(f, f->error, sizeof f->error, text);
    f->failed = true;
}

void fields_name(struct fields *f, const char *ours, const char *theirs)
{
    if (f->n_names == sizeof f->name / sizeof *f->name)
        return;
    f->name[f->n_names].ours = ours;
    f->name[f->n_names++].theirs = theirs;
}

const char *fields_named(const struct fields *f, const char *ours)
{
    for (size_t i = 0; i < f->n_names; i++)
        if (strcmp(f->name[i].ours, ours) == 0)
            return f->name[i].theirs;
    return ours;
}

const char *fields_message(const struct fields *f, size_t i, char room[FIELDS_PLACE])
{
    const char *place = json_string_value(json_array_get(f->places, i));
    if (place)
        return place;
    snprintf(room, FIELDS_PLACE, "messages[%zu]", i);
    return room;
}

bool fields_lack_memory(const char *why)
{
    static const char end[] = "out of memory";
    size_t n = strlen(why), len = sizeof end - 1;
    return n >= len && strcmp(why + n - len, end) == 0;
}

const json_t *field(const struct fields *f, const char *name)
{
    const json_t *v = json_object_get(f->body, name);
    return v && !json_is_null(v) ? v : NULL;
}

bool field_flag(struct fields *f, const char *name, bool otherwise)
{
    const json_t *v = field(f, name);
    if (v && !json_is_boolean(v))
        fields_fail(f, "%s must be true or false", name);
    return v && !f->failed ? json_is_true(v) : otherwise;
}

double field_number(struct fields *f, const char *name, double least, double most, double otherwise)
{
    const json_t *v = field(f, name);
    if (!v)
        return otherwise;
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= least && x <= most))
        fields_fail(f, "%s must be a number from %g to %g", name, least, most);
    return f->failed ? otherwise : x;
}

bool json_void(const json_t *v)
{
    return json_is_null(v) || (json_is_array(v) && !json_array_size(v)) ||
           (json_is_object(v) && !json_object_size(v)) ||
           (json_is_string(v) && !json_string_length(v));
}

bool json_whole(const json_t *v, int64_t *value)
{
    double x = json_real_value(v);
    if (json_is_integer(v))
        *value = json_integer_value(v);
    else if (json_is_real(v) && x == floor(x) && x >= -0x1p63 && x < 0x1p63)
        *value = (int64_t)x;
    else
        return false;
    return true;
}

int64_t field_integer(struct fields *f, const char *name, int64_t least, int64_t most,
                      int64_t otherwise)
{
    const json_t *v = field(f, name);
    if (!v)
        return otherwise;
    int64_t x = 0;
    if (!json_whole(v, &x) || x < least || x > most)
        fields_fail(f, "%s must be an integer from %lld to %lld", name, (long long)least,
                    (long long)most);
    return f->failed ? otherwise : x;
}

const char *field_text(struct fields *f, const char *name, const char *otherwise)
{
    const json_t *v = field(f, name);
    if (v && !json_is_string(v))
        fields_fail(f, "%s must be a string", name);
    return v && !f->failed ? json_string_value(v) : otherwise;
}

/* ---- JSON */

/* Upper bound of the number of values in the JSON p[n]. Every value but the first follows a comma,
   or is the first of a list or an object. */
static size_t count_values(const char *p, size_t n)
{
    size_t values = 1;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string && p[i] == '\\')
            i++;
        else if (p[i] == '"')
            in_string = !in_string;
        else if (!in_string)
            values += p[i] == ',' || p[i] == '[' || p[i] == '{';
    }
    return values;
}

/* Length of the string at p[n], which begins with a quote. */
static size_t string_length(const char *p, size_t n)
{
    size_t i = 1;
    while (i < n && p[i] != '"')
        i += p[i] == '\\' ? 2 : 1;
    return i < n ? i + 1 : n;
}

/* Length of the number at p[n]; *large: it is an integer beyond 64 bits. */
static size_t number_length(const char *p, size_t n, bool *large)
{
    static const char least[] = "9223372036854775808", most[] = "9223372036854775807";
    size_t sign = *p == '-', digits = 0, i;
    while (sign + digits < n && p[sign + digits] >= '0' && p[sign + digits] <= '9')
        digits++;
    for (i = sign + digits; i < n && memchr(".eE+-0123456789", p[i], 15); i++)
        ;
    *large = i == sign + digits &&
             (digits > 19 || (digits == 19 && memcmp(p + sign, sign ? least : most, 19) > 0));
    return i;
}

/* Writes p[n] with a fraction after each integer beyond 64 bits; false: out of memory. */
static bool write_reals(struct cli_text *t, const char *p, size_t n)
{
    size_t from = 0;
    for (size_t at = 0, len; at < n; at += len) {
        bool large = false;
        len = p[at] == '"' ? string_length(p + at, n - at)
              : p[at] == '-' || (p[at] >= '0' && p[at] <= '9')
                  ? number_length(p + at, n - at, &large)
                  : 1;
        if (!large)
            continue;
        if (!cli_text_append(t, p + from, at + len - from) || !cli_text_append(t, ".0", 2))
            return false;
        from = at + len;
    }
    return cli_text_append(t, p + from, n - from);
}

/* jansson refuses such integers, or makes all integers reals. */
json_t *json_text(const char *p, size_t n, size_t flags, json_error_t *e)
{
    struct cli_text t = {0};
    json_t *v = read_json(p, n, flags, e);
    if (!v && json_error_code(e) == json_error_numeric_overflow && write_reals(&t, p, n))
        v = read_json(t.p, t.n, flags, e);
    free(t.p);
    return v;
}

static json_t *read_body(const char *p, size_t n, json_type type, char *why)
{
    json_error_t e;
    size_t mark = tft_utf8_mark(p, n); /* a parser may ignore it (RFC 8259, section 8.1) */
    p += mark;
    n -= mark;
    if (count_values(p, n) > FIELDS_VALUES) {
        snprintf(why, FIELDS_WHY, "the body has more than %d values", FIELDS_VALUES);
        return NULL;
    }
    json_t *body = json_text(p, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &e);
    if (body && json_typeof(body) == type)
        return body;
    if (body)
        snprintf(why, FIELDS_WHY, "the body is not a JSON %s",
                 type == JSON_OBJECT ? "object" : "list");
    else if (json_error_code(&e) == json_error_out_of_memory)
        snprintf(why, FIELDS_WHY, "out of memory");
    else
        snprintf(why, FIELDS_WHY, "the body is not JSON: line %d, column %d: %s", e.line, e.column,
                 e.text);
    make_line(why);
    json_decref(body);
    return NULL;
}

json_t *json_body(const char *p, size_t n, char *why) { return read_body(p, n, JSON_OBJECT, why); }

json_t *json_list(const char *p, size_t n, char *why) { return read_body(p, n, JSON_ARRAY, why); }

json_t *json_bytes(const char *p, size_t n)
{
    static const char bad[] = "\xef\xbf\xbd";
    json_t *s = json_stringn(n ? p : "", n);
    struct cli_text t = {0};
    uint32_t c;
    for (size_t at = 0, len; !s && at < n; at += len) {
        len = tft_utf8_next(p + at, n - at, &c);
        bool is_character = c <= 0x10ffff;
        if (!len)
            break;
        if (!cli_text_append(&t, is_character ? p + at : bad, is_character ? len : 3)) {
            lost_note();
            free(t.p);
            return NULL;
        }
    }
    s = s ? s : json_stringn(t.n ? t.p : "", t.n);
    free(t.p);
    return s;
}
