/*
 * Parses regular expressions in the syntax of JavaScript and Python: classes, groups, |, *, +, ?,
 * {m,n}, \d \w \s. The whole text must match; ^ at the start and $ at the end are optional.
 * Assertions (\b, lookahead) and back references are refused. Lazy repetitions match the same texts
 * as greedy ones.
 */
#include "syntax.h"

#include "base/utf8.h"

static uint32_t alternatives(struct tft_syntax *x);

static bool take(struct tft_syntax *x, char c)
{
    bool is = tft_syntax_peek(x) == (unsigned char)c;
    x->pos += is;
    return is;
}

/* ---- escapes */

static void add_ranges(struct tft_syntax *x, const uint32_t (*r)[2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        tft_syntax_add_range(x, r[i][0], r[i][1]);
}

/* The ranges of \d, \w, \s, or of their complements \D, \W, \S, by Python's and JavaScript's ASCII
   tables. False: c is another letter. */
static bool named_class(struct tft_syntax *x, int c)
{
    static const uint32_t d[][2] = {{'0', '9'}},
                          w[][2] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                          s[][2] = {{'\t', '\r'}, {' ', ' '}},
                          not_d[][2] = {{0, '0' - 1}, {'9' + 1, 0x10ffff}},
                          not_w[][2] = {{0, '0' - 1},       {'9' + 1, 'A' - 1}, {'Z' + 1, '_' - 1},
                                        {'_' + 1, 'a' - 1}, {'z' + 1, 0x10ffff}},
                          not_s[][2] = {{0, '\t' - 1}, {'\r' + 1, ' ' - 1}, {' ' + 1, 0x10ffff}};
    switch (c) {
    case 'd': add_ranges(x, d, 1); return true;
    case 'w': add_ranges(x, w, 4); return true;
    case 's': add_ranges(x, s, 2); return true;
    case 'D': add_ranges(x, not_d, 2); return true;
    case 'W': add_ranges(x, not_w, 5); return true;
    case 'S': add_ranges(x, not_s, 3); return true;
    default: return false;
    }
}

/* Reads XXXX of \uXXXX. A pair of surrogates is one character, as in JavaScript and JSON. */
static bool unicode(struct tft_syntax *x, uint32_t *c)
{
    uint32_t start = x->pos, low = 0;
    if (!tft_syntax_hex(x, 4, c) || *c < 0xd800 || *c > 0xdfff)
        return !x->status;
    if (*c < 0xdc00 && take(x, '\\') && take(x, 'u') && tft_syntax_hex(x, 4, &low) &&
        low >= 0xdc00 && low <= 0xdfff) {
        *c = 0x10000 + ((*c - 0xd800) << 10 | (low - 0xdc00));
        return true;
    }
    return tft_syntax_fail(x, start, "half of a pair of surrogates");
}

/* Reads the character of an escape, after the backslash. */
static bool escaped(struct tft_syntax *x, bool in_class, uint32_t *c)
{
    uint32_t start = x->pos;
    int e = tft_syntax_peek(x);
    x->pos += e >= 0;
    switch (e) {
    case 'n': *c = '\n'; return true;
    case 't': *c = '\t'; return true;
    case 'r': *c = '\r'; return true;
    case 'f': *c = '\f'; return true;
    case 'v': *c = '\v'; return true;
    case '0': *c = 0; return true;
    case 'x': return tft_syntax_hex(x, 2, c);
    case 'u': return unicode(x, c);
    case 'b':
        if (in_class) {
            *c = '\b';
            return true;
        }
        break;
    default:
        if (e > ' ' && e < 0x7f && !(e >= 'a' && e <= 'z') && !(e >= 'A' && e <= 'Z') &&
            !(e >= '0' && e <= '9')) {
            *c = (uint32_t)e;
            return true;
        }
    }
    return tft_syntax_fail(x, start, "an escape that is not supported");
}

static bool character(struct tft_syntax *x, uint32_t *c)
{
    uint32_t start = x->pos;
    x->pos += (uint32_t)tft_utf8_next(x->text + x->pos, x->len - x->pos, c);
    if (*c == TFT_UTF8_BAD || *c == TFT_UTF8_CUT)
        return tft_syntax_fail(x, start, "bytes that are not UTF-8");
    return true;
}

/* ---- elements */

/* Reads a character of a class, or an end of a range. False: a named class, or an error. */
static bool member(struct tft_syntax *x, uint32_t *c)
{
    if (!take(x, '\\'))
        return character(x, c);
    if (named_class(x, tft_syntax_peek(x))) {
        x->pos++;
        return false;
    }
    return escaped(x, true, c);
}

static uint32_t class(struct tft_syntax *x)
{
    uint32_t start = x->pos - 1, from = x->range.n;
    bool not = take(x, '^');
    while (!x->status && !take(x, ']')) {
        uint32_t lo = 0, hi;
        if (tft_syntax_peek(x) < 0)
            return tft_syntax_fail(x, start, "a class without its closing ]");
        if (!member(x, &lo))
            continue;
        hi = lo;
        if (tft_syntax_peek(x) == '-' && x->pos + 1 < x->len && x->text[x->pos + 1] != ']') {
            x->pos++;
            if (!member(x, &hi))
                return tft_syntax_fail(x, start, "a range that ends in \\d, \\w or \\s");
        }
        if (hi < lo)
            return tft_syntax_fail(x, start, "a class with a range that ends before it begins");
        tft_syntax_add_range(x, lo, hi);
    }
    return tft_syntax_chars(x, from, not);
}

static uint32_t group(struct tft_syntax *x)
{
    uint32_t start = x->pos - 1, node;
    if (take(x, '?') && !take(x, ':'))
        return tft_syntax_fail(x, start, "a group that is not supported: only ( and (?:");
    if (++x->depth > TFT_SYNTAX_DEPTH)
        return tft_syntax_fail(x, start, "parentheses that are nested more than 64 deep");
    node = alternatives(x);
    x->depth--;
    if (node && !take(x, ')'))
        return tft_syntax_fail(x, start, "a parenthesis that is not closed");
    return node;
}

/* Reads one element without its repetition; 0 at the end of a sequence, or after an error. */
static uint32_t element(struct tft_syntax *x)
{
    uint32_t c = 0, from = x->range.n;
    int p = tft_syntax_peek(x);
    if (p < 0 || p == '|' || p == ')')
        return 0;
    if (take(x, '['))
        return class(x);
    if (take(x, '('))
        return group(x);
    if (take(x, '.')) {
        tft_syntax_add_range(x, '\n', '\n');
        return tft_syntax_chars(x, from, true);
    }
    if (p == '*' || p == '+' || p == '?' || p == '{')
        return tft_syntax_fail(x, x->pos, "a repetition of nothing");
    if (p == '^' || p == '$')
        return tft_syntax_fail(x, x->pos,
                               "^ and $ are supported only at the ends of the expression");
    if (take(x, '\\')) {
        if (named_class(x, tft_syntax_peek(x))) {
            x->pos++;
            return tft_syntax_chars(x, from, false);
        }
        if (!escaped(x, false, &c))
            return 0;
    } else if (!character(x, &c))
        return 0;
    tft_syntax_add_range(x, c, c);
    return tft_syntax_chars(x, from, false);
}

static uint32_t repeated(struct tft_syntax *x, uint32_t node)
{
    uint32_t min = 0, max = TFT_SYNTAX_MANY;
    if (take(x, '*'))
        node = tft_syntax_repeat(x, node, 0, TFT_SYNTAX_MANY);
    else if (take(x, '+'))
        node = tft_syntax_repeat(x, node, 1, TFT_SYNTAX_MANY);
    else if (take(x, '?'))
        node = tft_syntax_repeat(x, node, 0, 1);
    else if (take(x, '{'))
        node = tft_syntax_bounds(x, false, &min, &max) ? tft_syntax_repeat(x, node, min, max) : 0;
    else
        return node;
    take(x, '?'); /* lazy */
    return node;
}

static uint32_t sequence(struct tft_syntax *x)
{
    uint32_t seq = tft_syntax_add(x, TFT_SYNTAX_SEQ, 0), last = 0, node;
    while (!x->status && !(tft_syntax_peek(x) == '$' && x->pos + 1 == x->len && !x->depth) &&
           (node = element(x)) != 0) {
        node = repeated(x, node);
        if (!node)
            return 0;
        tft_syntax_append(x, seq, &last, node);
    }
    return x->status ? 0 : seq;
}

static uint32_t alternatives(struct tft_syntax *x)
{
    uint32_t alt = tft_syntax_add(x, TFT_SYNTAX_ALT, 0), last = 0;
    do {
        uint32_t node = sequence(x);
        if (!node)
            return 0;
        tft_syntax_append(x, alt, &last, node);
    } while (take(x, '|'));
    return alt;
}

void tft_regex_parse(struct tft_syntax *x)
{
    bool anchored = take(x, '^');
    uint32_t body = alternatives(x);
    anchored = take(x, '$') || anchored;
    if (body && x->pos < x->len)
        tft_syntax_fail(x, x->pos, "a parenthesis that was not opened");
    /* ^a|b$ would anchor each alternative at one end only */
    if (body && anchored && tft_syntax_node(x, tft_syntax_node(x, body)->first)->next)
        tft_syntax_fail(x, 0, "^ and $ with | need a group: ^(?:a|b)$");
    x->root = body ? tft_syntax_named(x, "root", 4) : 0;
    if (x->root)
        tft_syntax_rule(x, x->root)->body = body;
}
