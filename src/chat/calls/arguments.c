/* Reads the arguments of a call, a character at a time, and writes JSON with uniform spaces. */
#include "call.h"

#include <string.h>

#include "base/hex.h"
#include "base/utf8.h"

static void put(struct call_value *v, const char *p, size_t n)
{
    memcpy(v->out + v->n_out, p, n);
    v->n_out += n;
}

static enum call_took go(struct call_value *v, enum call_place place, const char *out)
{
    v->place = place;
    put(v, out, strlen(out));
    return CALL_MORE;
}

/* A value is complete. */
static enum call_took end_value(struct call_value *v)
{
    v->place = CALL_NEXT;
    return v->depth ? CALL_MORE : CALL_LAST;
}

static enum call_took open_value(struct call_value *v, bool list)
{
    if (v->depth == CALL_DEPTH)
        return CALL_BAD;
    v->is_list[v->depth++] = list;
    return list ? go(v, CALL_FIRST_ITEM, "[") : go(v, CALL_NAME_OR_END, "{");
}

static enum call_took close_value(struct call_value *v, char c)
{
    if (!v->depth || c != (v->is_list[v->depth - 1] ? ']' : '}'))
        return CALL_BAD;
    v->depth--;
    put(v, &c, 1);
    return end_value(v);
}

/* ---- numbers */

static bool may_end(enum call_digits d)
{
    return d == CALL_ZERO || d == CALL_WHOLE || d == CALL_FRACTION || d == CALL_EXPONENT;
}

/* Takes a character of a number; false: the number has ended. */
static bool more_digits(enum call_digits *d, char c)
{
    bool whole = *d == CALL_ZERO || *d == CALL_WHOLE;
    if (c >= '0' && c <= '9' && *d != CALL_ZERO)
        *d = *d == CALL_MINUS    ? (c == '0' ? CALL_ZERO : CALL_WHOLE)
             : *d == CALL_POINT  ? CALL_FRACTION
             : *d == CALL_E      ? CALL_EXPONENT
             : *d == CALL_SIGN   ? CALL_EXPONENT
                                 : *d;
    else if (c == '.' && whole)
        *d = CALL_POINT;
    else if ((c == 'e' || c == 'E') && (whole || *d == CALL_FRACTION))
        *d = CALL_E;
    else if ((c == '+' || c == '-') && *d == CALL_E)
        *d = CALL_SIGN;
    else
        return false;
    return true;
}

/* ---- strings */

/* Writes characters, escaped for a JSON string. */
static void put_escaped(struct call_value *v, const char *p, size_t n)
{
    static const char hex[] = "0123456789abcdef", chars[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        const char *name = c ? strchr(chars, c) : NULL;
        if (name) {
            put(v, "\\", 1);
            put(v, &names[name - chars], 1);
        } else if (c < 0x20) {
            put(v, "\\u00", 4);
            put(v, &hex[c >> 4], 1);
            put(v, &hex[c & 15], 1);
        } else {
            put(v, &p[i], 1);
        }
    }
}

static bool is_quote(const struct call_value *v, char c)
{
    return !v->mark && (c == '"' || (c == '\'' && v->python));
}

static enum call_took begin_string(struct call_value *v, char quote, bool is_name)
{
    v->quote = quote;
    v->is_name = is_name;
    return go(v, CALL_STRING, "\"");
}

static enum call_took in_string(struct call_value *v, const char *p, size_t n)
{
    if (*p == v->quote) {
        put(v, "\"", 1);
        return v->is_name ? go(v, CALL_COLON, "") : end_value(v);
    }
    if (*p == '\\')
        return go(v, CALL_ESCAPE, "");
    if ((unsigned char)*p < 0x20 && !v->python)
        return CALL_BAD;
    put_escaped(v, p, n);
    return CALL_MORE;
}

/* Takes the character after a backslash. Python keeps the backslash of an unknown escape. */
static enum call_took in_escape(struct call_value *v, const char *p, size_t n)
{
    bool json = *p && strchr("\"\\/bfnrtu", *p), hex = *p == 'x' && v->python;
    if (!json && !v->python)
        return CALL_BAD;
    v->left = hex ? 2 : 4;
    v->place = hex || *p == 'u' ? CALL_HEX : CALL_STRING;
    if (json)
        put(v, "\\", 1);
    if (hex)
        put(v, "\\u00", 4);
    else if (json || *p == '\'')
        put(v, p, n);
    else {
        put(v, "\\\\", 2);
        put_escaped(v, p, n);
    }
    return CALL_MORE;
}

/* ---- strings without quotes and escapes */

void tft_call_begin_raw(struct call_value *v, const char *until, bool line)
{
    v->drops_line = line;
    v->until = until;
    v->matched = 0;
    v->line = false;
    v->n_out = 0;
    go(v, CALL_RAW, "\"");
}

static enum call_took in_raw(struct call_value *v, const char *p, size_t n)
{
    if (*p == v->until[v->matched]) {
        if (v->until[++v->matched])
            return CALL_MORE;
        put(v, "\"", 1);
        return end_value(v);
    }
    put_escaped(v, "\n", v->line);
    put_escaped(v, v->until, v->matched);
    v->line = false;
    v->matched = *p == *v->until;
    if (*p == '\n' && v->drops_line)
        v->line = true;
    else if (!v->matched)
        put_escaped(v, p, n);
    return CALL_MORE;
}

/* ---- all */

static enum call_took begin_value(struct call_value *v, char c)
{
    static const char *const words[] = {"true", "false", "null", "True", "False", "None"};
    if (c == '{' || c == '[')
        return open_value(v, c == '[');
    if (v->mark && c == *v->mark) {
        v->word = v->mark + 1;
        return go(v, CALL_MARK, "");
    }
    if (is_quote(v, c))
        return begin_string(v, c, false);
    if (c == '-' || (c >= '0' && c <= '9')) {
        put(v, &c, 1);
        v->digits = c == '-' ? CALL_MINUS : c == '0' ? CALL_ZERO : CALL_WHOLE;
        return go(v, CALL_NUMBER, "");
    }
    for (size_t i = 0; i < (v->python ? 6 : 3); i++)
        if (c == *words[i]) {
            v->word = words[i] + 1;
            v->means = words[i % 3];
            return go(v, CALL_WORD, "");
        }
    return CALL_BAD;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Takes a character between values and names. */
static enum call_took between(struct call_value *v, char c)
{
    bool in_list = v->depth && v->is_list[v->depth - 1];
    switch (v->place) {
    case CALL_BEGIN: return c == '{' ? open_value(v, false) : CALL_BAD;
    case CALL_VALUE: return begin_value(v, c);
    case CALL_FIRST_ITEM: return c == ']' ? close_value(v, c) : begin_value(v, c);
    case CALL_NAME_OR_END:
        if (c == '}')
            return close_value(v, c);
        /* fall through */
    case CALL_MEMBER:
        if (!v->mark || !tft_schema_is_plain(c))
            return is_quote(v, c) ? begin_string(v, c, true) : CALL_BAD;
        put(v, "\"", 1);
        put(v, &c, 1);
        return go(v, CALL_BARE, "");
    case CALL_COLON: return c == ':' ? go(v, CALL_VALUE, ": ") : CALL_BAD;
    default:
        if (c == ',' && v->depth)
            return go(v, in_list ? CALL_VALUE : CALL_MEMBER, ", ");
        return close_value(v, c);
    }
}

enum call_took tft_call_take(struct call_value *v, const char *p, size_t n)
{
    v->n_out = 0;
    switch (v->place) {
    case CALL_STRING: return in_string(v, p, n);
    case CALL_ESCAPE: return in_escape(v, p, n);
    case CALL_HEX:
        if (tft_hex_digit(*p) < 0)
            return CALL_BAD;
        put(v, p, n);
        v->place = --v->left ? CALL_HEX : CALL_STRING;
        return CALL_MORE;
    case CALL_WORD:
        if (*p != *v->word)
            return CALL_BAD;
        if (*++v->word)
            return CALL_MORE;
        put(v, v->means, strlen(v->means));
        return end_value(v);
    case CALL_NUMBER:
        if (more_digits(&v->digits, *p)) {
            put(v, p, n);
            return CALL_MORE;
        }
        if (!may_end(v->digits))
            return CALL_BAD;
        if (end_value(v) == CALL_LAST)
            return CALL_BEFORE;
        break;
    case CALL_MARK:
        if (*p != *v->word)
            return CALL_BAD;
        if (!*++v->word)
            tft_call_begin_raw(v, v->mark, false);
        return CALL_MORE;
    case CALL_BARE:
        if (*p != ':' && !tft_schema_is_plain(*p))
            return CALL_BAD;
        if (*p == ':')
            return go(v, CALL_VALUE, "\": ");
        put(v, p, n);
        return CALL_MORE;
    case CALL_RAW: return in_raw(v, p, n);
    default: break;
    }
    return is_space(*p) ? CALL_MORE : between(v, *p);
}

bool tft_chat_is_object(const char *p, size_t n)
{
    struct call_value v = {.place = CALL_BEGIN};
    enum call_took took = CALL_MORE;
    size_t at = 0;
    while (at < n && took == CALL_MORE) {
        uint32_t c;
        size_t len = tft_utf8_next(p + at, n - at, &c);
        took = c < TFT_UTF8_BAD ? tft_call_take(&v, p + at, len) : CALL_BAD;
        at += len;
    }
    while (at < n && is_space(p[at]))
        at++;
    return took == CALL_LAST && at == n;
}
