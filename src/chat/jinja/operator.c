/* Arithmetic, sums of strings and lists, indices and slices. */
#include "tree.h"

#include <math.h>
#include <string.h>

static struct jinja_value no_operator(struct jinja *x, const char *name, struct jinja_value a,
                                      struct jinja_value b)
{
    struct jinja_value v = a.kind == JINJA_UNDEFINED ? a : b;
    if (v.kind == JINJA_UNDEFINED && v.string)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "%.*s is undefined",
                              (int)(v.string->n < 60 ? v.string->n : 60), v.string->p);
    return tft_jinja_fail(x, TFT_ERR_FORMAT, "operator %s cannot combine %s and %s", name,
                          tft_jinja_type(a), tft_jinja_type(b));
}

static struct jinja_value overflow(struct jinja *x)
{
    return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "integers beyond 64 bits are not supported");
}

static struct jinja_value power(struct jinja *x, int64_t a, int64_t b)
{
    int64_t product = 1;
    if (b < 0)
        return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "a negative power is not supported");
    for (; b && tft_jinja_spend(x, 1); b--)
        if (__builtin_mul_overflow(product, a, &product))
            return overflow(x);
    return tft_jinja_int(product);
}

/* Quotient and remainder are rounded down. */
static struct jinja_value integers(struct jinja *x, int op, int64_t a, int64_t b)
{
    int64_t r = 0;
    bool over = false;
    if (!b && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "division by zero");
    if (b == -1 && op != OP_POW && a == INT64_MIN)
        return overflow(x);
    switch (op) {
    case OP_ADD: over = __builtin_add_overflow(a, b, &r); break;
    case OP_SUB: over = __builtin_sub_overflow(a, b, &r); break;
    case OP_MUL: over = __builtin_mul_overflow(a, b, &r); break;
    case OP_DIV: return tft_jinja_float((double)a / (double)b);
    case OP_FLOORDIV: r = a / b - (a % b != 0 && (a < 0) != (b < 0)); break;
    case OP_MOD: r = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0); break;
    default: return power(x, a, b);
    }
    return over ? overflow(x) : tft_jinja_int(r);
}

static struct jinja_value floats(struct jinja *x, int op, double a, double b)
{
    if (b == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "division by zero");
    switch (op) {
    case OP_ADD: return tft_jinja_float(a + b);
    case OP_SUB: return tft_jinja_float(a - b);
    case OP_MUL: return tft_jinja_float(a * b);
    case OP_DIV: return tft_jinja_float(a / b);
    default:
        return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "//, %% and ** of floats are not supported");
    }
}

static struct jinja_value add_lists(struct jinja *x, const struct jinja_list *a,
                                    const struct jinja_list *b)
{
    struct jinja_list *sum = tft_jinja_list(x, a->kind);
    for (size_t i = 0; i < a->n && x->status == TFT_OK; i++)
        tft_jinja_push(x, sum, a->item[i]);
    for (size_t i = 0; i < b->n && x->status == TFT_OK; i++)
        tft_jinja_push(x, sum, b->item[i]);
    return tft_jinja_list_value(sum);
}

static struct jinja_value repeat(struct jinja *x, struct jinja_value v, int64_t times)
{
    struct jinja_buffer b = {0};
    struct jinja_list *l = v.kind == JINJA_LIST ? tft_jinja_list(x, v.list->kind) : NULL;
    for (; times > 0 && tft_jinja_spend(x, 1); times--) {
        if (v.kind == JINJA_STRING)
            tft_jinja_add(x, &b, v.string);
        for (size_t i = 0; l && i < v.list->n && x->status == TFT_OK; i++)
            tft_jinja_push(x, l, v.list->item[i]);
    }
    return l ? tft_jinja_list_value(l) : tft_jinja_finish(x, &b);
}

static bool is_sequence(struct jinja_value v)
{
    return v.kind == JINJA_STRING || (v.kind == JINJA_LIST && v.list->kind <= JINJA_TUPLE);
}

static bool is_integer(struct jinja_value v) { return v.kind == JINJA_INT || v.kind == JINJA_BOOL; }

static int64_t integer_of(struct jinja_value v)
{
    return v.kind == JINJA_BOOL ? v.truth : v.integer;
}

static bool has_text(struct jinja_value v)
{
    return v.kind == JINJA_STRING || (v.kind == JINJA_DICT && v.dict->text);
}

struct jinja_value tft_jinja_binary(struct jinja *x, int op, struct jinja_value a,
                                    struct jinja_value b)
{
    static const char *const names[] = {"+", "-", "*", "/", "//", "%", "**"};
    double m, n;
    if (x->status != TFT_OK)
        return tft_jinja_undefined;
    if (op == OP_CONCAT) {
        const struct jinja_string *first = tft_jinja_str(x, a);
        return tft_jinja_concat(x, first, tft_jinja_str(x, b));
    }
    if (op == OP_ADD && a.kind != b.kind && has_text(a) && has_text(b))
        return tft_jinja_sum(x, tft_jinja_str(x, a), tft_jinja_str(x, b));
    if (is_integer(a) && is_integer(b))
        return integers(x, op, integer_of(a), integer_of(b));
    if (tft_jinja_is_number(a, &m) && tft_jinja_is_number(b, &n))
        return floats(x, op, m, n);
    if (op == OP_ADD && a.kind == b.kind && is_sequence(a) && is_sequence(b)) {
        if (a.kind == JINJA_STRING)
            return tft_jinja_sum(x, a.string, b.string);
        if (a.list->kind == b.list->kind)
            return add_lists(x, a.list, b.list);
    }
    if (op == OP_MUL && is_sequence(a) && is_integer(b))
        return repeat(x, a, integer_of(b));
    if (op == OP_MUL && is_integer(a) && is_sequence(b))
        return repeat(x, b, integer_of(a));
    if (op == OP_MOD && a.kind == JINJA_STRING)
        return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "%% on strings is not supported");
    return no_operator(x, names[op - OP_ADD], a, b);
}

struct jinja_value tft_jinja_unary(struct jinja *x, int op, struct jinja_value a)
{
    if (is_integer(a))
        return op == OP_ADD ? tft_jinja_int(integer_of(a)) : integers(x, OP_SUB, 0, integer_of(a));
    if (a.kind == JINJA_FLOAT)
        return tft_jinja_float(op == OP_SUB ? -a.number : a.number);
    return no_operator(x, op == OP_SUB ? "-" : "+", a, a);
}

/* ---- indices */

static struct jinja_value undefined_has_no(struct jinja *x, struct jinja_value v)
{
    if (v.string)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "%.*s is undefined",
                              (int)(v.string->n < 60 ? v.string->n : 60), v.string->p);
    return tft_jinja_fail(x, TFT_ERR_FORMAT, "the value is undefined");
}

static struct jinja_value loop_attribute(struct jinja *x, const struct jinja_loop *l,
                                         const struct jinja_string *name)
{
    size_t n = l->over->n, i = l->index;
    const struct {
        const char *name;
        struct jinja_value value;
    } all[] = {
        {"index", tft_jinja_int((int64_t)i + 1)},
        {"index0", tft_jinja_int((int64_t)i)},
        {"revindex", tft_jinja_int((int64_t)(n - i))},
        {"revindex0", tft_jinja_int((int64_t)(n - i) - 1)},
        {"first", tft_jinja_bool(i == 0)},
        {"last", tft_jinja_bool(i + 1 == n)},
        {"length", tft_jinja_int((int64_t)n)},
        {"previtem", i ? l->over->item[i - 1] : tft_jinja_undefined},
        {"nextitem", i + 1 < n ? l->over->item[i + 1] : tft_jinja_undefined},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (tft_jinja_is(name, all[k].name))
            return all[k].value;
    return tft_jinja_fail(x, TFT_ERR_UNSUPPORTED, "loop.%.*s is not supported",
                          (int)(name->n < 40 ? name->n : 40), name->p);
}

static struct jinja_value member(struct jinja *x, const struct jinja_dict *d,
                                 const struct jinja_string *name)
{
    struct jinja_value key = {.kind = JINJA_STRING, .string = name};
    const struct jinja_value *found = tft_jinja_find(x, d, key);
    return found ? *found : (struct jinja_value){.kind = JINJA_UNDEFINED, .string = name};
}

/* v.name: a method precedes a member. */
struct jinja_value tft_jinja_attribute(struct jinja *x, struct jinja_value v,
                                       const struct jinja_string *name)
{
    struct jinja_value method;
    if (v.kind == JINJA_UNDEFINED)
        return undefined_has_no(x, v);
    if (v.kind == JINJA_LOOP)
        return loop_attribute(x, v.loop, name);
    if (v.kind != JINJA_NAMESPACE && tft_jinja_method(x, v, name, &method))
        return method;
    if (v.kind == JINJA_DICT || v.kind == JINJA_NAMESPACE)
        return member(x, v.dict, name);
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .string = name};
}

/* v[key]: a member precedes a method. */
struct jinja_value tft_jinja_item(struct jinja *x, struct jinja_value v, struct jinja_value key)
{
    if (v.kind == JINJA_UNDEFINED)
        return undefined_has_no(x, v);
    if (v.kind == JINJA_DICT) {
        const struct jinja_value *found = tft_jinja_find(x, v.dict, key);
        if (found)
            return *found;
    }
    if (is_sequence(v) && is_integer(key)) {
        if (!tft_jinja_spend(x, v.kind == JINJA_STRING ? v.string->n / 8 : 0))
            return tft_jinja_undefined;
        int64_t i = integer_of(key),
                n = (int64_t)(v.kind == JINJA_STRING ? tft_jinja_length(v.string) : v.list->n);
        i += i < 0 ? n : 0;
        if (i < 0 || i >= n)
            return tft_jinja_undefined;
        if (v.kind == JINJA_LIST)
            return v.list->item[i];
        size_t begin = tft_jinja_offset(v.string, (size_t)i);
        struct jinja_string rest = {.p = v.string->p + begin, .n = v.string->n - begin};
        return tft_jinja_part(x, v.string, begin, begin + tft_jinja_offset(&rest, 1));
    }
    return key.kind == JINJA_STRING ? tft_jinja_attribute(x, v, key.string) : tft_jinja_undefined;
}

/* One end of a slice of n items, as in Python's slice.indices. back: steps are negative. */
static int64_t clipped(struct jinja *x, struct jinja_value v, int64_t n, bool back, int64_t none)
{
    if (v.kind == JINJA_NONE)
        return none;
    if (!is_integer(v)) {
        tft_jinja_fail(x, TFT_ERR_FORMAT, "a slice has a %s", tft_jinja_type(v));
        return 0;
    }
    int64_t i = integer_of(v), least = back ? -1 : 0, most = back ? n - 1 : n;
    if (i < 0)
        i = i < -n ? least : i + n;
    return i < least ? least : i > most ? most : i;
}

struct jinja_value tft_jinja_slice(struct jinja *x, struct jinja_value v,
                                   const struct jinja_value part[3])
{
    if (v.kind == JINJA_UNDEFINED)
        return undefined_has_no(x, v);
    if (!is_sequence(v))
        return tft_jinja_undefined;
    int64_t step = part[2].kind == JINJA_NONE ? 1 : is_integer(part[2]) ? integer_of(part[2]) : 0;
    if (!step)
        return tft_jinja_fail(x, TFT_ERR_FORMAT, "the step of a slice is not a number, or 0");
    bool part_of_text = v.kind == JINJA_STRING && step == 1;
    if (part_of_text && !tft_jinja_spend(x, v.string->n / 8))
        return tft_jinja_undefined;
    struct jinja_list *all = part_of_text ? NULL : tft_jinja_iterate(x, v);
    int64_t n = part_of_text ? (int64_t)tft_jinja_length(v.string) : all ? (int64_t)all->n : 0,
            begin, end;
    begin = clipped(x, part[0], n, step < 0, step < 0 ? n - 1 : 0);
    end = clipped(x, part[1], n, step < 0, step < 0 ? -1 : n);
    struct jinja_buffer b = {0};
    struct jinja_list *l = v.kind == JINJA_LIST ? tft_jinja_list(x, v.list->kind) : NULL;
    if (part_of_text && x->status == TFT_OK) {
        size_t from = tft_jinja_offset(v.string, (size_t)begin),
               to = tft_jinja_offset(v.string, (size_t)end);
        return tft_jinja_part(x, v.string, from, to > from ? to : from);
    }
    for (int64_t i = begin; (step < 0 ? i > end : i < end) && x->status == TFT_OK;) {
        if (l)
            tft_jinja_push(x, l, all->item[i]);
        else
            tft_jinja_add(x, &b, all->item[i].string);
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return l ? tft_jinja_list_value(l) : tft_jinja_finish(x, &b);
}
