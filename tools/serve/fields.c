#include "fields.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/utf8.h"

/* Errors are single lines, even if they quote newlines. */
static void make_line(char *p)
{
    for (; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
}

void fields_fail(struct fields *f, const char *fmt, ...)
{
    va_list args;
    if (f->failed)
        return;
    va_start(args, fmt);
    vsnprintf(f->error, sizeof f->error, fmt, args);
    va_end(args);
    make_line(f->error);
    f->failed = true;
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

int64_t field_integer(struct fields *f, const char *name, int64_t least, int64_t most,
                      int64_t otherwise)
{
    const json_t *v = field(f, name);
    if (!v)
        return otherwise;
    int64_t x = json_integer_value(v);
    if (!json_is_integer(v) || x < least || x > most)
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

json_t *json_body(const char *p, size_t n, char *why)
{
    json_error_t e;
    if (count_values(p, n) > FIELDS_VALUES) {
        snprintf(why, FIELDS_WHY, "the body has more than %d values", FIELDS_VALUES);
        return NULL;
    }
    json_t *body = json_loadb(p, n, JSON_ALLOW_NUL, &e);
    if (body && json_is_object(body))
        return body;
    if (body)
        snprintf(why, FIELDS_WHY, "the body is not a JSON object");
    else
        snprintf(why, FIELDS_WHY, "the body is not JSON: line %d, column %d: %s", e.line, e.column,
                 e.text);
    make_line(why);
    json_decref(body);
    return NULL;
}

json_t *json_bytes(const char *p, size_t n)
{
    static const char bad[] = "\xef\xbf\xbd";
    json_t *s = json_stringn(n ? p : "", n);
    struct cli_text t = {0};
    uint32_t c;
    for (size_t at = 0, len; !s && at < n; at += len) {
        len = tft_utf8_next(p + at, n - at, &c);
        bool is_character = c <= 0x10ffff;
        if (!len || !cli_text_append(&t, is_character ? p + at : bad, is_character ? len : 3))
            break;
    }
    s = s ? s : json_stringn(t.n ? t.p : "", t.n);
    free(t.p);
    return s;
}
