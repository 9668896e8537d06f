#include "schema.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "chat/tuffet_chat.h"

/* Each string has one spelling: escapes only where JSON requires them, and no U+0000. */
#define NUMBERS                                                                                    \
    "integer ::= \"0\" | \"-\"? [1-9] [0-9]{0,14}\n"                                               \
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,14}) (\".\" [0-9]{1,15})? "                          \
    "([eE] [-+]? [0-9]{1,2})?\n"                                                                   \
    "never ::= \"x\" never\n"
#define VALUES(words, name, comma, colon)                                                          \
    "value ::= " words " | number | string | array | object\n"                                     \
    "array ::= \"[\" (value (\"" comma "\" value)*)? \"]\"\n"                                      \
    "object ::= \"{\" (" name " \"" colon "\" value (\"" comma "\" " name " \"" colon              \
    "\" value)*)? \"}\"\n" NUMBERS
#define STRINGS                                                                                    \
    "char ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" ([\"\\\\] | ctl)\n"                                  \
    "ctl ::= [bfnrt] | \"u00\" (\"0\" [1-7bef] | \"1\" [0-9a-f])\n"                                \
    "string ::= \"\\\"\" char* \"\\\"\""

const struct schema_spelling tft_schema_json_spelling = {
    "null", "true", "false", ", ", ": ", NULL, NULL,
    STRINGS "\n" VALUES("\"null\" | \"true\" | \"false\"", "string", ", ", ": ")};
/* Python's literals: a string may also have single quotes. */
const struct schema_spelling tft_schema_python_spelling = {
    "None", "True", "False", ", ", ": ", NULL, NULL,
    STRINGS " | \"'\" [^'\\\\\\x00-\\x1f]* \"'\"\n" VALUES(
        "\"None\" | \"True\" | \"False\"", "string", ", ", ": ")};
/* FunctionGemma: strings between marks, names without quotes, no spaces. */
const struct schema_spelling tft_schema_gemma_spelling = {
    "null", "true", "false", ",", ":", "<escape>", "mark2",
    "string ::= mark2 raw mark2\nname ::= [A-Za-z0-9_.-]{1,64}\n" VALUES(
        "\"null\" | \"true\" | \"false\"", "name", ",", ":")};

const struct schema_spelling *tft_schema_spelling(const struct schema *c)
{
    return c->as ? c->as : &tft_schema_json_spelling;
}

enum { MOST_TEXT = 1 << 20, STEPS = 20000000, MEMORY = 64 << 20 };

/* ---- text */

void tft_schema_put(struct schema *c, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (c->out.n > MOST_TEXT)
        tft_schema_fail(c, c->here, TFT_ERR_FULL, "its grammar has more than %d bytes", MOST_TEXT);
    tft_jinja_add_text(c->x, &c->out, text, n > 0 ? (size_t)n : 0, true);
}

void tft_schema_literal(struct schema *c, const char *p, size_t n)
{
    tft_schema_put(c, "\"");
    for (size_t i = 0; i < n && tft_jinja_spend(c->x, 1); i++)
        if (p[i] == '\n')
            tft_schema_put(c, "\\n");
        else
            tft_schema_put(c, p[i] == '"' || p[i] == '\\' ? "\\%c" : "%c", p[i]);
    tft_schema_put(c, "\"");
}

static bool finite_inside(struct schema *c, struct jinja_value v)
{
    bool good = v.kind != JINJA_FLOAT || isfinite(v.number);
    size_t n = v.kind == JINJA_LIST ? v.list->n : v.kind == JINJA_DICT ? v.dict->n : 0;
    for (size_t i = 0; i < n && good && tft_jinja_spend(c->x, 1); i++)
        good = finite_inside(c, v.kind == JINJA_LIST ? v.list->item[i] : v.dict->value[i]);
    return good;
}

void tft_schema_json(struct schema *c, struct jinja_value v, const char *behind)
{
    const struct jinja_args none = {0};
    struct jinja_value text = tft_jinja_tojson(c->x, v, &none);
    if (!finite_inside(c, v))
        tft_schema_fail(c, c->here, TFT_ERR_UNSUPPORTED, "a number that is too large");
    if (text.kind != JINJA_STRING)
        return;
    struct jinja_buffer b = {0};
    tft_jinja_add(c->x, &b, text.string);
    tft_jinja_add_text(c->x, &b, behind, strlen(behind), true);
    tft_schema_literal(c, b.p, b.n);
}

/* ---- rules */

static uint32_t new_rule(struct schema *c)
{
    if (c->n_rule >= SCHEMA_RULES) {
        tft_schema_fail(c, c->here, TFT_ERR_FULL, "its grammar has more than %d rules",
                        SCHEMA_RULES);
        return 0;
    }
    if (c->n_rule == c->room) {
        uint32_t room = c->room ? c->room * 2 : 64;
        struct schema_rule *more = tft_jinja_take(c->x, room, sizeof *more);
        if (!more)
            return 0;
        if (c->n_rule)
            memcpy(more, c->rule, c->n_rule * sizeof *more);
        c->rule = more;
        c->room = room;
    }
    return c->n_rule++;
}

uint32_t tft_schema_extra(struct schema *c)
{
    uint32_t r = new_rule(c);
    if (r)
        c->rule[r].extra = true;
    return r;
}

static void turn(struct schema *c)
{
    struct jinja_buffer out = c->out;
    c->out = c->later;
    c->later = out;
}

void tft_schema_begin_extra(struct schema *c, uint32_t rule)
{
    turn(c);
    tft_schema_put(c, "r%u ::=", (unsigned)rule);
}

void tft_schema_end_extra(struct schema *c)
{
    tft_schema_put(c, "\n");
    turn(c);
}

static bool has_part(const struct schema_all *all, const struct schema_part *p)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->part[i].at->v.dict == p->at->v.dict && all->part[i].settled == p->settled)
            return true;
    return false;
}

static bool same_parts(struct schema *c, const struct schema_all *a, const struct schema_all *b)
{
    bool same = a->n == b->n && a->never == b->never;
    for (size_t i = 0; same && i < a->n && tft_jinja_spend(c->x, a->n); i++)
        same = has_part(b, &a->part[i]);
    return same;
}

uint32_t tft_schema_rule(struct schema *c, const struct schema_all *all)
{
    size_t h = all->never;
    for (size_t i = 0; i < all->n; i++) /* a sum, so that the order of parts does not matter;
                                           addresses affect speed only */
        h += ((size_t)(uintptr_t)all->part[i].at->v.dict >> 4) * 31 + all->part[i].settled;
    uint32_t *slot = &c->by_hash[(h ^ h >> 10) % (sizeof c->by_hash / sizeof *c->by_hash)];
    for (uint32_t r = *slot; r && tft_jinja_spend(c->x, 1); r = c->rule[r].next)
        if (same_parts(c, &c->rule[r].all, all))
            return r;
    uint32_t r = new_rule(c);
    struct schema_part *copy = r ? tft_jinja_take(c->x, all->n, sizeof *copy) : NULL;
    if (!copy && all->n)
        return 0;
    if (r) {
        if (all->n)
            memcpy(copy, all->part, all->n * sizeof *copy);
        c->rule[r] = (struct schema_rule){{copy, all->n, all->n, all->never}, *slot, false};
        *slot = r;
    }
    return r;
}

/* ---- expressions of values */

void tft_schema_put_value(struct schema *c, struct jinja_value v)
{
    const struct schema_spelling *as = tft_schema_spelling(c);
    bool list = v.kind == JINJA_LIST;
    size_t n = list ? v.list->n : v.kind == JINJA_DICT ? v.dict->n : 0;
    if (v.kind == JINJA_NONE || v.kind == JINJA_BOOL) {
        tft_schema_put(c, "\"%s\"", v.kind == JINJA_NONE ? as->null : v.truth ? as->yes : as->no);
    } else if (v.kind == JINJA_STRING && as->mark) {
        tft_schema_put(c, "%s ", as->rule);
        tft_schema_raw_literal(c, v.string, as->mark);
        tft_schema_put(c, " %s", as->rule);
    } else if (!list && v.kind != JINJA_DICT) {
        tft_schema_json(c, v, "");
    } else if (tft_jinja_enter(c->x)) {
        tft_schema_put(c, list ? "\"[\"" : "\"{\"");
        for (size_t i = 0; i < n && tft_jinja_spend(c->x, 1); i++) {
            if (i)
                tft_schema_put(c, " \"%s\"", as->comma);
            if (!list)
                tft_schema_put_name(c, v.dict->key[i]);
            tft_schema_put(c, " ");
            tft_schema_put_value(c, list ? v.list->item[i] : v.dict->value[i]);
        }
        tft_schema_put(c, list ? " \"]\"" : " \"}\"");
        tft_jinja_leave(c->x);
    }
}

static void write_values(struct schema *c, const struct schema_shape *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->value->n && c->x->status == TFT_OK; i++) {
        if (!tft_schema_all_hold(c, s, s->value->item[i], true))
            continue;
        tft_schema_put(c, n++ ? " | " : "");
        tft_schema_put_value(c, s->value->item[i]);
    }
    if (!n)
        tft_schema_put(c, "never");
}

struct schema_all tft_schema_option(struct schema *c, const struct schema_shape *s, size_t i)
{
    struct schema_all all = {.never = s->all.never};
    bool one = tft_jinja_is(s->choice->key, "oneOf");
    for (size_t k = 0; k < s->all.n; k++)
        tft_schema_add(c, &all, s->all.part[k].at,
                       s->all.part[k].settled |
                           (k == s->chooser ? one ? SCHEMA_ONE_OF : SCHEMA_ANY_OF : 0));
    tft_schema_add(c, &all, tft_schema_item(c, s->choice, i), 0);
    return all;
}

/* Whether an option refers back to the schema with the choice. Such a rule would never end. */
static bool comes_back(struct schema *c, const struct schema_shape *s, size_t option)
{
    static const char *const names[] = {"$ref", "allOf", "anyOf", "oneOf"};
    struct schema_all seen = {0};
    tft_schema_add(c, &seen, tft_schema_item(c, s->choice, option), 0);
    for (size_t i = 0; i < seen.n && c->x->status == TFT_OK; i++) {
        if (seen.part[i].at->v.dict == s->all.part[s->chooser].at->v.dict)
            return true;
        for (int k = 0; k < 4; k++) {
            const struct schema_place *to = tft_schema_member(c, seen.part[i].at, names[k]);
            if (to && k == 0)
                tft_schema_add(c, &seen, tft_schema_resolve(c, to), 0);
            for (size_t j = 0; to && to->v.kind == JINJA_LIST && j < to->v.list->n; j++)
                tft_schema_add(c, &seen, tft_schema_item(c, to, j), 0);
        }
    }
    return false;
}

static void write_choice(struct schema *c, const struct schema_shape *s)
{
    size_t n = s->choice->v.list->n;
    bool one = tft_jinja_is(s->choice->key, "oneOf");
    for (size_t i = 0; i < n && c->x->status == TFT_OK; i++) {
        struct schema_all option = tft_schema_option(c, s, i);
        if (comes_back(c, s, i))
            tft_schema_fail(c, s->choice, TFT_ERR_UNSUPPORTED, "option %zu refers to itself", i);
        tft_schema_put(c, "%sr%u", i ? " | " : "", (unsigned)tft_schema_rule(c, &option));
        for (size_t k = 0; one && k < n && c->x->status == TFT_OK; k++) {
            struct schema_all other = tft_schema_option(c, s, k);
            if (k != i && !tft_schema_apart(c, &option, &other))
                tft_schema_fail(c, s->choice, TFT_ERR_UNSUPPORTED,
                                "options %zu and %zu may both be valid for one text: write anyOf",
                                i, k);
        }
    }
}

/* Whether a constant of `not` has the type. */
static bool excludes(const struct schema_shape *s, unsigned types)
{
    for (size_t i = 0; s->excluded && i < s->excluded->n; i++)
        if (tft_schema_type(s->excluded->item[i]) & types)
            return true;
    return false;
}

static void write_booleans(struct schema *c, const struct schema_shape *s)
{
    const struct schema_spelling *as = tft_schema_spelling(c);
    bool no[2] = {false, false};
    for (size_t i = 0; s->excluded && i < s->excluded->n; i++)
        if (s->excluded->item[i].kind == JINJA_BOOL)
            no[s->excluded->item[i].truth] = true;
    if (!no[true])
        tft_schema_put(c, " | \"%s\"", as->yes);
    if (!no[false])
        tft_schema_put(c, " | \"%s\"", as->no);
}

static void write_types(struct schema *c, const struct schema_shape *s)
{
    unsigned others = SCHEMA_INTEGER | SCHEMA_FRACTION | SCHEMA_ARRAY | SCHEMA_OBJECT;
    if (s->types & SCHEMA_FRACTION && !(s->types & SCHEMA_INTEGER))
        tft_schema_fail(c, c->here, TFT_ERR_UNSUPPORTED, "not: integers beside the type number");
    if (excludes(s, s->types & others))
        tft_schema_fail(c, c->here, TFT_ERR_UNSUPPORTED,
                        "not: constants beside a type other than string, boolean and null");
    static const char none[] = " | never";
    const struct schema_spelling *as = tft_schema_spelling(c);
    size_t start = c->out.n;
    if (s->types & SCHEMA_NULL && !excludes(s, SCHEMA_NULL))
        tft_schema_put(c, " | \"%s\"", as->null);
    if (s->types & SCHEMA_BOOL)
        write_booleans(c, s);
    if (s->types & (SCHEMA_INTEGER | SCHEMA_FRACTION)) {
        tft_schema_put(c, " | ");
        if (!(s->types & SCHEMA_FRACTION ? tft_schema_number : tft_schema_integer)(c, s))
            tft_schema_put(c, "never");
    }
    if (s->types & SCHEMA_STRING) {
        tft_schema_put(c, " | ");
        tft_schema_pattern(c, s);
    }
    if (s->types & SCHEMA_ARRAY) {
        tft_schema_put(c, " | ");
        tft_schema_array(c, s);
    }
    if (s->types & SCHEMA_OBJECT) {
        tft_schema_put(c, " | ");
        tft_schema_object(c, s);
    }
    if (c->out.n == start)
        tft_schema_put(c, none);
    if (c->x->status == TFT_OK) /* removes the " | " before the first */
        memcpy(c->out.p + start, "   ", 3);
}

static void end_rule(struct schema *c)
{
    tft_schema_put(c, "\n");
    tft_jinja_add_text(c->x, &c->out, c->later.p, c->later.n, true);
    c->later.n = 0;
}

/* Writes the rules one after another. A rule's extra rules follow its text. */
static void write_rules(struct schema *c)
{
    while (c->written < c->n_rule && c->x->status == TFT_OK) {
        struct schema_shape s;
        uint32_t r = c->written++;
        if (c->rule[r].extra)
            continue;
        c->here = c->rule[r].all.n ? c->rule[r].all.part->at : NULL;
        tft_schema_put(c, "r%u ::= ", (unsigned)r);
        tft_schema_read(c, &c->rule[r].all, &s);
        if (c->x->status != TFT_OK)
            return;
        if (!s.types && !s.has_values)
            tft_schema_put(c, "never");
        else if (s.has_values)
            write_values(c, &s);
        else if (s.choice)
            write_choice(c, &s);
        else
            write_types(c, &s);
        end_rule(c);
    }
}

/* ---- the function */

struct jinja_value tft_schema_read_text(struct jinja *x, const char *p, size_t n)
{
    struct jinja_string s = {.p = p, .n = n};
    if (n > MOST_TEXT)
        tft_jinja_fail(x, TFT_ERR_FULL, "%s: more than %d bytes", x->what, MOST_TEXT);
    for (size_t i = 0, len; i < n && x->status == TFT_OK; i += len) {
        uint32_t ch;
        len = tft_utf8_next(p + i, n - i, &ch);
        if (ch >= TFT_UTF8_BAD)
            tft_jinja_fail(x, TFT_ERR_ARG, "%s: byte %zu: not UTF-8", x->what, i);
    }
    return x->status == TFT_OK ? tft_jinja_read_json(x, &s) : tft_jinja_undefined;
}

struct jinja tft_schema_pool(const char *what)
{
    return (struct jinja){.what = what,
                          .max_memory = MEMORY,
                          .max_steps = STEPS,
                          .max_depth = SCHEMA_DEPTH,
                          .exact = true,
                          .max_output = SIZE_MAX};
}

static void start(struct schema *c)
{
    if (!c->n_rule) {
        new_rule(c); /* rule 0 is unused */
        c->written = 1;
    }
}

uint32_t tft_schema_write(struct schema *c, const struct schema_place *root,
                          const struct schema_all *all)
{
    start(c);
    c->root = root;
    uint32_t r = tft_schema_rule(c, all);
    write_rules(c);
    return r;
}

uint32_t tft_schema_write_members(struct schema *c, const struct schema_place *root,
                                  const struct schema_all *all,
                                  const struct schema_members *members)
{
    struct schema_shape s;
    start(c);
    c->root = root;
    uint32_t r = tft_schema_extra(c);
    tft_schema_read(c, all, &s);
    if (c->x->status == TFT_OK && (s.choice || s.has_values))
        tft_schema_fail(c, root, TFT_ERR_UNSUPPORTED, "a choice of objects, in this format");
    if (c->x->status != TFT_OK)
        return 0;
    tft_schema_put(c, "r%u ::= ", (unsigned)r);
    c->members = members;
    tft_schema_object(c, &s);
    end_rule(c);
    write_rules(c);
    return r;
}

void tft_schema_write_shared(struct schema *c)
{
    const char *rules = tft_schema_spelling(c)->rules;
    tft_jinja_add_text(c->x, &c->out, rules, strlen(rules), true);
}

static void write_grammar(struct schema *c, struct jinja_value v)
{
    struct schema_all all = {0};
    const struct schema_place *root = tft_schema_place(c, NULL, NULL, 0, v);
    tft_schema_add(c, &all, root, 0);
    tft_schema_put(c, "root ::= r1\n"); /* the first rule */
    tft_schema_write(c, root, &all);
    tft_schema_write_shared(c);
}

enum tft_status tft_schema_finish(struct tft_chat_text *out, struct schema *c,
                                  struct tft_error *err)
{
    if (c->x->status == TFT_OK && !(out->p = tft_alloc(NULL, c->out.n + 1)))
        tft_jinja_fail(c->x, TFT_ERR_NOMEM, "out of memory");
    if (c->x->status == TFT_OK) {
        memcpy(out->p, c->out.p, c->out.n);
        out->p[out->n = c->out.n] = 0;
    } else if (err) {
        *err = c->x->err;
    }
    return c->x->status;
}

enum tft_status tft_chat_schema(struct tft_chat_text *out, const char *schema, size_t n,
                                unsigned flags, struct tft_error *err)
{
    struct jinja x = tft_schema_pool("schema");
    struct schema *c = tft_alloc(NULL, sizeof *c);
    *out = (struct tft_chat_text){0};
    if (!c)
        return tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    *c = (struct schema){.x = &x, .any_order = flags & TFT_SCHEMA_ANY_ORDER};
    if (flags & ~(unsigned)TFT_SCHEMA_ANY_ORDER)
        tft_jinja_fail(&x, TFT_ERR_ARG, "schema: unknown flags");
    struct jinja_value v = tft_schema_read_text(&x, schema, n);
    if (x.status == TFT_OK)
        write_grammar(c, v);
    enum tft_status status = tft_schema_finish(out, c, err);
    tft_jinja_free(&x);
    tft_free(NULL, c, sizeof *c);
    return status;
}
