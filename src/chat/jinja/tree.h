/* The tree of a template: statements and expressions, in lists linked by `next`. */
#ifndef TFT_JINJA_TREE_H
#define TFT_JINJA_TREE_H

#include "jinja.h"

enum jinja_node_kind {
    /* expressions */
    NODE_CONST,     /* value */
    NODE_NAME,      /* name */
    NODE_LIST,      /* a: items */
    NODE_TUPLE,     /* a: items */
    NODE_DICT,      /* a: pairs */
    NODE_PAIR,      /* a: key, b: value */
    NODE_UNARY,     /* op a */
    NODE_BINARY,    /* a op b */
    NODE_AND,       /* a, b */
    NODE_OR,        /* a, b */
    NODE_NOT,       /* a */
    NODE_COMPARE,   /* a, then b: a list of NODE_OPERAND, as in a < b <= c */
    NODE_OPERAND,   /* op a */
    NODE_TERNARY,   /* a: condition, b: then, c: else or NULL */
    NODE_ATTRIBUTE, /* a.name */
    NODE_ITEM,      /* a[b] */
    NODE_SLICE,     /* a: start, b: stop, c: step; each may be NULL */
    NODE_CALL,      /* a(b) */
    NODE_ARG,       /* a; name: or NULL */
    NODE_FILTER,    /* a | name(b); a is NULL in a filter block */
    NODE_TEST,      /* a is name(b) */
    /* statements */
    NODE_DATA,         /* value: a string */
    NODE_PRINT,        /* a */
    NODE_IF,           /* a: condition, b: body, c: else */
    NODE_FOR,          /* a: target, b: over, c: condition or NULL, d: body, e: else */
    NODE_SET,          /* a: target, b: value */
    NODE_SET_BLOCK,    /* a: target, b: filters or NULL, c: body */
    NODE_MACRO,        /* name, a: parameters, b: body */
    NODE_PARAMETER,    /* name, a: default or NULL */
    NODE_CALL_BLOCK,   /* a: call, b: the macro `caller` */
    NODE_FILTER_BLOCK, /* a: filters, b: body */
    NODE_SCOPE,        /* a: body: {% generation %} */
    NODE_BREAK,
    NODE_CONTINUE,
};

struct jinja_node {
    enum jinja_node_kind kind;
    int op; /* enum jinja_op */
    int line;
    const struct jinja_string *name;
    struct jinja_value value;
    struct jinja_node *a, *b, *c, *d, *e, *next;
};

enum jinja_token_kind {
    TOKEN_END,
    TOKEN_DATA,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_PRINT_BEGIN,
    TOKEN_PRINT_END,
    TOKEN_NAME,
    TOKEN_VALUE, /* a string or a number */
    TOKEN_OP,
};

enum jinja_op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_CONCAT,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
    OP_ASSIGN,
    OP_PIPE,
    OP_DOT,
    OP_COMMA,
    OP_COLON,
    OP_OPEN,
    OP_CLOSE,
    OP_OPEN_LIST,
    OP_CLOSE_LIST,
    OP_OPEN_DICT,
    OP_CLOSE_DICT,
};

struct jinja_token {
    enum jinja_token_kind kind;
    enum jinja_op op;
    int line;
    const struct jinja_string *name; /* of TOKEN_NAME, text of TOKEN_DATA */
    struct jinja_value value;
};

struct jinja_parser {
    struct jinja *x;
    const struct jinja_token *t; /* the next token; the last one is TOKEN_END */
    unsigned loops;              /* around the current statement */
    struct jinja_node failed;    /* returned after a failure */
};

/* lexer.c: the tokens of source[n]; NULL after a failure. */
struct jinja_token *tft_jinja_lex(struct jinja *x, const char *source, size_t n);

/* parse_statement.c: the statements of the template; check x->status. */
struct jinja_node *tft_jinja_parse(struct jinja *x, const struct jinja_token *tokens);

/* parse_expression.c: for parse_statement.c */
struct jinja_node *tft_jinja_node(struct jinja_parser *p, enum jinja_node_kind kind);
struct jinja_node *tft_jinja_expression(struct jinja_parser *p);
/* One expression, or a tuple of several with commas. ternary: accept "x if y". */
struct jinja_node *tft_jinja_tuple(struct jinja_parser *p, bool ternary);
struct jinja_node *tft_jinja_primary(struct jinja_parser *p);
struct jinja_node *tft_jinja_postfix(struct jinja_parser *p, struct jinja_node *n);
/* name(args) | name ... after the first '|' was read; `input` may be NULL. */
struct jinja_node *tft_jinja_filters(struct jinja_parser *p, struct jinja_node *input);
bool tft_jinja_at_op(const struct jinja_parser *p, enum jinja_op op);
bool tft_jinja_at_name(const struct jinja_parser *p, const char *name);
bool tft_jinja_skip_op(struct jinja_parser *p, enum jinja_op op);
bool tft_jinja_skip_name(struct jinja_parser *p, const char *name);
void tft_jinja_expect(struct jinja_parser *p, enum jinja_op op, const char *what);
const struct jinja_string *tft_jinja_expect_name(struct jinja_parser *p);

#endif
