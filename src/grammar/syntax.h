/*
 * The syntax of a grammar: rules with trees of expressions. gbnf.c and regex.c parse the syntax,
 * compile.c turns it into an automaton.
 */
#ifndef TFT_SYNTAX_H
#define TFT_SYNTAX_H

#include "grammar.h"
#include "vec.h"

/* Limits, named by error messages. */
enum {
    TFT_SYNTAX_BYTES = 1 << 20, /* of a grammar's text */
    TFT_SYNTAX_RULES = 1 << 14,
    TFT_SYNTAX_DEPTH = 64,      /* levels of parentheses */
    TFT_SYNTAX_TIMES = 1 << 16, /* the largest number in {} */
    TFT_SYNTAX_NAMES = 1 << 10, /* names of tokens: each takes a search through the vocabulary */
};
#define TFT_SYNTAX_MANY UINT32_MAX /* no upper bound */

enum tft_syntax_kind {
    TFT_SYNTAX_CHARS,  /* one character of range[first .. first + n) */
    TFT_SYNTAX_RULE,   /* rule number `first` */
    TFT_SYNTAX_TOKEN,  /* token number `first`; with n != 0 any other token */
    TFT_SYNTAX_SEQ,    /* the children in sequence; no children: the empty text */
    TFT_SYNTAX_ALT,    /* one of the children */
    TFT_SYNTAX_REPEAT, /* the only child, min .. max times */
};

/* Children are a list: node `first`, then each child's `next`. Node 0 means no node. */
struct tft_syntax_node {
    enum tft_syntax_kind kind;
    uint32_t first, n, next;
    uint32_t min, max;
};

struct tft_syntax_range {
    uint32_t lo, hi; /* code points */
};

struct tft_syntax_rule {
    const char *name; /* [n] in the grammar's text */
    uint32_t n, body; /* body: a node, 0 until the rule is defined */
    uint32_t at;      /* byte of the text where the name is first used */
};

struct tft_syntax {
    const struct tft_allocator *a;
    const struct tft_lexicon *lexicon; /* for the names of tokens */
    const char *text;                  /* [len] */
    uint32_t len, pos, depth;          /* pos: the parser's */
    struct tft_vec node, range, rule;
    uint32_t *slot; /* [n_slot, a power of two] rules by the hash of their name, + 1; 0: empty */
    uint32_t n_slot;
    uint32_t root;    /* a rule */
    uint32_t n_names; /* names of tokens so far */
    struct tft_error *err;
    enum tft_status status;
};

static inline struct tft_syntax_node *tft_syntax_node(const struct tft_syntax *x, uint32_t i)
{
    return (struct tft_syntax_node *)x->node.p + i;
}
static inline struct tft_syntax_rule *tft_syntax_rule(const struct tft_syntax *x, uint32_t i)
{
    return (struct tft_syntax_rule *)x->rule.p + i;
}

/* Starts a syntax with node 0. False: out of memory. Free it in either case. */
bool tft_syntax_begin(struct tft_syntax *x);
void tft_syntax_free(struct tft_syntax *x);

/* A new node; 0 after an error. */
uint32_t tft_syntax_add(struct tft_syntax *x, enum tft_syntax_kind kind, uint32_t first);

/* Appends `child` to the list of `parent`, after the child *last (0: the list is empty); *last =
   child. */
void tft_syntax_append(struct tft_syntax *x, uint32_t parent, uint32_t *last, uint32_t child);

/* Appends a range of code points for the next node of characters. */
void tft_syntax_add_range(struct tft_syntax *x, uint32_t lo, uint32_t hi);

/* A node for the ranges from number `from` on: sorted, merged, and negated if `not`. */
uint32_t tft_syntax_chars(struct tft_syntax *x, uint32_t from, bool not);

/* Puts `node` into a repetition. */
uint32_t tft_syntax_repeat(struct tft_syntax *x, uint32_t node, uint32_t min, uint32_t max);

/* The byte at pos; -1: the end. */
static inline int tft_syntax_peek(const struct tft_syntax *x)
{
    return x->pos < x->len ? (unsigned char)x->text[x->pos] : -1;
}

/* Reads a code point of `digits` hexadecimal digits at pos. */
bool tft_syntax_hex(struct tft_syntax *x, int digits, uint32_t *c);

/* Reads `{m}`, `{m,}`, `{,n}` or `{m,n}` from pos on, after the brace. spaces: allow spaces around
   the numbers. */
bool tft_syntax_bounds(struct tft_syntax *x, bool spaces, uint32_t *min, uint32_t *max);

/* The number of the rule of the name, which is made if absent; 0 after an error. Rule 0 is
   unused. */
uint32_t tft_syntax_named(struct tft_syntax *x, const char *name, uint32_t n);

/* Records an error at byte `at` of the text, with line and column; keeps the first error. Returns
   0. */
uint32_t tft_syntax_fail(struct tft_syntax *x, uint32_t at, const char *what);

/* Parsers: set x->text first; they fill in *x. On failure x->status is the reason. */
void tft_gbnf_parse(struct tft_syntax *x);
void tft_regex_parse(struct tft_syntax *x);

#endif
