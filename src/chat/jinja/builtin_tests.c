/* The tests of `value is NAME`. */
#include "tree.h"

#include <string.h>

static bool is_callable(struct jinja_value v) { return v.kind == JINJA_CALLABLE; }

static bool is_sequence(struct jinja_value v)
{
    return v.kind == JINJA_UNDEFINED || v.kind == JINJA_STRING || v.kind == JINJA_DICT ||
           (v.kind == JINJA_LIST && v.list->kind <= JINJA_TUPLE);
}

/* Tests without an argument; *known is false for any other name. */
static bool plain(const struct jinja_string *name, struct jinja_value v, bool *known)
{
    const struct {
        const char *name;
        bool holds;
    } tests[] = {
        {"defined", v.kind != JINJA_UNDEFINED},
        {"undefined", v.kind == JINJA_UNDEFINED},
        {"none", v.kind == JINJA_NONE},
        {"boolean", v.kind == JINJA_BOOL},
        {"true", v.kind == JINJA_BOOL && v.truth},
        {"false", v.kind == JINJA_BOOL && !v.truth},
        {"integer", v.kind == JINJA_INT || v.kind == JINJA_BIG},
        {"float", v.kind == JINJA_FLOAT},
        {"number", v.kind >= JINJA_BOOL && v.kind <= JINJA_FLOAT},
        {"string", v.kind == JINJA_STRING},
        {"mapping", v.kind == JINJA_DICT},
        {"iterable", v.kind == JINJA_UNDEFINED || (v.kind >= JINJA_STRING && v.kind <= JINJA_DICT)},
        {"sequence", is_sequence(v)},
        {"callable", is_callable(v)},
    };
    *known = true;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (tft_jinja_is(name, tests[i].name))
            return tests[i].holds;
    *known = false;
    return false;
}

/* Whether equal values are one object in Python is known only of some: the numbers below have one
   object each. Other numbers, and strings of one character, depend on where they come from. */
static bool one_object(struct jinja *x, bool known)
{
    if (!known)
        tft_jinja_fail(x, TFT_ERR_UNSUPPORTED,
                       "sameas is not supported of equal floats, equal characters, and equal "
                       "integers that are not from -5 to 256");
    return known;
}

static bool same_string(struct jinja *x, const struct jinja_string *a, const struct jinja_string *b)
{
    if (a == b || (!a->n && !b->n))
        return true;
    return a->n == 1 && b->n == 1 && *a->p == *b->p && one_object(x, false);
}

/* A method is another object each time. */
static bool same_callable(const struct jinja_callable *a, const struct jinja_callable *b)
{
    bool functions = a->name && b->name && a->self.kind == JINJA_UNDEFINED &&
                     b->self.kind == JINJA_UNDEFINED;
    return a == b || (functions && strcmp(a->name, b->name) == 0);
}

/* Whether a is b. An undefined value is another object each time. */
static bool same_as(struct jinja *x, struct jinja_value a, struct jinja_value b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case JINJA_NONE: return true;
    case JINJA_BOOL: return a.truth == b.truth;
    case JINJA_INT:
        return a.integer == b.integer && one_object(x, a.integer >= -5 && a.integer <= 256);
    case JINJA_FLOAT: return a.number == b.number && one_object(x, false);
    case JINJA_BIG: return a.string == b.string;
    case JINJA_STRING: return same_string(x, a.string, b.string);
    case JINJA_LIST: return a.list == b.list;
    case JINJA_DICT:
    case JINJA_NAMESPACE: return a.dict == b.dict;
    case JINJA_CALLABLE: return same_callable(a.call, b.call);
    case JINJA_LOOP: return a.loop == b.loop;
    default: return false;
    }
}

static int comparison(const struct jinja_string *name)
{
    static const struct {
        const char *name;
        int op;
    } ops[] = {
        {"in", OP_IN},          {"eq", OP_EQ},       {"equalto", OP_EQ}, {"ne", OP_NE},
        {"lt", OP_LT},          {"lessthan", OP_LT}, {"le", OP_LE},      {"gt", OP_GT},
        {"greaterthan", OP_GT}, {"ge", OP_GE},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (tft_jinja_is(name, ops[i].name))
            return ops[i].op;
    return -1;
}

bool tft_jinja_test(struct jinja *x, const struct jinja_string *name, struct jinja_value v,
                    const struct jinja_args *a)
{
    bool known, holds = plain(name, v, &known);
    int op = comparison(name);
    tft_jinja_spend(x, 4);
    if (tft_jinja_is(name, "sameas") && a->n == 1 && !a->n_named)
        return same_as(x, v, a->value[0]);
    if (!known && op < 0 && !tft_jinja_is(name, "==") && !tft_jinja_is(name, "!="))
        tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "the test %.*s is not supported",
                       (int)(name->n < 40 ? name->n : 40), name->p);
    if (!known && op < 0)
        op = tft_jinja_is(name, "==") ? OP_EQ : OP_NE;
    if (a->n_named || a->n != (known ? 0 : 1))
        tft_jinja_fail(x, TFT_ERR_FORMAT, "the test has %zu arguments", a->n + a->n_named);
    if (known || x->status != TFT_OK)
        return holds;
    if (op == OP_IN)
        return tft_jinja_contains(x, a->value[0], v);
    if (op == OP_EQ || op == OP_NE)
        return tft_jinja_equal(x, v, a->value[0]) == (op == OP_EQ);
    int c = tft_jinja_compare(x, v, a->value[0]);
    return op == OP_LT ? c < 0 : op == OP_LE ? c <= 0 : op == OP_GT ? c > 0 : c >= 0;
}
