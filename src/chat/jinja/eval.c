/* Evaluates expressions. */
#include "tree.h"

#include <string.h>

struct jinja_binding {
    const struct jinja_string *name;
    struct jinja_value value;
    struct jinja_binding *next;
};

static struct jinja_binding *bound(struct jinja *x, const struct jinja_scope *s,
                                   const struct jinja_string *name)
{
    for (struct jinja_binding *b = s->first; b && tft_jinja_spend(x, 1 + name->n / 64); b = b->next)
        if (tft_jinja_same(b->name, name))
            return b;
    return NULL;
}

void tft_jinja_set(struct jinja *x, const struct jinja_string *name, struct jinja_value v)
{
    struct jinja_binding *b = bound(x, x->scope, name);
    if (!b && (b = tft_jinja_take(x, 1, sizeof *b)) != NULL) {
        *b = (struct jinja_binding){.name = name, .next = x->scope->first};
        x->scope->first = b;
    }
    if (b)
        b->value = v;
}

static struct jinja_value lookup(struct jinja *x, const struct jinja_string *name)
{
    struct jinja_value v;
    for (const struct jinja_scope *s = x->scope; s && x->status == TFT_OK; s = s->parent) {
        const struct jinja_binding *b = bound(x, s, name);
        if (b)
            return b->value;
    }
    if (tft_jinja_function(x, name, &v))
        return v;
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .string = name};
}

static struct jinja_value list(struct jinja *x, const struct jinja_node *e)
{
    struct jinja_list *l = tft_jinja_list(x, e->kind == NODE_TUPLE ? JINJA_TUPLE : JINJA_PLAIN);
    for (const struct jinja_node *n = e->a; n && x->status == TFT_OK; n = n->next)
        tft_jinja_push(x, l, tft_jinja_eval(x, n));
    return tft_jinja_list_value(l);
}

static struct jinja_value dict(struct jinja *x, const struct jinja_node *e)
{
    struct jinja_value v = {.kind = JINJA_DICT, .dict = tft_jinja_dict(x)};
    for (const struct jinja_node *n = e->a; n && x->status == TFT_OK; n = n->next) {
        struct jinja_value key = tft_jinja_eval(x, n->a);
        if (key.kind == JINJA_LIST || key.kind >= JINJA_DICT)
            return tft_jinja_fail(x, TFT_ERR_FORMAT, "a %s cannot be a key", tft_jinja_type(key));
        tft_jinja_put(x, v.dict, key, tft_jinja_eval(x, n->b));
    }
    return x->status == TFT_OK ? v : tft_jinja_undefined;
}

static bool holds(struct jinja *x, int op, struct jinja_value a, struct jinja_value b)
{
    switch (op) {
    case OP_EQ: return tft_jinja_equal(x, a, b);
    case OP_NE: return !tft_jinja_equal(x, a, b);
    case OP_IN: return tft_jinja_contains(x, b, a);
    case OP_NOT_IN: return !tft_jinja_contains(x, b, a);
    default: break;
    }
    int c = tft_jinja_compare(x, a, b);
    return op == OP_LT ? c < 0 : op == OP_LE ? c <= 0 : op == OP_GT ? c > 0 : c >= 0;
}

static struct jinja_value comparison(struct jinja *x, const struct jinja_node *e)
{
    struct jinja_value left = tft_jinja_eval(x, e->a);
    for (const struct jinja_node *n = e->b; n && x->status == TFT_OK; n = n->next) {
        struct jinja_value right = tft_jinja_eval(x, n->a);
        if (!holds(x, n->op, left, right))
            return tft_jinja_bool(false);
        left = right;
    }
    return tft_jinja_bool(true);
}

/* Appends the items of v to the arguments; up to `more` arguments may follow. */
static void add_items(struct jinja *x, struct jinja_args *out, struct jinja_value v, size_t more)
{
    const struct jinja_list *l = tft_jinja_iterate(x, v);
    struct jinja_value *all =
        l ? tft_jinja_take(x, out->n + l->n + more, sizeof *all) : NULL;
    if (!all)
        return;
    memcpy(all, out->value, out->n * sizeof *all);
    for (size_t i = 0; i < l->n && tft_jinja_spend(x, 1); i++)
        all[out->n++] = l->item[i];
    out->value = all;
}

void tft_jinja_args(struct jinja *x, const struct jinja_node *first, struct jinja_args *out)
{
    size_t n = 0;
    for (const struct jinja_node *a = first; a; a = a->next)
        n++;
    *out = (struct jinja_args){0};
    if (!n)
        return;
    out->value = tft_jinja_take(x, n, sizeof *out->value);
    out->named = tft_jinja_take(x, n, sizeof *out->named);
    out->name = tft_jinja_take(x, n, sizeof *out->name);
    for (const struct jinja_node *a = first; a && x->status == TFT_OK; a = a->next) {
        struct jinja_value v = tft_jinja_eval(x, a->a);
        if (a->name) {
            out->name[out->n_named] = a->name;
            out->named[out->n_named++] = v;
        } else if (a->op == OP_MUL) {
            add_items(x, out, v, n);
        } else {
            out->value[out->n++] = v;
        }
    }
}

static struct jinja_value filter(struct jinja *x, const struct jinja_node *e, struct jinja_value v)
{
    struct jinja_args a;
    tft_jinja_args(x, e->b, &a);
    x->line = e->line;
    return x->status == TFT_OK ? tft_jinja_filter(x, e->name, v, &a) : v;
}

struct jinja_value tft_jinja_filtered(struct jinja *x, const struct jinja_node *chain,
                                      struct jinja_value v)
{
    if (!chain)
        return v;
    if (tft_jinja_enter(x))
        v = filter(x, chain, tft_jinja_filtered(x, chain->a, v));
    tft_jinja_leave(x);
    return v;
}

static struct jinja_value test(struct jinja *x, const struct jinja_node *e)
{
    struct jinja_value v = tft_jinja_eval(x, e->a);
    struct jinja_args a;
    tft_jinja_args(x, e->b, &a);
    x->line = e->line;
    return tft_jinja_bool(x->status == TFT_OK && tft_jinja_test(x, e->name, v, &a));
}

static struct jinja_value call(struct jinja *x, const struct jinja_node *e)
{
    struct jinja_value f = tft_jinja_eval(x, e->a);
    struct jinja_args a;
    tft_jinja_args(x, e->b, &a);
    x->line = e->line;
    return x->status == TFT_OK ? tft_jinja_call(x, f, &a) : f;
}

static struct jinja_value item(struct jinja *x, const struct jinja_node *e)
{
    struct jinja_value v = tft_jinja_eval(x, e->a), part[3] = {{0}};
    if (e->b->kind != NODE_SLICE)
        return tft_jinja_item(x, v, tft_jinja_eval(x, e->b));
    part[0] = e->b->a ? tft_jinja_eval(x, e->b->a) : tft_jinja_none;
    part[1] = e->b->b ? tft_jinja_eval(x, e->b->b) : tft_jinja_none;
    part[2] = e->b->c ? tft_jinja_eval(x, e->b->c) : tft_jinja_none;
    return tft_jinja_slice(x, v, part);
}

static struct jinja_value eval(struct jinja *x, const struct jinja_node *e)
{
    struct jinja_value v;
    switch (e->kind) {
    case NODE_CONST: return e->value;
    case NODE_NAME: return lookup(x, e->name);
    case NODE_LIST:
    case NODE_TUPLE: return list(x, e);
    case NODE_DICT: return dict(x, e);
    case NODE_UNARY: return tft_jinja_unary(x, e->op, tft_jinja_eval(x, e->a));
    case NODE_BINARY:
        v = tft_jinja_eval(x, e->a);
        return tft_jinja_binary(x, e->op, v, tft_jinja_eval(x, e->b));
    case NODE_AND:
        v = tft_jinja_eval(x, e->a);
        return tft_jinja_true(x, v) ? tft_jinja_eval(x, e->b) : v;
    case NODE_OR:
        v = tft_jinja_eval(x, e->a);
        return tft_jinja_true(x, v) ? v : tft_jinja_eval(x, e->b);
    case NODE_NOT: return tft_jinja_bool(!tft_jinja_true(x, tft_jinja_eval(x, e->a)));
    case NODE_COMPARE: return comparison(x, e);
    case NODE_TERNARY:
        if (tft_jinja_true(x, tft_jinja_eval(x, e->a)))
            return tft_jinja_eval(x, e->b);
        return e->c ? tft_jinja_eval(x, e->c) : tft_jinja_undefined;
    case NODE_ATTRIBUTE: return tft_jinja_attribute(x, tft_jinja_eval(x, e->a), e->name);
    case NODE_ITEM: return item(x, e);
    case NODE_CALL: return call(x, e);
    case NODE_FILTER: return filter(x, e, tft_jinja_eval(x, e->a));
    case NODE_TEST: return test(x, e);
    default: return tft_jinja_fail(x, TFT_ERR_FORMAT, "an expression is expected");
    }
}

struct jinja_value tft_jinja_eval(struct jinja *x, const struct jinja_node *e)
{
    struct jinja_value v = tft_jinja_undefined;
    if (tft_jinja_enter(x) && tft_jinja_spend(x, 1)) {
        x->line = e->line;
        v = eval(x, e);
    }
    tft_jinja_leave(x);
    return x->status == TFT_OK ? v : tft_jinja_undefined;
}
