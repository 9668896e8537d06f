/* Parses statements. An unknown tag is an error that names the tag. */
#include "tree.h"

#include <string.h>

static struct jinja_node *body(struct jinja_parser *p, const char *const *ends);

/* Reads the name of the tag that ended a body. */
static void end_of_tag(struct jinja_parser *p)
{
    p->x->line = p->t->line;
    if (p->t->kind != TOKEN_BLOCK_END)
        tft_jinja_fail(p->x, TFT_ERR_FORMAT, "the end of the tag is expected");
    else
        p->t++;
}

/* The statements up to {% END %}, inclusive. */
static struct jinja_node *body_until(struct jinja_parser *p, const char *end)
{
    const char *const ends[] = {end, NULL};
    end_of_tag(p);
    struct jinja_node *n = body(p, ends);
    tft_jinja_skip_name(p, end);
    return n;
}

static struct jinja_node *if_tag(struct jinja_parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jinja_node *first = tft_jinja_node(p, NODE_IF), *n = first;
    for (;;) {
        n->a = tft_jinja_tuple(p, false);
        end_of_tag(p);
        n->b = body(p, ends);
        if (p->x->status != TFT_OK || !tft_jinja_skip_name(p, "elif"))
            break;
        n->c = tft_jinja_node(p, NODE_IF);
        n = n->c;
    }
    if (tft_jinja_skip_name(p, "else"))
        n->c = body_until(p, "endif");
    else
        tft_jinja_skip_name(p, "endif");
    return first;
}

/* A variable, a member of a namespace, or several variables. */
static struct jinja_node *target(struct jinja_parser *p)
{
    struct jinja_node *first = NULL, **end = &first, *n;
    bool paren = tft_jinja_skip_op(p, OP_OPEN), tuple = false;
    do {
        if (first && p->t->kind != TOKEN_NAME)
            break;
        n = tft_jinja_node(p, NODE_NAME);
        n->name = tft_jinja_expect_name(p);
        if (!first && tft_jinja_skip_op(p, OP_DOT)) {
            struct jinja_node *member = tft_jinja_node(p, NODE_ATTRIBUTE);
            member->a = n;
            member->name = tft_jinja_expect_name(p);
            return member;
        }
        *end = n;
        end = &n->next;
        tuple |= tft_jinja_at_op(p, OP_COMMA);
    } while (p->x->status == TFT_OK && tft_jinja_skip_op(p, OP_COMMA));
    if (paren)
        tft_jinja_expect(p, OP_CLOSE, ")");
    if (!tuple)
        return first;
    n = tft_jinja_node(p, NODE_TUPLE);
    n->a = first;
    return n;
}

static struct jinja_node *for_tag(struct jinja_parser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct jinja_node *n = tft_jinja_node(p, NODE_FOR);
    n->a = target(p);
    if (n->a->kind == NODE_ATTRIBUTE || !tft_jinja_skip_name(p, "in"))
        tft_jinja_fail(p->x, TFT_ERR_FORMAT, "for: names and \"in\" are expected");
    n->b = tft_jinja_tuple(p, false);
    if (tft_jinja_skip_name(p, "if"))
        n->c = tft_jinja_expression(p);
    if (tft_jinja_at_name(p, "recursive"))
        tft_jinja_fail(p->x, TFT_ERR_UNSUPPORTED, "a recursive loop is not supported");
    end_of_tag(p);
    p->loops++;
    n->d = body(p, ends);
    p->loops--;
    if (tft_jinja_skip_name(p, "else"))
        n->e = body_until(p, "endfor");
    else
        tft_jinja_skip_name(p, "endfor");
    return n;
}

static struct jinja_node *set_tag(struct jinja_parser *p)
{
    struct jinja_node *n = tft_jinja_node(p, NODE_SET);
    n->a = target(p);
    if (tft_jinja_skip_op(p, OP_ASSIGN)) {
        n->b = tft_jinja_tuple(p, true);
        return n;
    }
    n->kind = NODE_SET_BLOCK;
    if (tft_jinja_skip_op(p, OP_PIPE))
        n->b = tft_jinja_filters(p, NULL);
    n->c = body_until(p, "endset");
    return n;
}

/* (a, b=1) of a macro. A macro must have parentheses; `call` may omit them. */
static struct jinja_node *parameters(struct jinja_parser *p)
{
    struct jinja_node *first = NULL, **end = &first;
    tft_jinja_expect(p, OP_OPEN, "(");
    while (!tft_jinja_at_op(p, OP_CLOSE) && p->x->status == TFT_OK) {
        struct jinja_node *n = tft_jinja_node(p, NODE_PARAMETER);
        n->name = tft_jinja_expect_name(p);
        if (tft_jinja_skip_op(p, OP_ASSIGN))
            n->a = tft_jinja_expression(p);
        *end = n;
        end = &n->next;
        if (!tft_jinja_at_op(p, OP_CLOSE))
            tft_jinja_expect(p, OP_COMMA, ", or )");
    }
    tft_jinja_skip_op(p, OP_CLOSE);
    return first;
}

/* In a macro's body, `break` and `continue` cannot refer to a loop around the macro. */
static struct jinja_node *macro_body(struct jinja_parser *p, const char *end)
{
    unsigned loops = p->loops;
    p->loops = 0;
    struct jinja_node *n = body_until(p, end);
    p->loops = loops;
    return n;
}

static struct jinja_node *macro_tag(struct jinja_parser *p)
{
    struct jinja_node *n = tft_jinja_node(p, NODE_MACRO);
    n->name = tft_jinja_expect_name(p);
    n->a = parameters(p);
    n->b = macro_body(p, "endmacro");
    return n;
}

static struct jinja_node *call_tag(struct jinja_parser *p)
{
    struct jinja_node *n = tft_jinja_node(p, NODE_CALL_BLOCK), *m = tft_jinja_node(p, NODE_MACRO);
    static const struct jinja_string caller = {.p = "caller", .n = 6, .trusted = true};
    m->name = &caller;
    if (tft_jinja_at_op(p, OP_OPEN))
        m->a = parameters(p);
    n->a = tft_jinja_expression(p);
    if (n->a->kind != NODE_CALL)
        tft_jinja_fail(p->x, TFT_ERR_FORMAT, "call: a call is expected");
    m->b = macro_body(p, "endcall");
    n->b = m;
    return n;
}

static struct jinja_node *filter_tag(struct jinja_parser *p)
{
    struct jinja_node *n = tft_jinja_node(p, NODE_FILTER_BLOCK);
    n->a = tft_jinja_filters(p, NULL);
    n->b = macro_body(p, "endfilter");
    return n;
}

static struct jinja_node *generation_tag(struct jinja_parser *p)
{
    struct jinja_node *n = tft_jinja_node(p, NODE_SCOPE);
    n->a = macro_body(p, "endgeneration");
    return n;
}

static struct jinja_node *leave_tag(struct jinja_parser *p, enum jinja_node_kind kind)
{
    if (!p->loops)
        tft_jinja_fail(p->x, TFT_ERR_FORMAT, "break or continue outside a loop");
    return tft_jinja_node(p, kind);
}

static struct jinja_node *tag(struct jinja_parser *p)
{
    const struct jinja_string *name = tft_jinja_expect_name(p);
    static const struct {
        const char *name;
        struct jinja_node *(*read)(struct jinja_parser *);
    } tags[] = {
        {"if", if_tag},
        {"for", for_tag},
        {"set", set_tag},
        {"macro", macro_tag},
        {"call", call_tag},
        {"filter", filter_tag},
        {"generation", generation_tag},
    };
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (tft_jinja_is(name, tags[i].name))
            return tags[i].read(p);
    if (tft_jinja_is(name, "break") || tft_jinja_is(name, "continue"))
        return leave_tag(p, tft_jinja_is(name, "break") ? NODE_BREAK : NODE_CONTINUE);
    tft_jinja_fail(p->x, TFT_ERR_UNSUPPORTED, "the tag {%% %.*s %%} is not supported here",
                   (int)(name->n < 40 ? name->n : 40), name->p);
    return tft_jinja_node(p, NODE_BREAK);
}

static bool at_end(const struct jinja_parser *p, const char *const *ends)
{
    for (size_t i = 0; ends && ends[i]; i++)
        if (tft_jinja_at_name(p, ends[i]))
            return true;
    return false;
}

static struct jinja_node *statement(struct jinja_parser *p)
{
    struct jinja_node *n;
    if (p->t->kind == TOKEN_DATA) {
        n = tft_jinja_node(p, NODE_DATA);
        n->value = (struct jinja_value){.kind = JINJA_STRING, .string = p->t->name};
        p->t++;
        return n;
    }
    if (p->t->kind == TOKEN_PRINT_BEGIN) {
        n = tft_jinja_node(p, NODE_PRINT);
        p->t++;
        n->a = tft_jinja_tuple(p, true);
        p->x->line = p->t->line;
        if (p->t->kind != TOKEN_PRINT_END)
            tft_jinja_fail(p->x, TFT_ERR_FORMAT, "the end }} is expected");
        else
            p->t++;
        return n;
    }
    n = tag(p); /* the caller has read {% */
    end_of_tag(p);
    return n;
}

/* Statements up to a tag with a name in `ends`, after the tag's {%. Without names: up to the end of
   the template. */
static struct jinja_node *body(struct jinja_parser *p, const char *const *ends)
{
    struct jinja_node *first = NULL, **end = &first;
    tft_jinja_enter(p->x);
    while (p->x->status == TFT_OK && p->t->kind != TOKEN_END) {
        if (p->t->kind == TOKEN_BLOCK_BEGIN) {
            p->t++;
            if (at_end(p, ends))
                break;
        }
        *end = statement(p);
        end = &(*end)->next;
    }
    if (ends && p->t->kind == TOKEN_END)
        tft_jinja_fail(p->x, TFT_ERR_FORMAT, "{%% %s %%} is missing", ends[0]);
    tft_jinja_leave(p->x);
    return first;
}

struct jinja_node *tft_jinja_parse(struct jinja *x, const struct jinja_token *tokens)
{
    struct jinja_parser p = {.x = x, .t = tokens};
    return body(&p, NULL);
}
