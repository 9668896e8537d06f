/* Strings with a mark of trust for each byte: parts, sums, searches. */
#include "jinja.h"

#include <string.h>

#include "base/utf8.h"

struct jinja_value tft_jinja_string(struct jinja *x, const char *p, size_t n, bool trusted)
{
    struct jinja_string *s = tft_jinja_take(x, 1, sizeof *s);
    if (!s)
        return tft_jinja_undefined;
    *s = (struct jinja_string){.p = p, .n = n, .trusted = trusted};
    return (struct jinja_value){.kind = JINJA_STRING, .string = s};
}

struct jinja_value tft_jinja_text(struct jinja *x, const char *p)
{
    return tft_jinja_string(x, p, strlen(p), true);
}

struct jinja_value tft_jinja_part(struct jinja *x, const struct jinja_string *s, size_t begin,
                                  size_t end)
{
    struct jinja_string *part = tft_jinja_take(x, 1, sizeof *part);
    if (!part || !tft_jinja_spend(x, 1))
        return tft_jinja_undefined;
    *part = *s;
    part->p = s->p + begin;
    part->mark = s->mark ? s->mark + begin : NULL;
    part->n = end - begin;
    return (struct jinja_value){.kind = JINJA_STRING, .string = part};
}

bool tft_jinja_same(const struct jinja_string *a, const struct jinja_string *b)
{
    return a->n == b->n && (!a->n || memcmp(a->p, b->p, a->n) == 0);
}

bool tft_jinja_is(const struct jinja_string *s, const char *p)
{
    size_t n = strlen(p);
    return s->n == n && (!n || memcmp(s->p, p, n) == 0);
}

bool tft_jinja_trusts(const struct jinja_string *s, size_t at)
{
    return s->mark ? s->mark[at] : s->trusted;
}

/* ---- growing */

/* Makes room for n more bytes. */
static bool make_room(struct jinja *x, struct jinja_buffer *b, size_t n)
{
    if (!tft_jinja_spend(x, n / 16))
        return false;
    if (n <= b->room - b->n)
        return true;
    size_t room = (b->n + n) * 2 < 64 ? 64 : (b->n + n) * 2;
    char *p = tft_jinja_take(x, room, 2);
    if (!p)
        return false;
    unsigned char *mark = (unsigned char *)p + room;
    if (b->n) {
        memcpy(p, b->p, b->n);
        memcpy(mark, b->mark, b->n);
    }
    b->p = p;
    b->mark = mark;
    b->room = room;
    return true;
}

void tft_jinja_add_text(struct jinja *x, struct jinja_buffer *b, const char *p, size_t n,
                        bool trusted)
{
    if (!n || !make_room(x, b, n))
        return;
    memcpy(b->p + b->n, p, n);
    memset(b->mark + b->n, trusted, n);
    b->n += n;
}

void tft_jinja_add(struct jinja *x, struct jinja_buffer *b, const struct jinja_string *s)
{
    size_t at = b->n;
    if (!s)
        return;
    tft_jinja_add_text(x, b, s->p, s->n, s->trusted);
    if (s->n && s->mark && x->status == TFT_OK)
        memcpy(b->mark + at, s->mark, s->n);
}

struct jinja_value tft_jinja_finish(struct jinja *x, struct jinja_buffer *b)
{
    struct jinja_string *s = tft_jinja_take(x, 1, sizeof *s);
    if (!s)
        return tft_jinja_undefined;
    *s = (struct jinja_string){.p = b->n ? b->p : "", .mark = b->mark, .n = b->n, .trusted = true};
    return (struct jinja_value){.kind = JINJA_STRING, .string = s};
}

struct jinja_value tft_jinja_concat(struct jinja *x, const struct jinja_string *a,
                                    const struct jinja_string *b)
{
    struct jinja_buffer sum = {0};
    const struct jinja_string *only = !a->n ? b : !b->n ? a : NULL;
    if (only && !only->safe) /* a string is immutable */
        return tft_jinja_part(x, only, 0, only->n);
    if (!make_room(x, &sum, a->n + b->n))
        return tft_jinja_undefined;
    tft_jinja_add(x, &sum, a);
    tft_jinja_add(x, &sum, b);
    return tft_jinja_finish(x, &sum);
}

/* ---- Markup (markupsafe), the result type of the filter `safe` */

struct jinja_value tft_jinja_markup(struct jinja *x, const struct jinja_string *s)
{
    struct jinja_string *markup = tft_jinja_take(x, 1, sizeof *markup);
    if (!markup || !s)
        return tft_jinja_undefined;
    *markup = *s;
    markup->safe = true;
    return (struct jinja_value){.kind = JINJA_STRING, .string = markup};
}

/* s with &, <, >, ' and " escaped for HTML. */
static const struct jinja_string *escape(struct jinja *x, const struct jinja_string *s)
{
    static const char special[] = "&<>'\"",
                      *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct jinja_buffer out = {0};
    for (size_t at = 0, from = 0; at <= s->n && tft_jinja_spend(x, 1); at++) {
        const char *c = at < s->n && s->p[at] ? strchr(special, s->p[at]) : NULL;
        if (!c && at < s->n)
            continue;
        if (at > from)
            tft_jinja_add(x, &out, tft_jinja_part(x, s, from, at).string);
        if (c)
            tft_jinja_add_text(x, &out, names[c - special], strlen(names[c - special]),
                               s->mark ? s->mark[at] : s->trusted);
        from = at + 1;
    }
    return tft_jinja_finish(x, &out).string;
}

struct jinja_value tft_jinja_sum(struct jinja *x, const struct jinja_string *a,
                                 const struct jinja_string *b)
{
    if (!a->safe && !b->safe)
        return tft_jinja_concat(x, a, b);
    a = a->safe ? a : escape(x, a);
    b = b->safe ? b : escape(x, b);
    return a && b ? tft_jinja_markup(x, tft_jinja_concat(x, a, b).string) : tft_jinja_undefined;
}

/* ---- characters: a byte that is not UTF-8 counts as one */

size_t tft_jinja_length(const struct jinja_string *s)
{
    size_t n = 0;
    for (size_t at = 0; at < s->n; n++) {
        uint32_t c;
        at += tft_utf8_next(s->p + at, s->n - at, &c);
    }
    return n;
}

size_t tft_jinja_offset(const struct jinja_string *s, size_t index)
{
    size_t at = 0;
    for (uint32_t c; index && at < s->n; index--)
        at += tft_utf8_next(s->p + at, s->n - at, &c);
    return at;
}

bool tft_jinja_space(uint32_t c)
{
    return (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= ' ') || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t tft_jinja_search(struct jinja *x, const struct jinja_string *s, size_t from,
                        const struct jinja_string *what)
{
    if (!what->n)
        return from;
    for (size_t at = from; at + what->n <= s->n; at++) {
        const char *p = memchr(s->p + at, *what->p, s->n - what->n + 1 - at);
        size_t skipped = p ? (size_t)(p - s->p) - at : s->n - at;
        if (!tft_jinja_spend(x, 1 + skipped / 16 + what->n / 16) || !p)
            break;
        at += skipped;
        if (memcmp(p, what->p, what->n) == 0)
            return at;
    }
    return s->n + 1;
}

/* Whether the character p[n] is in the set, or white space. */
static bool in_set(const char *p, size_t n, uint32_t c, const struct jinja_string *set)
{
    if (!set)
        return tft_jinja_space(c);
    for (size_t at = 0, len; at < set->n; at += len) {
        uint32_t other;
        len = tft_utf8_next(set->p + at, set->n - at, &other);
        if (len == n && memcmp(set->p + at, p, n) == 0)
            return true;
    }
    return false;
}

struct jinja_value tft_jinja_strip(struct jinja *x, const struct jinja_string *s,
                                   const struct jinja_string *set, bool start, bool end)
{
    size_t from = 0, to, at = 0;
    size_t cost = set ? set->n / 4 : 0; /* of a search for one character in `set` */
    uint32_t c;
    while (start && from < s->n && tft_jinja_spend(x, cost + 1)) {
        size_t n = tft_utf8_next(s->p + from, s->n - from, &c);
        if (!in_set(s->p + from, n, c, set))
            break;
        from += n;
    }
    to = end ? from : s->n;
    for (at = from; end && at < s->n && tft_jinja_spend(x, cost);) {
        size_t n = tft_utf8_next(s->p + at, s->n - at, &c);
        if (!in_set(s->p + at, n, c, set))
            to = at + n;
        at += n;
    }
    return tft_jinja_spend(x, (s->n - from) / 16) ? tft_jinja_part(x, s, from, to)
                                                  : tft_jinja_undefined;
}

struct jinja_value tft_jinja_replace(struct jinja *x, const struct jinja_string *s,
                                     const struct jinja_string *from, const struct jinja_string *to,
                                     int64_t count)
{
    struct jinja_buffer out = {0};
    size_t begin = 0;
    while (count != 0 && begin <= s->n && x->status == TFT_OK) {
        size_t at = tft_jinja_search(x, s, begin, from), end;
        if (at > s->n)
            break;
        /* an empty `from` occurs before each character and at the end */
        struct jinja_string rest = {.p = s->p + at, .n = s->n - at};
        end = from->n ? at + from->n : at + tft_jinja_offset(&rest, 1);
        if (from->n)
            tft_jinja_add(x, &out, tft_jinja_part(x, s, begin, at).string);
        tft_jinja_add(x, &out, to);
        if (!from->n)
            tft_jinja_add(x, &out, tft_jinja_part(x, s, at, end).string);
        begin = !from->n && at == s->n ? s->n + 1 : end;
        count -= count > 0;
    }
    if (begin < s->n && x->status == TFT_OK)
        tft_jinja_add(x, &out, tft_jinja_part(x, s, begin, s->n).string);
    return tft_jinja_finish(x, &out);
}
