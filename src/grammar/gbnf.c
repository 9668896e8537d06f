/*
 * Parses the grammar language GBNF of llama.cpp (its grammars/README.md): rules NAME ::= ...,
 * "text", [classes], ., (groups), |, *, +, ?, {m,n}, # comments, and the tokens <NAME>, <[ID]>,
 * !<NAME>, !<[ID]>. The text is hostile.
 */
#include "syntax.h"

#include "base/utf8.h"

static uint32_t alternatives(struct tft_syntax *x);

static bool take(struct tft_syntax *x, const char *what)
{
    size_t n = strlen(what);
    if (x->len - x->pos < n || memcmp(x->text + x->pos, what, n) != 0)
        return false;
    x->pos += (uint32_t)n;
    return true;
}

static void skip_space(struct tft_syntax *x, bool lines)
{
    for (int c; (c = tft_syntax_peek(x)) == ' ' || c == '\t' || c == '#' ||
                (lines && (c == '\r' || c == '\n'));) {
        if (c == '#')
            while (x->pos < x->len && tft_syntax_peek(x) != '\r' && tft_syntax_peek(x) != '\n')
                x->pos++;
        else
            x->pos++;
    }
}

static bool is_word(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* The length of the name at pos. */
static uint32_t word(const struct tft_syntax *x)
{
    uint32_t end = x->pos;
    while (end < x->len && is_word((unsigned char)x->text[end]))
        end++;
    return end - x->pos;
}

/* ---- characters */

/* Reads one character of a literal or a class, perhaps an escape. */
static bool character(struct tft_syntax *x, uint32_t *c)
{
    uint32_t start = x->pos;
    if (!take(x, "\\")) {
        x->pos += (uint32_t)tft_utf8_next(x->text + x->pos, x->len - x->pos, c);
        if (*c == TFT_UTF8_BAD || *c == TFT_UTF8_CUT)
            return tft_syntax_fail(x, start, "bytes that are not UTF-8");
        return true;
    }
    int e = tft_syntax_peek(x);
    x->pos += e >= 0;
    switch (e) {
    case 'x': return tft_syntax_hex(x, 2, c);
    case 'u': return tft_syntax_hex(x, 4, c);
    case 'U': return tft_syntax_hex(x, 8, c);
    case 't': *c = '\t'; return true;
    case 'r': *c = '\r'; return true;
    case 'n': *c = '\n'; return true;
    case '\\': case '"': case '[': case ']': case '-': case '^': *c = (uint32_t)e; return true;
    default: return tft_syntax_fail(x, start, "an unknown escape");
    }
}

/* The characters of "...", as a sequence. */
static uint32_t literal(struct tft_syntax *x)
{
    uint32_t start = x->pos++, seq = tft_syntax_add(x, TFT_SYNTAX_SEQ, 0), last = 0;
    while (!x->status && !take(x, "\"")) {
        uint32_t c = 0, from = x->range.n;
        if (tft_syntax_peek(x) < 0)
            return tft_syntax_fail(x, start, "a text without its closing \"");
        if (!character(x, &c))
            return 0;
        tft_syntax_add_range(x, c, c);
        uint32_t node = tft_syntax_chars(x, from, false);
        if (!node)
            return 0;
        tft_syntax_append(x, seq, &last, node);
    }
    return seq;
}

static uint32_t class(struct tft_syntax *x)
{
    uint32_t start = x->pos++, from = x->range.n;
    bool not = take(x, "^");
    while (!x->status && !take(x, "]")) {
        uint32_t lo = 0, hi;
        if (tft_syntax_peek(x) < 0)
            return tft_syntax_fail(x, start, "a class without its closing ]");
        if (!character(x, &lo))
            return 0;
        hi = lo;
        if (tft_syntax_peek(x) == '-' && x->pos + 1 < x->len && x->text[x->pos + 1] != ']') {
            x->pos++;
            if (!character(x, &hi))
                return 0;
        }
        if (hi < lo)
            return tft_syntax_fail(x, start, "a class with a range that ends before it begins");
        tft_syntax_add_range(x, lo, hi);
    }
    return tft_syntax_chars(x, from, not);
}

/* <[ID]> or <NAME>: the brackets are part of the token's name. */
static uint32_t token(struct tft_syntax *x)
{
    uint32_t start = x->pos;
    bool not = take(x, "!");
    const char *name = x->text + x->pos;
    int32_t id = -1;
    if (take(x, "<[")) {
        uint64_t n = 0;
        for (; tft_syntax_peek(x) >= '0' && tft_syntax_peek(x) <= '9'; x->pos++)
            n = n < UINT32_MAX ? n * 10 + (uint64_t)(tft_syntax_peek(x) - '0') : n;
        if (take(x, "]>") && n < tft_lexicon_size(x->lexicon))
            id = (int32_t)n;
    } else if (take(x, "<")) {
        while (tft_syntax_peek(x) >= 0 && tft_syntax_peek(x) != '>' && tft_syntax_peek(x) != '\n')
            x->pos++;
        if (++x->n_names > TFT_SYNTAX_NAMES)
            return tft_syntax_fail(x, start, "more than 1024 names of tokens");
        if (take(x, ">"))
            id = tft_lexicon_special(x->lexicon, name, (size_t)(x->text + x->pos - name));
    }
    if (id < 0)
        return tft_syntax_fail(x, start, "not a token of the vocabulary: <NAME> or <[ID]>");
    uint32_t node = tft_syntax_add(x, TFT_SYNTAX_TOKEN, (uint32_t)id);
    if (node)
        tft_syntax_node(x, node)->n = not;
    return node;
}

/* ---- sequences */

static uint32_t group(struct tft_syntax *x)
{
    uint32_t start = x->pos++, node;
    if (++x->depth > TFT_SYNTAX_DEPTH)
        return tft_syntax_fail(x, start, "parentheses that are nested more than 64 deep");
    skip_space(x, true);
    node = alternatives(x);
    x->depth--;
    if (node && !take(x, ")"))
        return tft_syntax_fail(x, start, "a parenthesis that is not closed");
    return node;
}

/* Reads one element without its repetition; 0 at the end of a sequence, or after an error. */
static uint32_t element(struct tft_syntax *x)
{
    int c = tft_syntax_peek(x);
    if (c == '"')
        return literal(x);
    if (c == '[')
        return class(x);
    if (c == '(')
        return group(x);
    if (c == '<' || c == '!')
        return token(x);
    if (c == '.') {
        x->pos++;
        return tft_syntax_chars(x, x->range.n, true);
    }
    uint32_t n = word(x), rule = n ? tft_syntax_named(x, x->text + x->pos, n) : 0;
    x->pos += n;
    return rule ? tft_syntax_add(x, TFT_SYNTAX_RULE, rule) : 0;
}

static uint32_t repeated(struct tft_syntax *x, uint32_t node)
{
    uint32_t min = 0, max = TFT_SYNTAX_MANY;
    for (int times = 0; node && times < 4; times++) {
        if (take(x, "*"))
            node = tft_syntax_repeat(x, node, 0, TFT_SYNTAX_MANY);
        else if (take(x, "+"))
            node = tft_syntax_repeat(x, node, 1, TFT_SYNTAX_MANY);
        else if (take(x, "?"))
            node = tft_syntax_repeat(x, node, 0, 1);
        else if (take(x, "{"))
            node = tft_syntax_bounds(x, true, &min, &max) ? tft_syntax_repeat(x, node, min, max)
                                                          : 0;
        else
            break;
        skip_space(x, x->depth > 0);
    }
    return node;
}

static uint32_t sequence(struct tft_syntax *x)
{
    uint32_t seq = tft_syntax_add(x, TFT_SYNTAX_SEQ, 0), last = 0, node;
    while (!x->status && (node = element(x)) != 0) {
        skip_space(x, x->depth > 0);
        node = repeated(x, node);
        if (!node)
            return 0;
        /* a separate node: the element may be the first of another list */
        tft_syntax_append(x, seq, &last, node);
    }
    return x->status ? 0 : seq;
}

static uint32_t alternatives(struct tft_syntax *x)
{
    uint32_t alt = tft_syntax_add(x, TFT_SYNTAX_ALT, 0), last = 0;
    do {
        if (last)
            skip_space(x, true);
        uint32_t node = sequence(x);
        if (!node)
            return 0;
        tft_syntax_append(x, alt, &last, node);
    } while (take(x, "|"));
    return alt;
}

static void rule(struct tft_syntax *x)
{
    uint32_t start = x->pos, n = word(x), r;
    if (!n) {
        tft_syntax_fail(x, start, "a rule begins with its name");
        return;
    }
    r = tft_syntax_named(x, x->text + x->pos, n);
    x->pos += n;
    skip_space(x, false);
    if (r && !take(x, "::="))
        tft_syntax_fail(x, x->pos, "the name of a rule is followed by ::=");
    else if (r && tft_syntax_rule(x, r)->body)
        tft_syntax_fail(x, start, "a rule of this name is there already");
    skip_space(x, true);
    uint32_t body = x->status ? 0 : alternatives(x);
    if (!body)
        return;
    tft_syntax_rule(x, r)->body = body;
    if (tft_syntax_peek(x) >= 0 && tft_syntax_peek(x) != '\r' && tft_syntax_peek(x) != '\n')
        tft_syntax_fail(x, x->pos, "not a part of a rule");
}

void tft_gbnf_parse(struct tft_syntax *x)
{
    for (skip_space(x, true); !x->status && tft_syntax_peek(x) >= 0; skip_space(x, true))
        rule(x);
    for (uint32_t r = 1; r < x->rule.n && !x->status; r++)
        if (!tft_syntax_rule(x, r)->body)
            tft_syntax_fail(x, tft_syntax_rule(x, r)->at, "no rule of this name is defined");
    x->root = x->status ? 0 : tft_syntax_named(x, "root", 4);
    if (x->root && !tft_syntax_rule(x, x->root)->body)
        tft_syntax_fail(x, 0, "there is no rule named root");
}
