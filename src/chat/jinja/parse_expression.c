/* Parses expressions of Jinja's grammar: each function reads one level of precedence. */
#include "tree.h"

#include <string.h>

struct jinja_node *tft_jinja_node(struct jinja_parser *p, enum jinja_node_kind kind)
{
    struct jinja_node *n = tft_jinja_take(p->x, 1, sizeof *n);
    p->x->line = p->t->line;
    if (!n)
        return &p->failed;
    n->kind = kind;
    n->line = p->t->line;
    return n;
}

bool tft_jinja_at_op(const struct jinja_parser *p, enum jinja_op op)
{
    return p->t->kind == TOKEN_OP && p->t->op == op;
}

bool tft_jinja_at_name(const struct jinja_parser *p, const char *name)
{
    return p->t->kind == TOKEN_NAME && tft_jinja_is(p->t->name, name);
}

static void step(struct jinja_parser *p) { p->t += p->t->kind != TOKEN_END; }

bool tft_jinja_skip_op(struct jinja_parser *p, enum jinja_op op)
{
    bool there = tft_jinja_at_op(p, op);
    if (there)
        step(p);
    return there;
}

bool tft_jinja_skip_name(struct jinja_parser *p, const char *name)
{
    bool there = tft_jinja_at_name(p, name);
    if (there)
        step(p);
    return there;
}

void tft_jinja_expect(struct jinja_parser *p, enum jinja_op op, const char *what)
{
    p->x->line = p->t->line;
    if (!tft_jinja_skip_op(p, op))
        tft_jinja_fail(p->x, TFT_ERR_FORMAT, "%s is expected", what);
}

const struct jinja_string *tft_jinja_expect_name(struct jinja_parser *p)
{
    static const struct jinja_string none = {.p = "", .trusted = true};
    const struct jinja_string *name = p->t->name;
    p->x->line = p->t->line;
    if (p->t->kind != TOKEN_NAME) {
        tft_jinja_fail(p->x, TFT_ERR_FORMAT, "a name is expected");
        return &none;
    }
    step(p);
    return name;
}

static struct jinja_node *pair_of(struct jinja_parser *p, enum jinja_node_kind kind,
                                  struct jinja_node *a, struct jinja_node *b)
{
    struct jinja_node *n = tft_jinja_node(p, kind);
    n->a = a;
    n->b = b;
    return n;
}

static struct jinja_node *constant(struct jinja_parser *p, struct jinja_value v)
{
    struct jinja_node *n = tft_jinja_node(p, NODE_CONST);
    n->value = v;
    return n;
}

/* ---- primaries */

static struct jinja_node *name_or_constant(struct jinja_parser *p)
{
    const struct jinja_string *name = tft_jinja_expect_name(p);
    if (tft_jinja_is(name, "true") || tft_jinja_is(name, "True"))
        return constant(p, tft_jinja_bool(true));
    if (tft_jinja_is(name, "false") || tft_jinja_is(name, "False"))
        return constant(p, tft_jinja_bool(false));
    if (tft_jinja_is(name, "none") || tft_jinja_is(name, "None"))
        return constant(p, tft_jinja_none);
    struct jinja_node *n = tft_jinja_node(p, NODE_NAME);
    n->name = name;
    return n;
}

/* A number, or adjacent strings, joined. */
static struct jinja_node *literal(struct jinja_parser *p)
{
    struct jinja_value v = p->t->value;
    step(p);
    while (v.kind == JINJA_STRING && p->t->kind == TOKEN_VALUE &&
           p->t->value.kind == JINJA_STRING && p->x->status == TFT_OK) {
        v = tft_jinja_concat(p->x, v.string, p->t->value.string);
        step(p);
    }
    return constant(p, v);
}

static struct jinja_node *list(struct jinja_parser *p)
{
    struct jinja_node *n = tft_jinja_node(p, NODE_LIST), **end = &n->a;
    step(p);
    while (!tft_jinja_at_op(p, OP_CLOSE_LIST) && p->x->status == TFT_OK) {
        *end = tft_jinja_expression(p);
        end = &(*end)->next;
        if (!tft_jinja_at_op(p, OP_CLOSE_LIST))
            tft_jinja_expect(p, OP_COMMA, ", or ]");
    }
    step(p);
    return n;
}

static struct jinja_node *dict(struct jinja_parser *p)
{
    struct jinja_node *n = tft_jinja_node(p, NODE_DICT), **end = &n->a;
    step(p);
    while (!tft_jinja_at_op(p, OP_CLOSE_DICT) && p->x->status == TFT_OK) {
        struct jinja_node *key = tft_jinja_expression(p);
        tft_jinja_expect(p, OP_COLON, ":");
        *end = pair_of(p, NODE_PAIR, key, tft_jinja_expression(p));
        end = &(*end)->next;
        if (!tft_jinja_at_op(p, OP_CLOSE_DICT))
            tft_jinja_expect(p, OP_COMMA, ", or }");
    }
    step(p);
    return n;
}

struct jinja_node *tft_jinja_primary(struct jinja_parser *p)
{
    struct jinja_node *n;
    p->x->line = p->t->line;
    if (p->t->kind == TOKEN_NAME)
        return name_or_constant(p);
    if (p->t->kind == TOKEN_VALUE)
        return literal(p);
    if (tft_jinja_at_op(p, OP_OPEN_LIST))
        return list(p);
    if (tft_jinja_at_op(p, OP_OPEN_DICT))
        return dict(p);
    if (tft_jinja_skip_op(p, OP_OPEN)) {
        n = tft_jinja_at_op(p, OP_CLOSE) ? tft_jinja_node(p, NODE_TUPLE) : tft_jinja_tuple(p, true);
        tft_jinja_expect(p, OP_CLOSE, ")");
        return n;
    }
    tft_jinja_fail(p->x, TFT_ERR_FORMAT, "an expression is expected");
    return tft_jinja_node(p, NODE_CONST);
}

/* ---- after a primary: calls, indices, attributes, filters */

/* Arguments, after '('. */
static struct jinja_node *arguments(struct jinja_parser *p)
{
    struct jinja_node *first = NULL, **end = &first;
    bool named = false, spread = false;
    while (!tft_jinja_at_op(p, OP_CLOSE) && p->x->status == TFT_OK) {
        struct jinja_node *n = tft_jinja_node(p, NODE_ARG);
        if (tft_jinja_at_op(p, OP_POW))
            tft_jinja_fail(p->x, TFT_ERR_UNSUPPORTED, "** in arguments is not supported");
        if (!spread && tft_jinja_skip_op(p, OP_MUL)) {
            n->op = OP_MUL; /* a list of arguments */
            spread = true;
        } else if (p->t->kind == TOKEN_NAME && p->t[1].kind == TOKEN_OP &&
                   p->t[1].op == OP_ASSIGN) {
            n->name = tft_jinja_expect_name(p);
            step(p);
            named = true;
        } else if (named || spread) {
            tft_jinja_fail(p->x, TFT_ERR_FORMAT,
                           "a positional argument follows a named one, or *");
        }
        n->a = tft_jinja_expression(p);
        *end = n;
        end = &n->next;
        if (!tft_jinja_at_op(p, OP_CLOSE))
            tft_jinja_expect(p, OP_COMMA, ", or )");
    }
    step(p);
    return first;
}

/* The content of [ ]: an index, or a slice. */
static struct jinja_node *subscript(struct jinja_parser *p)
{
    struct jinja_node *slice = tft_jinja_node(p, NODE_SLICE),
                      **part[] = {&slice->a, &slice->b, &slice->c};
    int i = 0;
    while (!tft_jinja_at_op(p, OP_CLOSE_LIST) && i < 3 && p->x->status == TFT_OK) {
        if (!tft_jinja_at_op(p, OP_COLON))
            *part[i] = tft_jinja_expression(p);
        if (i == 0 && tft_jinja_at_op(p, OP_CLOSE_LIST)) {
            step(p);
            return slice->a;
        }
        i++;
        if (!tft_jinja_at_op(p, OP_CLOSE_LIST))
            tft_jinja_expect(p, OP_COLON, i < 3 ? ": or ]" : "]");
    }
    if (!i)
        tft_jinja_fail(p->x, TFT_ERR_FORMAT, "an index is expected");
    tft_jinja_expect(p, OP_CLOSE_LIST, "]");
    return slice;
}

struct jinja_node *tft_jinja_postfix(struct jinja_parser *p, struct jinja_node *n)
{
    while (p->x->status == TFT_OK) {
        struct jinja_node *outer;
        if (tft_jinja_skip_op(p, OP_DOT)) {
            bool index = p->t->kind == TOKEN_VALUE && p->t->value.kind == JINJA_INT;
            outer = pair_of(p, index ? NODE_ITEM : NODE_ATTRIBUTE, n, NULL);
            if (index)
                outer->b = literal(p);
            else
                outer->name = tft_jinja_expect_name(p);
        } else if (tft_jinja_skip_op(p, OP_OPEN_LIST)) {
            outer = pair_of(p, NODE_ITEM, n, NULL);
            outer->b = subscript(p);
        } else if (tft_jinja_skip_op(p, OP_OPEN)) {
            outer = pair_of(p, NODE_CALL, n, NULL);
            outer->b = arguments(p);
        } else {
            break;
        }
        n = outer;
    }
    return n;
}

struct jinja_node *tft_jinja_filters(struct jinja_parser *p, struct jinja_node *input)
{
    do {
        struct jinja_node *n = pair_of(p, NODE_FILTER, input, NULL);
        n->name = tft_jinja_expect_name(p);
        if (tft_jinja_skip_op(p, OP_OPEN))
            n->b = arguments(p);
        input = n;
    } while (p->x->status == TFT_OK && tft_jinja_skip_op(p, OP_PIPE));
    return input;
}

static struct jinja_node *test(struct jinja_parser *p, struct jinja_node *n)
{
    bool negated = tft_jinja_skip_name(p, "not");
    struct jinja_node *t = pair_of(p, NODE_TEST, n, NULL);
    t->name = tft_jinja_expect_name(p);
    if (tft_jinja_skip_op(p, OP_OPEN)) {
        t->b = arguments(p);
    } else if ((p->t->kind == TOKEN_NAME && !tft_jinja_at_name(p, "else") &&
                !tft_jinja_at_name(p, "or") && !tft_jinja_at_name(p, "and")) ||
               p->t->kind == TOKEN_VALUE || tft_jinja_at_op(p, OP_OPEN_LIST) ||
               tft_jinja_at_op(p, OP_OPEN_DICT)) {
        if (tft_jinja_at_name(p, "is"))
            tft_jinja_fail(p->x, TFT_ERR_FORMAT, "a test is followed by another one");
        t->b = pair_of(p, NODE_ARG, NULL, NULL);
        t->b->a = tft_jinja_postfix(p, tft_jinja_primary(p));
    }
    return negated ? pair_of(p, NODE_NOT, t, NULL) : t;
}

/* ---- operators */

static struct jinja_node *unary(struct jinja_parser *p, bool filters)
{
    struct jinja_node *n;
    if (tft_jinja_at_op(p, OP_SUB) || tft_jinja_at_op(p, OP_ADD)) {
        n = tft_jinja_node(p, NODE_UNARY);
        n->op = (int)p->t->op;
        step(p);
        if (tft_jinja_enter(p->x))
            n->a = unary(p, false);
        tft_jinja_leave(p->x);
    } else {
        n = tft_jinja_primary(p);
    }
    n = tft_jinja_postfix(p, n);
    while (filters && p->x->status == TFT_OK) {
        if (tft_jinja_skip_op(p, OP_PIPE))
            n = tft_jinja_filters(p, n);
        else if (tft_jinja_skip_name(p, "is"))
            n = test(p, n);
        else if (tft_jinja_skip_op(p, OP_OPEN))
            (n = pair_of(p, NODE_CALL, n, NULL))->b = arguments(p);
        else
            break;
    }
    return n;
}

/* Levels of left-associative operators, from the weakest. */
static struct jinja_node *arithmetic(struct jinja_parser *p, unsigned level)
{
    static const struct {
        enum jinja_op first, last;
    } levels[] = {{OP_ADD, OP_SUB}, {OP_CONCAT, OP_CONCAT}, {OP_MUL, OP_MOD}, {OP_POW, OP_POW}};
    if (level == sizeof levels / sizeof *levels)
        return unary(p, true);
    struct jinja_node *n = arithmetic(p, level + 1);
    while (p->t->kind == TOKEN_OP && p->t->op >= levels[level].first &&
           p->t->op <= levels[level].last && p->x->status == TFT_OK) {
        struct jinja_node *outer = pair_of(p, NODE_BINARY, n, NULL);
        outer->op = (int)p->t->op;
        step(p);
        outer->b = arithmetic(p, level + 1);
        n = outer;
    }
    return n;
}

static struct jinja_node *comparison(struct jinja_parser *p)
{
    struct jinja_node *n = arithmetic(p, 0), *first = NULL, **end = &first;
    while (p->x->status == TFT_OK) {
        bool negated = tft_jinja_at_name(p, "not") && p->t[1].kind == TOKEN_NAME &&
                       tft_jinja_is(p->t[1].name, "in");
        bool in = negated || tft_jinja_at_name(p, "in");
        if (!in && (p->t->kind != TOKEN_OP || p->t->op < OP_EQ || p->t->op > OP_GE))
            break;
        struct jinja_node *operand = tft_jinja_node(p, NODE_OPERAND);
        operand->op = negated ? OP_NOT_IN : in ? OP_IN : (int)p->t->op;
        if (negated)
            step(p);
        step(p);
        operand->a = arithmetic(p, 0);
        *end = operand;
        end = &operand->next;
    }
    return first ? pair_of(p, NODE_COMPARE, n, first) : n;
}

static struct jinja_node *negation(struct jinja_parser *p)
{
    if (!tft_jinja_skip_name(p, "not"))
        return comparison(p);
    struct jinja_node *n = tft_jinja_node(p, NODE_NOT);
    if (tft_jinja_enter(p->x))
        n->a = negation(p);
    tft_jinja_leave(p->x);
    return n;
}

static struct jinja_node *conjunction(struct jinja_parser *p)
{
    struct jinja_node *n = negation(p);
    while (p->x->status == TFT_OK && tft_jinja_skip_name(p, "and"))
        n = pair_of(p, NODE_AND, n, negation(p));
    return n;
}

static struct jinja_node *disjunction(struct jinja_parser *p)
{
    struct jinja_node *n = conjunction(p);
    while (p->x->status == TFT_OK && tft_jinja_skip_name(p, "or"))
        n = pair_of(p, NODE_OR, n, conjunction(p));
    return n;
}

static struct jinja_node *ternary(struct jinja_parser *p)
{
    struct jinja_node *n = disjunction(p);
    while (p->x->status == TFT_OK && tft_jinja_skip_name(p, "if")) {
        struct jinja_node *outer = tft_jinja_node(p, NODE_TERNARY);
        outer->b = n;
        outer->a = disjunction(p);
        if (tft_jinja_skip_name(p, "else"))
            outer->c = tft_jinja_expression(p);
        n = outer;
    }
    return n;
}

struct jinja_node *tft_jinja_expression(struct jinja_parser *p)
{
    struct jinja_node *n = NULL;
    if (tft_jinja_enter(p->x))
        n = ternary(p);
    tft_jinja_leave(p->x);
    return n ? n : tft_jinja_node(p, NODE_CONST);
}

struct jinja_node *tft_jinja_tuple(struct jinja_parser *p, bool with_ternary)
{
    struct jinja_node *first = with_ternary ? tft_jinja_expression(p) : disjunction(p);
    if (!tft_jinja_at_op(p, OP_COMMA))
        return first;
    struct jinja_node *n = tft_jinja_node(p, NODE_TUPLE), **end = &first->next;
    n->a = first;
    while (p->x->status == TFT_OK && tft_jinja_skip_op(p, OP_COMMA)) {
        if (p->t->kind == TOKEN_BLOCK_END || p->t->kind == TOKEN_PRINT_END ||
            tft_jinja_at_op(p, OP_CLOSE) || tft_jinja_at_name(p, "in"))
            break;
        *end = with_ternary ? tft_jinja_expression(p) : disjunction(p);
        end = &(*end)->next;
    }
    return n;
}
