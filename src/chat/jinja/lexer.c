/* Splits a template's source into tokens, by Jinja's rules of white space. As in Hugging Face's
   transformers, trim_blocks (drop the newline after a block) and lstrip_blocks (drop white space
   between the start of a line and a block) are on. */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/utf8.h"

enum { MOST_TOKENS = 200000, MOST_NESTING = 64 };

struct lexer {
    struct jinja *x;
    const char *p; /* [n] the source; its newlines are \n, never \r\n or \r */
    size_t n, at;
    int line;
    struct jinja_token *t; /* [room] */
    size_t n_t, room;
    char nesting[MOST_NESTING]; /* the pending closing brackets */
    unsigned n_nesting;
};

/* Turns Jinja's newlines (\r\n, \r, \n) into \n, and drops a newline at the end of the source. */
static void normalize(struct lexer *l, const char *source, size_t n)
{
    char *p = tft_jinja_take(l->x, n + 1, 1);
    for (size_t i = 0; p && i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n')
            continue;
        p[l->n++] = source[i] == '\r' ? '\n' : source[i];
    }
    l->n -= l->n && p[l->n - 1] == '\n';
    l->p = p;
}

static struct jinja_token *push(struct lexer *l, enum jinja_token_kind kind)
{
    if (l->n_t == l->room) {
        size_t room = l->room ? l->room * 2 : 256;
        struct jinja_token *more = tft_jinja_take(l->x, room, sizeof *more);
        if (!more || room > MOST_TOKENS) {
            tft_jinja_fail(l->x, TFT_ERR_FULL, "the template is too long");
            return NULL;
        }
        if (l->n_t)
            memcpy(more, l->t, l->n_t * sizeof *more);
        l->t = more;
        l->room = room;
    }
    l->t[l->n_t] = (struct jinja_token){.kind = kind, .line = l->line};
    return &l->t[l->n_t++];
}

/* Moves on to byte `to`. */
static void advance(struct lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        l->line += l->p[l->at] == '\n';
    l->x->line = l->line;
}

/* The end of the white space from `at` on. */
static size_t behind_space(const struct lexer *l, size_t at)
{
    for (uint32_t c; at < l->n;) {
        size_t n = tft_utf8_next(l->p + at, l->n - at, &c);
        if (!tft_jinja_space(c))
            break;
        at += n;
    }
    return at;
}

/* The start of the white space at the end of [begin, end). */
static size_t before_space(const struct lexer *l, size_t begin, size_t end)
{
    size_t keep = begin;
    uint32_t c;
    for (size_t at = begin; at < end;) {
        at += tft_utf8_next(l->p + at, end - at, &c);
        if (!tft_jinja_space(c))
            keep = at;
    }
    return keep;
}

static bool at(const struct lexer *l, size_t from, const char *word)
{
    size_t n = strlen(word);
    return n <= l->n - from && memcmp(l->p + from, word, n) == 0;
}

/* Reads text up to the next tag or the end. line_start: whether the text begins a line */
static void lex_data(struct lexer *l, bool line_start)
{
    size_t begin = l->at, tag = begin;
    while (tag < l->n && !at(l, tag, "{%") && !at(l, tag, "{{") && !at(l, tag, "{#"))
        tag++;
    size_t end = tag;
    char sign = tag + 2 < l->n ? l->p[tag + 2] : 0;
    if (tag < l->n && sign == '-') {
        end = before_space(l, begin, tag);
    } else if (tag < l->n && sign != '+' && !at(l, tag, "{{")) {
        size_t start = tag;
        while (start > begin && l->p[start - 1] != '\n')
            start--;
        if ((start > begin || line_start) && before_space(l, start, tag) == start)
            end = start;
    }
    if (end > begin) {
        struct jinja_token *t = push(l, TOKEN_DATA);
        struct jinja_value v = tft_jinja_string(l->x, l->p + begin, end - begin, true);
        if (t)
            t->name = v.string;
    }
    advance(l, tag);
}

/* Skips the end of a tag, a '}' and the sign before it, and the white space that the tag drops. */
static void lex_end(struct lexer *l, size_t end, bool minus, bool trims)
{
    advance(l, minus ? behind_space(l, end) : end + (trims && end < l->n && l->p[end] == '\n'));
}

static void lex_comment(struct lexer *l)
{
    size_t begin = l->at + 2 + (l->at + 2 < l->n && strchr("-+", l->p[l->at + 2]) != NULL);
    size_t end = begin;
    while (end < l->n && !at(l, end, "#}"))
        end++;
    if (end >= l->n) {
        tft_jinja_fail(l->x, TFT_ERR_FORMAT, "a comment does not end");
        return;
    }
    char sign = end > begin ? l->p[end - 1] : 0;
    lex_end(l, end + 2, sign == '-', sign != '+');
}

/* ---- inside a tag */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* Digits with single underscores between them, from `from` on; returns their end. */
static size_t behind_digits(const struct lexer *l, size_t from)
{
    size_t end = from;
    while (end < l->n &&
           (is_digit(l->p[end]) || (end > from && l->p[end] == '_' && l->p[end - 1] != '_' &&
                                    end + 1 < l->n && is_digit(l->p[end + 1]))))
        end++;
    return end;
}

static void lex_number(struct lexer *l)
{
    char text[64];
    size_t begin = l->at, end = behind_digits(l, begin), n = 0;
    bool whole = true;
    if (end + 1 < l->n && l->p[end] == '.' && is_digit(l->p[end + 1])) {
        end = behind_digits(l, end + 1);
        whole = false;
    }
    if (end < l->n && (l->p[end] == 'e' || l->p[end] == 'E')) {
        size_t sign = end + 1 + (end + 1 < l->n && strchr("+-", l->p[end + 1]) && l->p[end + 1]);
        if (sign < l->n && is_digit(l->p[sign])) {
            end = behind_digits(l, sign);
            whole = false;
        }
    }
    for (size_t i = begin; i < end && n < sizeof text - 1; i++)
        if (l->p[i] != '_')
            text[n++] = l->p[i];
    text[n] = 0;
    struct jinja_token *t = push(l, TOKEN_VALUE);
    if (n > (whole ? 18u : 60u) || (end < l->n && is_letter(l->p[end])) ||
        (whole && n > 1 && text[0] == '0'))
        tft_jinja_fail(l->x, TFT_ERR_UNSUPPORTED, "the number %s is not supported", text);
    if (t && !whole) { /* JSON has the same floats */
        struct jinja_string s = {.p = text, .n = n};
        t->value = tft_jinja_read_json(l->x, &s);
    } else if (t) {
        t->value = tft_jinja_int(strtoll(text, NULL, 10));
    }
    advance(l, end);
}

/* Writes the character of \xHH, \uHHHH or \UHHHHHHHH with digits at `from`; returns the digits' end
   or 0. */
static size_t unescape_hex(const struct lexer *l, size_t from, size_t digits, char *out, size_t *n)
{
    uint32_t c = 0;
    for (size_t i = from; i < from + digits; i++) {
        int digit = i < l->n ? tft_hex_digit(l->p[i]) : -1;
        if (digit < 0)
            return 0;
        c = c * 16 + (uint32_t)digit;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *n += tft_utf8_put(out + *n, c);
    return from + digits;
}

/* Writes the character of the escape sequence at `from`, after the backslash; returns the
   sequence's end, or 0 if unsupported. As in Python, an unknown sequence keeps its backslash. */
static size_t unescape(const struct lexer *l, size_t from, char *out, size_t *n)
{
    static const char names[] = "\\'\"abfnrtv", chars[] = "\\'\"\a\b\f\n\r\t\v";
    char c = l->p[from];
    const char *name = c ? strchr(names, c) : NULL;
    if (name)
        out[(*n)++] = chars[name - names];
    else if (c == 'x' || c == 'u' || c == 'U')
        return unescape_hex(l, from + 1, c == 'x' ? 2 : c == 'u' ? 4 : 8, out, n);
    else if (c == 'N' || is_digit(c))
        return 0;
    else if (c != '\n') {
        out[(*n)++] = '\\';
        out[(*n)++] = c;
    }
    return from + 1;
}

static void lex_string(struct lexer *l)
{
    char quote = l->p[l->at];
    size_t from = l->at + 1, end = from, n = 0;
    while (end < l->n && l->p[end] != quote)
        end += l->p[end] == '\\' ? 2 : 1;
    char *out = end < l->n ? tft_jinja_take(l->x, end - from + 1, 1) : NULL;
    if (!out) {
        tft_jinja_fail(l->x, TFT_ERR_FORMAT, "a string does not end");
        return;
    }
    while (from && from < end) {
        if (l->p[from] == '\\')
            from = unescape(l, from + 1, out, &n);
        else
            out[n++] = l->p[from++];
    }
    if (!from)
        tft_jinja_fail(l->x, TFT_ERR_UNSUPPORTED, "an escape sequence is not supported");
    struct jinja_token *t = push(l, TOKEN_VALUE);
    if (t)
        t->value = tft_jinja_string(l->x, out, n, true);
    advance(l, end + 1);
}

static void lex_name(struct lexer *l)
{
    size_t begin = l->at, end = begin;
    while (end < l->n && (is_letter(l->p[end]) || is_digit(l->p[end])))
        end++;
    struct jinja_value v = tft_jinja_string(l->x, l->p + begin, end - begin, true);
    struct jinja_token *t = push(l, TOKEN_NAME);
    if (t)
        t->name = v.string;
    advance(l, end);
}

static void check_nesting(struct lexer *l, enum jinja_op op)
{
    static const char closing[] = ")]}";
    if (op >= OP_OPEN && (op - OP_OPEN) % 2 == 0) {
        if (l->n_nesting == MOST_NESTING)
            tft_jinja_fail(l->x, TFT_ERR_FULL, "more than %d brackets inside each other",
                           MOST_NESTING);
        else
            l->nesting[l->n_nesting++] = closing[(op - OP_OPEN) / 2];
    } else if (op >= OP_OPEN) {
        char c = closing[(op - OP_OPEN) / 2];
        if (!l->n_nesting || l->nesting[--l->n_nesting] != c)
            tft_jinja_fail(l->x, TFT_ERR_FORMAT, "unexpected %c", c);
    }
}

static void lex_operator(struct lexer *l)
{
    static const struct {
        const char *text;
        enum jinja_op op;
    } ops[] = {
        {"//", OP_FLOORDIV}, {"**", OP_POW},       {"==", OP_EQ},   {"!=", OP_NE},
        {">=", OP_GE},       {"<=", OP_LE},        {"+", OP_ADD},   {"-", OP_SUB},
        {"/", OP_DIV},       {"*", OP_MUL},        {"%", OP_MOD},   {"~", OP_CONCAT},
        {"[", OP_OPEN_LIST}, {"]", OP_CLOSE_LIST}, {"(", OP_OPEN},  {")", OP_CLOSE},
        {"{", OP_OPEN_DICT}, {"}", OP_CLOSE_DICT}, {">", OP_GT},    {"<", OP_LT},
        {"=", OP_ASSIGN},    {".", OP_DOT},        {":", OP_COLON}, {"|", OP_PIPE},
        {",", OP_COMMA},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (at(l, l->at, ops[i].text)) {
            struct jinja_token *t = push(l, TOKEN_OP);
            if (t)
                t->op = ops[i].op;
            check_nesting(l, ops[i].op);
            advance(l, l->at + strlen(ops[i].text));
            return;
        }
    tft_jinja_fail(l->x, TFT_ERR_FORMAT, "unexpected character '%c'", l->p[l->at]);
}

static void lex_tag(struct lexer *l, bool block)
{
    const char *end = block ? "%}" : "}}";
    char sign = l->at + 2 < l->n ? l->p[l->at + 2] : 0;
    push(l, block ? TOKEN_BLOCK_BEGIN : TOKEN_PRINT_BEGIN);
    advance(l, l->at + 2 + (sign == '-' || sign == '+'));
    l->n_nesting = 0;
    while (l->x->status == TFT_OK) {
        advance(l, behind_space(l, l->at));
        char c = l->at < l->n ? l->p[l->at] : 0;
        bool signed_end = (c == '-' || (c == '+' && block)) && at(l, l->at + 1, end);
        if (l->at >= l->n) {
            tft_jinja_fail(l->x, TFT_ERR_FORMAT, "a tag does not end");
        } else if (!l->n_nesting && (signed_end || at(l, l->at, end))) {
            push(l, block ? TOKEN_BLOCK_END : TOKEN_PRINT_END);
            lex_end(l, l->at + 2 + signed_end, c == '-', block && c != '+');
            return;
        } else if (is_digit(c)) {
            lex_number(l);
        } else if (is_letter(c)) {
            lex_name(l);
        } else if (c == '"' || c == '\'') {
            lex_string(l);
        } else {
            lex_operator(l);
        }
    }
}

struct jinja_token *tft_jinja_lex(struct jinja *x, const char *source, size_t n)
{
    struct lexer l = {.x = x, .line = 1};
    x->line = 1;
    normalize(&l, source, n);
    while (x->status == TFT_OK && l.at < l.n) {
        lex_data(&l, !l.at || l.p[l.at - 1] == '\n');
        if (l.at < l.n && x->status == TFT_OK) {
            if (l.p[l.at + 1] == '#')
                lex_comment(&l);
            else
                lex_tag(&l, l.p[l.at + 1] == '%');
        }
    }
    push(&l, TOKEN_END);
    return x->status == TFT_OK ? l.t : NULL;
}
