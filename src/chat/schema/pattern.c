/*
 * Turns the lengths of strings, and regular expressions of ECMA-262, into GBNF for the string in
 * JSON's spelling. An expression without ^ and $ may match anywhere in the string. Assertions (\b,
 * lookahead, lookbehind) and back references are refused.
 */
#include "schema.h"

#include <string.h>

#include "base/hex.h"
#include "base/utf8.h"
#include "character_set.h"

enum { MOST_GROUPS = 24 };

struct width {
    uint64_t min, max; /* characters */
};

struct expression {
    struct schema *c;
    const struct jinja_string *s;
    const struct schema_shape *shape;
    size_t at;
    unsigned depth;
    bool fitted;  /* the only repetition has minLength and maxLength */
    uint64_t cap; /* of the maxima of repetitions */
};

#define DAYS "\\d+Y(?:\\d+M)?(?:\\d+D)?|\\d+M(?:\\d+D)?|\\d+D"
#define SECONDS "\\d+(?:[.,]\\d+)?S"
#define HOURS "T(?:\\d+H(?:\\d+M)?(?:" SECONDS ")?|\\d+M(?:" SECONDS ")?|" SECONDS ")"

const char *tft_schema_format(const struct jinja_string *name)
{
#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"                                \
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define HOUR "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME HOUR ":[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-]" HOUR ")"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define WORD "[A-Za-z0-9_+-]{1,20}"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,20}[A-Za-z0-9])?"
    static const char *const formats[][2] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "T" TIME "$"},
        {"uuid", "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
        {"ipv4", "^" BYTE "(?:\\." BYTE "){3}$"},
        {"email", "^" WORD "(?:\\." WORD "){0,2}@" LABEL "(?:\\." LABEL "){0,3}\\.[A-Za-z]{2,10}$"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (tft_jinja_is(name, formats[i][0]))
            return formats[i][1];
    return NULL;
}

/* Patterns that libraries write, with assertions, as the same language without assertions: of
   pydantic's decimals, and of zod's durations. */
static const char *without_assertions(const struct jinja_string *pattern)
{
    static const char *const known[][2] = {
        {"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", "^[+-]?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)$"},
        {"^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?"
         "(\\d+([.,]\\d+)?S)?)?)$",
         "^P(?:\\d+W|(?:" DAYS ")(?:" HOURS ")?|" HOURS ")$"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (tft_jinja_is(pattern, known[i][0]))
            return known[i][1];
    return NULL;
}

const struct jinja_string *tft_schema_plain(struct schema *c, const struct jinja_string *pattern)
{
    const char *other = without_assertions(pattern);
    return other ? tft_jinja_text(c->x, other).string : pattern;
}

static void refuse(struct expression *e, const char *what)
{
    tft_schema_fail(e->c, e->shape->pattern_at, TFT_ERR_UNSUPPORTED, "character %zu: %s",
                    tft_jinja_length(&(struct jinja_string){.p = e->s->p, .n = e->at}) + 1, what);
}

static int peek(const struct expression *e)
{
    return e->at < e->s->n ? (unsigned char)e->s->p[e->at] : -1;
}

static bool take(struct expression *e, const char *what)
{
    size_t n = strlen(what);
    bool there = n <= e->s->n - e->at && memcmp(e->s->p + e->at, what, n) == 0;
    e->at += there ? n : 0;
    return there;
}

/* ---- characters and classes */

static void add_range(struct expression *e, struct schema_set *set, uint32_t lo, uint32_t hi)
{
    if (!tft_schema_set_add(set, lo, hi))
        refuse(e, "a class of more than 128 parts");
}

/* Reads \d, \w, \s or a complement; e->at is at the letter. False: another letter. */
static bool named_class(struct expression *e, struct schema_set *set)
{
    static const uint32_t d[][2] = {{'0', '9'}},
                          w[][2] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                          s[][2] = {{'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},
                                    {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                                    {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
                                    {0xfeff, 0xfeff}};
    struct schema_set own = {.n = 0};
    int p = peek(e), lower = p | 0x20;
    const uint32_t(*r)[2] = lower == 'd' ? d : lower == 'w' ? w : lower == 's' ? s : NULL;
    size_t n = r == d ? 1 : r == w ? 4 : 10;
    if (p < 0 || !r)
        return false;
    for (size_t i = 0; i < n; i++)
        add_range(e, &own, r[i][0], r[i][1]);
    tft_schema_set_finish(&own, p != lower);
    for (size_t i = 0; i < own.n; i++)
        add_range(e, set, own.range[i].lo, own.range[i].hi);
    e->at++;
    return true;
}

static uint32_t hex(struct expression *e, int digits)
{
    uint32_t ch = 0;
    for (int i = 0; i < digits; i++, e->at++) {
        int digit = tft_hex_digit(peek(e));
        if (digit < 0) {
            refuse(e, "an escape with too few hexadecimal digits");
            return 0;
        }
        ch = ch * 16 + (uint32_t)digit;
    }
    if (ch >= 0xd800 && ch <= 0xdfff)
        refuse(e, "half of a surrogate pair: write the character itself");
    return ch;
}

/* Reads one character, which may be escaped. */
static uint32_t character(struct expression *e, bool in_class)
{
    static const char names[] = "nrtfv0", chars[] = "\n\r\t\f\v";
    uint32_t ch = 0;
    if (!take(e, "\\")) {
        if (e->at < e->s->n)
            e->at += tft_utf8_next(e->s->p + e->at, e->s->n - e->at, &ch);
        return ch;
    }
    int p = peek(e);
    const char *name = p > 0 ? strchr(names, p) : NULL;
    e->at += p >= 0;
    if (p == '0' && peek(e) >= '0' && peek(e) <= '9')
        refuse(e, "an escape that is not supported");
    if (name)
        return (uint32_t)(unsigned char)chars[name - names];
    if (p == 'x' || p == 'u')
        return hex(e, p == 'x' ? 2 : 4);
    if (p == 'b' && in_class)
        return '\b';
    if (p > ' ' && p < 0x7f && !((p | 0x20) >= 'a' && (p | 0x20) <= 'z') && !(p >= '0' && p <= '9'))
        return (uint32_t)p;
    refuse(e, "an escape that is not supported");
    return 0;
}

static void read_class(struct expression *e, struct schema_set *set)
{
    bool not = take(e, "^");
    while (e->c->x->status == TFT_OK && !take(e, "]")) {
        if (peek(e) < 0) {
            refuse(e, "a class without its closing ]");
            return;
        }
        if (peek(e) == '\\' && e->at + 1 < e->s->n) {
            e->at++;
            if (named_class(e, set))
                continue;
            e->at--;
        }
        uint32_t lo = character(e, true), hi = lo;
        if (peek(e) == '-' && e->at + 1 < e->s->n && e->s->p[e->at + 1] != ']') {
            e->at++;
            if (peek(e) == '\\' && e->at + 1 < e->s->n && strchr("dDwWsS", e->s->p[e->at + 1]))
                refuse(e, "a range that ends in \\d, \\w or \\s");
            hi = character(e, true);
        }
        if (hi < lo)
            refuse(e, "a range that ends before it begins");
        add_range(e, set, lo, hi);
    }
    tft_schema_set_finish(set, not );
}

/* ---- expressions */

static struct width alternatives(struct expression *e);

static struct width group(struct expression *e)
{
    if (take(e, "?<")) {
        if (peek(e) == '=' || peek(e) == '!')
            refuse(e, "a group that is not supported");
        while (peek(e) >= 0 && !take(e, ">"))
            e->at++;
    } else if (take(e, "?") && !take(e, ":")) {
        refuse(e, "a group that is not supported");
    }
    if (++e->depth > MOST_GROUPS)
        refuse(e, "groups that are nested more than 24 deep");
    tft_schema_put(e->c, " (");
    struct width w = e->c->x->status == TFT_OK ? alternatives(e) : (struct width){0};
    tft_schema_put(e->c, ")");
    e->depth--;
    if (!take(e, ")"))
        refuse(e, "a group that is not closed");
    return w;
}

static struct width element(struct expression *e)
{
    struct schema_set set = {.n = 0};
    int p = peek(e);
    if (take(e, "("))
        return group(e);
    if (strchr("*+?{^$)", p))
        refuse(e, p == ')' ? "a group that was not opened"
                           : "^ and $ are supported only at the ends of the expression, a "
                             "repetition only after a character or group");
    if (take(e, "[")) {
        read_class(e, &set);
    } else if (take(e, ".")) {
        add_range(e, &set, '\n', '\n');
        add_range(e, &set, '\r', '\r');
        add_range(e, &set, 0x2028, 0x2029);
        tft_schema_set_finish(&set, true);
    } else {
        bool named = p == '\\' && (e->at++, named_class(e, &set));
        if (p == '\\' && !named)
            e->at--;
        uint32_t ch = named ? 0 : character(e, false);
        if (!named)
            add_range(e, &set, ch, ch);
        tft_schema_set_finish(&set, false);
    }
    tft_schema_set_put(e->c, &set);
    return (struct width){1, 1};
}

static uint64_t number(struct expression *e)
{
    uint64_t n = 0;
    for (; peek(e) >= '0' && peek(e) <= '9'; e->at++)
        n = n > SCHEMA_MANY ? n : n * 10 + (uint64_t)(peek(e) - '0');
    if (n > SCHEMA_MANY)
        refuse(e, "more than 65536 repetitions");
    return n;
}

/* Reads the repetition count of the element before it. */
static struct width times(struct expression *e)
{
    struct width t = {1, 1};
    if (take(e, "*"))
        t = (struct width){0, SCHEMA_NO_MAX};
    else if (take(e, "+"))
        t = (struct width){1, SCHEMA_NO_MAX};
    else if (take(e, "?"))
        t = (struct width){0, 1};
    else if (take(e, "{")) {
        bool digits = peek(e) >= '0' && peek(e) <= '9';
        t.min = t.max = number(e);
        if (take(e, ","))
            t.max = peek(e) == '}' ? SCHEMA_NO_MAX : number(e);
        if (!take(e, "}") || !digits || t.max < t.min)
            refuse(e, "a repetition is {m}, {m,} or {m,n}");
    } else {
        return t;
    }
    take(e, "?"); /* a lazy repetition matches the same strings */
    return t;
}

static uint64_t product(uint64_t a, uint64_t b)
{
    if (!a || !b)
        return 0;
    return a == SCHEMA_NO_MAX || b == SCHEMA_NO_MAX || a > SCHEMA_NO_MAX / b ? SCHEMA_NO_MAX
                                                                             : a * b;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > SCHEMA_NO_MAX - b ? SCHEMA_NO_MAX : a + b;
}

/* Puts minLength and maxLength into the repetition of ^X{m,n}$, where X is one character. */
static void fit(struct expression *e, size_t start, struct width one, struct width *t)
{
    bool whole = start == 1 && e->at + 1 == e->s->n && peek(e) == '$' && e->s->p[0] == '^';
    if (!whole || one.min != 1 || one.max != 1 || e->depth)
        return;
    t->min = t->min > e->shape->min_length ? t->min : e->shape->min_length;
    t->max = t->max < e->shape->max_length ? t->max : e->shape->max_length;
    e->fitted = true;
}

static bool at_end(const struct expression *e)
{
    bool last = e->at + 1 >= e->s->n || e->s->p[e->at + 1] == '|';
    return peek(e) < 0 || peek(e) == '|' || (peek(e) == ')' && e->depth) ||
           (peek(e) == '$' && !e->depth && last);
}

static struct width sequence(struct expression *e)
{
    struct width all = {0, 0};
    tft_schema_put(e->c, " \"\"");
    while (e->c->x->status == TFT_OK && !at_end(e)) {
        size_t start = e->at;
        struct width one = element(e), t = times(e);
        fit(e, start, one, &t);
        if (t.max > e->cap)
            t.max = e->cap > t.min ? e->cap : t.min;
        if (t.max < t.min)
            tft_schema_put(e->c, " never");
        else if (t.max == SCHEMA_NO_MAX)
            tft_schema_put(e->c, "{%u,}", (unsigned)t.min);
        else if (t.min != 1 || t.max != 1)
            tft_schema_put(e->c, "{%u,%u}", (unsigned)t.min, (unsigned)t.max);
        all.min = sum(all.min, product(one.min, t.min));
        all.max = sum(all.max, product(one.max, t.max));
    }
    return all;
}

/* Any characters, beside an expression that has no ^, or no $. */
static void put_any(struct expression *e, bool some)
{
    const char *one = e->c->until ? "plain" : "char";
    if (some && e->cap == SCHEMA_NO_MAX)
        tft_schema_put(e->c, " %s*", one);
    else if (some)
        tft_schema_put(e->c, " %s{0,%u}", one, (unsigned)e->cap);
}

static struct width alternatives(struct expression *e)
{
    struct width all = {SCHEMA_NO_MAX, 0};
    bool top = !e->depth;
    if (!tft_jinja_enter(e->c->x))
        return all;
    do {
        bool from = !top || take(e, "^");
        put_any(e, !from);
        struct width w = sequence(e);
        bool to = !top || take(e, "$");
        put_any(e, !to);
        w.max = sum(w.max, product(e->cap, (uint64_t)!from + !to));
        all.min = w.min < all.min ? w.min : all.min;
        all.max = w.max > all.max ? w.max : all.max;
        if (peek(e) == '|')
            tft_schema_put(e->c, " |");
    } while (e->c->x->status == TFT_OK && take(e, "|"));
    tft_jinja_leave(e->c->x);
    return all;
}

/* Writes the expression with maxima of repetitions up to `cap`. */
static struct width write_capped(struct expression *e, size_t start, uint64_t cap)
{
    e->c->out.n = start;
    e->at = e->depth = 0;
    e->fitted = false;
    e->cap = cap;
    return alternatives(e);
}

/* Writes the expression for strings of at most maxLength characters: long repetitions get the
   largest common maximum with which all strings are short enough. */
static void write_pattern(struct schema *c, const struct schema_shape *s)
{
    struct expression e = {.c = c, .s = s->pattern, .shape = s};
    size_t start = c->out.n;
    struct width w = write_capped(&e, start, SCHEMA_NO_MAX);
    if (e.at < e.s->n)
        refuse(&e, "a group that was not opened");
    if (e.fitted || c->x->status != TFT_OK)
        return;
    uint64_t low = 0, high = s->max_length;
    while (w.max > s->max_length && low < high && c->x->status == TFT_OK) {
        uint64_t cap = (low + high + 1) / 2;
        bool fits = write_capped(&e, start, cap).max <= s->max_length;
        low = fits ? cap : low;
        high = fits ? high : cap - 1;
    }
    if (w.max > s->max_length)
        w = write_capped(&e, start, low);
    if (w.min < s->min_length || w.max > s->max_length)
        tft_schema_fail(c, s->pattern_at, TFT_ERR_UNSUPPORTED,
                        "matches lengths that minLength or maxLength rules out: write the "
                        "length in it");
}

/* Strings that `not` excludes; NULL: none. */
static struct jinja_list *excluded(struct schema *c, const struct schema_shape *s)
{
    struct jinja_list *l = NULL;
    for (size_t i = 0; s->excluded && i < s->excluded->n; i++)
        if (s->excluded->item[i].kind == JINJA_STRING) {
            l = l ? l : tft_jinja_list(c->x, JINJA_PLAIN);
            tft_jinja_push(c->x, l, s->excluded->item[i]);
        }
    return l;
}

static void write_others(struct schema *c, const struct schema_shape *s, const struct jinja_list *l)
{
    if (s->pattern || s->min_length || s->max_length != SCHEMA_NO_MAX || c->until ||
        tft_schema_spelling(c)->rule)
        tft_schema_fail(c, c->here, TFT_ERR_UNSUPPORTED,
                        "not: strings beside a pattern, a length, or in this format");
    uint32_t r = tft_schema_extra(c);
    tft_schema_put(c, "\"\\\"\" r%u \"\\\"\"", (unsigned)r);
    tft_schema_other_names(c, l, r);
}

void tft_schema_pattern(struct schema *c, const struct schema_shape *s)
{
    const struct jinja_list *no = excluded(c, s);
    if (no) {
        write_others(c, s, no);
        return;
    }
    const char *rule = tft_schema_spelling(c)->rule, *one = c->until ? "plain" : "char",
               *quote = rule ? rule : c->until ? "\"\"" : "\"\\\"\"";
    if (!s->pattern && !s->min_length && s->max_length == SCHEMA_NO_MAX) {
        tft_schema_put(c, c->until && !rule ? "raw" : "string");
        return;
    }
    tft_schema_put(c, "%s", quote);
    if (s->pattern) {
        tft_schema_put(c, " (");
        write_pattern(c, s);
        tft_schema_put(c, ")");
    } else if (s->max_length == SCHEMA_NO_MAX) {
        tft_schema_put(c, " %s{%u,}", one, (unsigned)s->min_length);
    } else {
        tft_schema_put(c, " %s{%u,%u}", one, (unsigned)s->min_length, (unsigned)s->max_length);
    }
    tft_schema_put(c, " %s", quote);
}
