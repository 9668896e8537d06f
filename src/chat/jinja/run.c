/* Runs statements: they write text and set variables. */
#include "tree.h"

static void push_scope(struct jinja *x, struct jinja_scope *parent)
{
    struct jinja_scope *s = tft_jinja_take(x, 1, sizeof *s);
    if (!s)
        return;
    s->parent = parent;
    x->scope = s;
}

/* Runs statements in their own scope, and returns their output. */
static struct jinja_value captured(struct jinja *x, struct jinja_scope *parent,
                                   const struct jinja_node *body)
{
    struct jinja_buffer text = {0}, *out = x->out;
    struct jinja_scope *scope = x->scope;
    if (parent)
        push_scope(x, parent);
    x->out = &text;
    tft_jinja_run(x, body);
    x->out = out;
    x->scope = scope;
    return tft_jinja_finish(x, &text);
}

/* ---- variables */

static void assign(struct jinja *x, const struct jinja_node *target, struct jinja_value v)
{
    if (target->kind == NODE_NAME) {
        tft_jinja_set(x, target->name, v);
    } else if (target->kind == NODE_ATTRIBUTE) {
        struct jinja_value ns = tft_jinja_eval(x, target->a);
        struct jinja_value key = {.kind = JINJA_STRING, .string = target->name};
        if (ns.kind != JINJA_NAMESPACE)
            tft_jinja_fail(x, TFT_ERR_FORMAT, "only members of a namespace can be set");
        else
            tft_jinja_put(x, ns.dict, key, v);
    } else {
        const struct jinja_list *l = tft_jinja_iterate(x, v);
        size_t n = 0;
        for (const struct jinja_node *t = target->a; t; t = t->next)
            n++;
        if (!l || l->n != n) {
            tft_jinja_fail(x, TFT_ERR_FORMAT, "cannot unpack %zu values into %zu variables",
                           l ? l->n : 0, n);
            return;
        }
        n = 0;
        for (const struct jinja_node *t = target->a; t; t = t->next)
            assign(x, t, l->item[n++]);
    }
}

/* ---- loops */

/* The items for which the condition holds. */
static struct jinja_list *chosen(struct jinja *x, const struct jinja_node *s,
                                 struct jinja_list *all)
{
    struct jinja_scope *scope = x->scope;
    struct jinja_list *l = tft_jinja_list(x, JINJA_PLAIN);
    for (size_t i = 0; all && i < all->n && x->status == TFT_OK; i++) {
        push_scope(x, scope);
        assign(x, s->a, all->item[i]);
        if (tft_jinja_true(x, tft_jinja_eval(x, s->c)))
            tft_jinja_push(x, l, all->item[i]);
        x->scope = scope;
    }
    return l;
}

static void run_for(struct jinja *x, const struct jinja_node *s)
{
    static const struct jinja_string name = {.p = "loop", .n = 4, .trusted = true};
    struct jinja_scope *scope = x->scope;
    struct jinja_list *all = tft_jinja_iterate(x, tft_jinja_eval(x, s->b));
    struct jinja_loop *loop = tft_jinja_take(x, 1, sizeof *loop);
    if (s->c)
        all = chosen(x, s, all);
    if (!all || !loop)
        return;
    loop->over = all;
    for (loop->index = 0; loop->index < all->n && tft_jinja_spend(x, 1); loop->index++) {
        push_scope(x, scope);
        assign(x, s->a, all->item[loop->index]);
        tft_jinja_set(x, &name, (struct jinja_value){.kind = JINJA_LOOP, .loop = loop});
        tft_jinja_run(x, s->d);
        x->scope = scope;
        bool end = x->leave == JINJA_BREAK;
        x->leave = JINJA_GO_ON;
        if (end)
            break;
    }
    if (!all->n && s->e && x->status == TFT_OK) {
        push_scope(x, scope);
        tft_jinja_run(x, s->e);
        x->scope = scope;
    }
}

static void run_if(struct jinja *x, const struct jinja_node *s)
{
    while (!tft_jinja_true(x, tft_jinja_eval(x, s->a))) {
        if (!s->c || s->c->kind != NODE_IF || s->c->next || x->status != TFT_OK) {
            tft_jinja_run(x, s->c);
            return;
        }
        s = s->c;
    }
    tft_jinja_run(x, s->b);
}

/* ---- macros */

static struct jinja_value macro(struct jinja *x, const struct jinja_node *s)
{
    struct jinja_callable *f = tft_jinja_take(x, 1, sizeof *f);
    if (!f)
        return tft_jinja_undefined;
    *f = (struct jinja_callable){.macro = s, .scope = x->scope};
    return (struct jinja_value){.kind = JINJA_CALLABLE, .call = f};
}

static const struct jinja_value *named(const struct jinja_args *a, const struct jinja_string *name)
{
    for (size_t i = 0; i < a->n_named; i++)
        if (tft_jinja_same(a->name[i], name))
            return &a->named[i];
    return NULL;
}

static void set_parameters(struct jinja *x, const struct jinja_node *m, const struct jinja_args *a)
{
    static const struct jinja_string caller = {.p = "caller", .n = 6, .trusted = true};
    size_t i = 0, used = 0;
    for (const struct jinja_node *p = m->a; p && x->status == TFT_OK; p = p->next, i++) {
        const struct jinja_value *v = named(a, p->name);
        used += v != NULL;
        if (i < a->n && v)
            tft_jinja_fail(x, TFT_ERR_FORMAT, "macro %.*s: an argument is given twice",
                           (int)m->name->n, m->name->p);
        tft_jinja_set(x, p->name,
                      i < a->n ? a->value[i]
                      : v      ? *v
                      : p->a   ? tft_jinja_eval(x, p->a)
                               : (struct jinja_value){.kind = JINJA_UNDEFINED, .string = p->name});
    }
    const struct jinja_value *from = named(a, &caller);
    if (from)
        tft_jinja_set(x, &caller, *from);
    if (a->n > i || a->n_named > used + (from != NULL))
        tft_jinja_fail(x, TFT_ERR_FORMAT, "macro %.*s: too many arguments", (int)m->name->n,
                       m->name->p);
}

struct jinja_value tft_jinja_call_macro(struct jinja *x, const struct jinja_callable *f,
                                        const struct jinja_args *a)
{
    struct jinja_scope *scope = x->scope;
    struct jinja_value text = tft_jinja_undefined;
    int line = x->line;
    push_scope(x, f->scope);
    set_parameters(x, f->macro, a);
    if (x->status == TFT_OK)
        text = captured(x, NULL, f->macro->b);
    x->scope = scope;
    x->line = line;
    return text;
}

/* {% call(a) m(b) %}: macro m sees the body as the macro `caller`. */
static void run_call(struct jinja *x, const struct jinja_node *s)
{
    struct jinja_args a, with;
    struct jinja_value f = tft_jinja_eval(x, s->a->a);
    tft_jinja_args(x, s->a->b, &a);
    with = a;
    with.name = tft_jinja_take(x, a.n_named + 1, sizeof *with.name);
    with.named = tft_jinja_take(x, a.n_named + 1, sizeof *with.named);
    if (!with.named)
        return;
    for (size_t i = 0; i < a.n_named; i++) {
        with.name[i] = a.name[i];
        with.named[i] = a.named[i];
    }
    with.name[with.n_named] = s->b->name;
    with.named[with.n_named++] = macro(x, s->b);
    tft_jinja_print(x, x->out, tft_jinja_call(x, f, &with));
}

/* ---- all */

static void run(struct jinja *x, const struct jinja_node *s)
{
    struct jinja_value v;
    switch (s->kind) {
    case NODE_DATA: tft_jinja_add(x, x->out, s->value.string); break;
    case NODE_PRINT:
        v = tft_jinja_eval(x, s->a);
        if (x->status == TFT_OK)
            tft_jinja_print(x, x->out, v);
        break;
    case NODE_IF: run_if(x, s); break;
    case NODE_FOR: run_for(x, s); break;
    case NODE_SET: assign(x, s->a, tft_jinja_eval(x, s->b)); break;
    case NODE_SET_BLOCK:
        assign(x, s->a, tft_jinja_filtered(x, s->b, captured(x, x->scope, s->c)));
        break;
    case NODE_MACRO: tft_jinja_set(x, s->name, macro(x, s)); break;
    case NODE_CALL_BLOCK: run_call(x, s); break;
    case NODE_FILTER_BLOCK:
        v = tft_jinja_filtered(x, s->a, captured(x, x->scope, s->b));
        tft_jinja_print(x, x->out, v);
        break;
    case NODE_SCOPE: tft_jinja_print(x, x->out, captured(x, x->scope, s->a)); break;
    case NODE_BREAK: x->leave = JINJA_BREAK; break;
    case NODE_CONTINUE: x->leave = JINJA_CONTINUE; break;
    default: tft_jinja_fail(x, TFT_ERR_FORMAT, "a statement is expected");
    }
}

void tft_jinja_run(struct jinja *x, const struct jinja_node *body)
{
    if (tft_jinja_enter(x))
        for (const struct jinja_node *s = body;
             s && x->leave == JINJA_GO_ON && tft_jinja_spend(x, 1); s = s->next) {
            x->line = s->line;
            run(x, s);
            if (x->out->n > x->max_output)
                tft_jinja_fail(x, TFT_ERR_FULL, "the template writes more than %zu bytes",
                               x->max_output);
        }
    tft_jinja_leave(x);
}
