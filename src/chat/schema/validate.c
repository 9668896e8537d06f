/* Checks whether a constant is valid by a schema, and whether two schemas are disjoint. */
#include "schema.h"

#include <math.h>
#include <string.h>

static bool same_list(struct schema *c, const struct jinja_list *a, const struct jinja_list *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = tft_schema_same(c, a->item[i], b->item[i]);
    return same;
}

static bool same_dict(struct schema *c, const struct jinja_dict *a, const struct jinja_dict *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) {
        const struct jinja_value *v = tft_jinja_find(c->x, b, a->key[i]);
        same = v && tft_schema_same(c, a->value[i], *v);
    }
    return same;
}

/* Whether the integer and the double are equal, compared exactly and not as doubles. */
static bool same_number(struct schema *c, struct jinja_value whole, double number)
{
    bool large = number >= 1e18 || number <= -1e18;
    if (whole.kind == JINJA_BIG && large)
        tft_schema_fail(c, c->here, TFT_ERR_UNSUPPORTED, "a constant of too many digits");
    return whole.kind == JINJA_INT && !large && floor(number) == number &&
           (int64_t)number == whole.integer;
}

/* Whether two values are equal in JSON: 1 equals 1.0, but not true. */
bool tft_schema_same(struct schema *c, struct jinja_value a, struct jinja_value b)
{
    bool same;
    if (!tft_jinja_enter(c->x) || !tft_jinja_spend(c->x, 1))
        same = false;
    else if (a.kind == JINJA_LIST && b.kind == JINJA_LIST)
        same = same_list(c, a.list, b.list);
    else if (a.kind == JINJA_DICT && b.kind == JINJA_DICT)
        same = same_dict(c, a.dict, b.dict);
    else if (a.kind == JINJA_FLOAT && (b.kind == JINJA_INT || b.kind == JINJA_BIG))
        same = same_number(c, b, a.number);
    else if (b.kind == JINJA_FLOAT && (a.kind == JINJA_INT || a.kind == JINJA_BIG))
        same = same_number(c, a, b.number);
    else
        same = (a.kind == JINJA_BOOL) == (b.kind == JINJA_BOOL) && tft_jinja_equal(c->x, a, b);
    tft_jinja_leave(c->x);
    return same;
}

unsigned tft_schema_type(struct jinja_value v)
{
    switch (v.kind) {
    case JINJA_NONE: return SCHEMA_NULL;
    case JINJA_BOOL: return SCHEMA_BOOL;
    case JINJA_INT:
    case JINJA_BIG: return SCHEMA_INTEGER;
    case JINJA_FLOAT: return floor(v.number) == v.number ? SCHEMA_INTEGER : SCHEMA_FRACTION;
    case JINJA_STRING: return SCHEMA_STRING;
    case JINJA_LIST: return SCHEMA_ARRAY;
    default: return SCHEMA_OBJECT;
    }
}

static bool within(uint64_t n, uint64_t least, uint64_t most) { return n >= least && n <= most; }

static bool number_holds(struct schema *c, const struct schema_shape *s, struct jinja_value v)
{
    struct schema_bound b = {.set = true};
    struct schema_place at = *c->root;
    if (!s->least.set && !s->most.set && !s->multiple.set)
        return true;
    at.v = v;
    if (!tft_schema_bound(c, &at, &b))
        return false;
    int low = s->least.set ? tft_schema_compare(&b, &s->least) : 1,
        high = s->most.set ? tft_schema_compare(&b, &s->most) : -1;
    return low >= s->least.exclusive && high <= -(int)s->most.exclusive &&
           (!s->multiple.set || tft_schema_is_multiple(s, &b));
}

static bool items_hold(struct schema *c, const struct schema_place *at, const struct jinja_list *l)
{
    const struct schema_place *first = tft_schema_member(c, at, "prefixItems"),
                              *rest = tft_schema_member(c, at, "items");
    size_t n = first ? first->v.list->n : 0;
    bool holds = true;
    for (size_t i = 0; i < l->n && holds; i++)
        if (i < n)
            holds = tft_schema_holds(c, tft_schema_item(c, first, i), l->item[i]);
        else
            holds = !rest || tft_schema_holds(c, rest, l->item[i]);
    return holds;
}

static bool members_hold(struct schema *c, const struct schema_place *at,
                         const struct jinja_dict *d)
{
    const struct schema_place *list = tft_schema_member(c, at, "properties"),
                              *other = tft_schema_member(c, at, "additionalProperties"),
                              *must = tft_schema_member(c, at, "required");
    bool holds = true;
    for (size_t i = 0; i < d->n && holds; i++) {
        const struct schema_place *own = list ? tft_schema_find(c, list, d->key[i].string) : NULL;
        if (own || other)
            holds = tft_schema_holds(c, own ? own : other, d->value[i]);
    }
    for (size_t i = 0; must && i < must->v.list->n && holds; i++)
        holds = tft_jinja_find(c->x, d, must->v.list->item[i]) != NULL;
    return holds;
}

/* Whether v is valid by anyOf, oneOf, allOf and $ref of one schema, except the keywords in
   `settled`. All keywords are read, even after one that fails: so a schema that leads back to
   itself gets too deep and is refused. A validator might never end on such a schema. */
static bool choices_hold(struct schema *c, const struct schema_place *at, unsigned settled,
                         struct jinja_value v)
{
    static const char *const names[] = {"anyOf", "oneOf", "allOf"};
    static const unsigned choices[] = {SCHEMA_ANY_OF, SCHEMA_ONE_OF, SCHEMA_LEADS};
    const struct schema_place *ref =
        settled & SCHEMA_LEADS ? NULL : tft_schema_member(c, at, "$ref");
    bool holds = !ref || tft_schema_holds(c, tft_schema_resolve(c, ref), v);
    for (int k = 0; k < 3; k++) {
        const struct schema_place *list =
            choices[k] & settled ? NULL : tft_schema_member(c, at, names[k]);
        size_t n = 0, all = list && list->v.kind == JINJA_LIST ? list->v.list->n : 0;
        for (size_t i = 0; i < all; i++)
            n += tft_schema_holds(c, tft_schema_item(c, list, i), v);
        holds = holds && (!list || (k == 0 ? n > 0 : k == 1 ? n == 1 : n == all));
    }
    return holds;
}

/* Whether the names of an object are valid by propertyNames. */
static bool names_hold(struct schema *c, const struct schema_shape *s, const struct jinja_dict *d)
{
    bool hold = true;
    for (size_t i = 0; s->names_at && i < d->n && hold; i++)
        hold = tft_schema_holds(c, s->names_at, d->key[i]);
    if (s->patterns_at && d->n)
        tft_schema_fail(c, s->patterns_at, TFT_ERR_UNSUPPORTED,
                        "not supported in a schema that enum or const is checked against");
    return hold;
}

static bool among(struct schema *c, const struct jinja_list *l, size_t n, struct jinja_value v)
{
    bool found = false;
    for (size_t i = 0; i < n && !found; i++)
        found = tft_schema_same(c, l->item[i], v);
    return found;
}

static bool all_differ(struct schema *c, const struct jinja_list *l)
{
    bool differ = true;
    for (size_t i = 0; i < l->n && differ; i++)
        differ = !among(c, l, i, l->item[i]);
    return differ;
}

/* Whether v, of an allowed type, is valid by the other keywords of the shape. */
static bool shape_holds(struct schema *c, const struct schema_shape *s,
                        const struct schema_place *at, struct jinja_value v)
{
    if (s->excluded && among(c, s->excluded, s->excluded->n, v))
        return false;
    if (v.kind == JINJA_STRING && s->pattern && s->pattern != s->format)
        tft_schema_fail(c, s->pattern_at, TFT_ERR_UNSUPPORTED,
                        "not supported in a schema that enum or const is checked against");
    if (v.kind == JINJA_STRING)
        return within(tft_jinja_length(v.string), s->min_length, s->max_length);
    if (v.kind == JINJA_LIST)
        return within(v.list->n, s->min_items, s->max_items) && items_hold(c, at, v.list) &&
               (!s->unique_at || all_differ(c, v.list));
    if (v.kind == JINJA_DICT)
        return within(v.dict->n, s->min_members, s->max_members) &&
               names_hold(c, s, v.dict) && members_hold(c, at, v.dict);
    return !(tft_schema_type(v) & (SCHEMA_INTEGER | SCHEMA_FRACTION)) || number_holds(c, s, v);
}

/* Whether v is valid by one schema, without the choices in `settled`. listed: v is known to be
   among its constants. */
static bool part_holds(struct schema *c, const struct schema_place *at, unsigned settled,
                       struct jinja_value v, bool listed)
{
    struct schema_shape s;
    bool holds = false;
    if (!at || !tft_jinja_enter(c->x) || !tft_jinja_spend(c->x, 1)) {
    } else if (at->v.kind == JINJA_BOOL) {
        holds = at->v.truth;
    } else {
        tft_schema_read_one(c, at, &s);
        holds = s.types & tft_schema_type(v);
        if (s.has_values && !listed)
            holds = holds && s.value && among(c, s.value, s.value->n, v);
        holds = holds && c->x->status == TFT_OK && shape_holds(c, &s, at, v);
        holds = choices_hold(c, at, settled, v) && holds;
    }
    tft_jinja_leave(c->x);
    return holds;
}

bool tft_schema_holds(struct schema *c, const struct schema_place *at, struct jinja_value v)
{
    return part_holds(c, at, 0, v, false);
}

bool tft_schema_all_hold(struct schema *c, const struct schema_shape *s, struct jinja_value v,
                         bool listed)
{
    bool hold = !s->all.never;
    /* the schemas of $ref and allOf are parts too, with their own settled choices */
    for (size_t i = 0; i < s->all.n && hold; i++)
        hold = part_holds(c, s->all.part[i].at, s->all.part[i].settled | SCHEMA_LEADS, v, listed);
    return hold;
}

/* ---- disjoint schemas */

/* Whether b excludes every value of a. */
static bool values_apart(struct schema *c, const struct schema_shape *a,
                         const struct schema_shape *b)
{
    bool apart = true;
    for (size_t i = 0; a->value && i < a->value->n && apart; i++)
        apart = !tft_schema_all_hold(c, b, a->value->item[i], false);
    return apart;
}

static bool numbers_apart(const struct schema_bound *most, const struct schema_bound *least)
{
    int order = most->set && least->set ? tft_schema_compare(most, least) : 1;
    return order < 0 || (!order && (most->exclusive || least->exclusive));
}

/* Whether no object of a is valid by b: every object of a lacks a property that b requires, or has
   a property with values that b excludes. */
static bool objects_apart(struct schema *c, const struct schema_shape *a,
                          const struct schema_shape *b)
{
    bool open, open_b, apart = false;
    struct schema_all rest, mine, theirs;
    struct jinja_list *names = tft_schema_names(c, a, &open, &rest),
                      *wanted = tft_schema_names(c, b, &open_b, &rest);
    for (size_t i = 0; names && i < names->n && !apart && c->x->status == TFT_OK; i++) {
        const struct jinja_string *name = names->item[i].string;
        tft_schema_property(c, a, name, &mine);
        tft_schema_property(c, b, name, &theirs);
        apart = tft_schema_requires(c, a, name) && tft_schema_apart(c, &mine, &theirs);
    }
    for (size_t i = 0; wanted && !open && i < wanted->n && !apart; i++) {
        const struct jinja_string *name = wanted->item[i].string;
        bool known = false;
        for (size_t k = 0; names && k < names->n && tft_jinja_spend(c->x, 1); k++)
            known = known || tft_jinja_same(names->item[k].string, name);
        apart = !known && tft_schema_requires(c, b, name);
    }
    return apart;
}

static bool types_apart(struct schema *c, const struct schema_shape *a,
                        const struct schema_shape *b)
{
    unsigned common = a->types & b->types;
    if (common & (SCHEMA_NULL | SCHEMA_BOOL))
        return false;
    if (common & (SCHEMA_INTEGER | SCHEMA_FRACTION) && !numbers_apart(&a->most, &b->least) &&
        !numbers_apart(&b->most, &a->least))
        return false;
    if (common & SCHEMA_STRING && a->max_length >= b->min_length && b->max_length >= a->min_length)
        return false;
    if (common & SCHEMA_ARRAY && a->max_items >= b->min_items && b->max_items >= a->min_items)
        return false;
    /* the options of a choice may list more names, so each option is compared alone */
    return !(common & SCHEMA_OBJECT) || (!a->choice && objects_apart(c, a, b));
}

/* Whether b and each option of a choice are disjoint. first: b is the first operand of the
   comparison. */
static bool options_apart(struct schema *c, const struct schema_shape *s,
                          const struct schema_all *b, bool first)
{
    bool apart = true;
    for (size_t i = 0; i < s->choice->v.list->n && apart; i++) {
        struct schema_all option = tft_schema_option(c, s, i);
        apart = first ? tft_schema_apart(c, b, &option) : tft_schema_apart(c, &option, b);
    }
    return apart;
}

bool tft_schema_apart(struct schema *c, const struct schema_all *a, const struct schema_all *b)
{
    struct schema_shape s, t;
    bool apart = false;
    if (a->never || b->never)
        return true;
    if (tft_jinja_enter(c->x) && tft_jinja_spend(c->x, 1)) {
        tft_schema_read(c, a, &s);
        tft_schema_read(c, b, &t);
        if (c->x->status != TFT_OK || !(s.types & t.types))
            apart = true;
        else if (s.has_values || t.has_values)
            apart = s.has_values ? values_apart(c, &s, &t) : values_apart(c, &t, &s);
        else if (types_apart(c, &s, &t))
            apart = true;
        else if (s.choice && c->x->depth < SCHEMA_DEPTH / 2)
            apart = options_apart(c, &s, b, false);
        else if (t.choice && c->x->depth < SCHEMA_DEPTH / 2)
            apart = options_apart(c, &t, a, true);
    }
    tft_jinja_leave(c->x);
    return apart;
}
