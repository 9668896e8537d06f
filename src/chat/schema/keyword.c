/* Reads the keywords of JSON Schema (draft 2020-12) into a shape. */
#include "schema.h"

#include <math.h>

static void invalid(struct schema *c, const struct schema_place *at, const char *what)
{
    tft_schema_fail(c, at, TFT_ERR_ARG, "%s", what);
}

/* ---- values of keywords */

static uint64_t count_of(struct schema *c, const struct schema_place *at)
{
    double number;
    if (!tft_jinja_is_number(at->v, &number) || at->v.kind == JINJA_BOOL || number < 0 ||
        number > 1e15 || floor(number) != number) {
        invalid(c, at, "not an integer of 0 or more");
        return 0;
    }
    return (uint64_t)number;
}

static void at_least(struct schema *c, uint64_t *least, const struct schema_place *at)
{
    uint64_t n = count_of(c, at);
    if (n > SCHEMA_MANY)
        tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "more than %d", SCHEMA_MANY);
    *least = n > *least ? n : *least;
}

static void at_most(struct schema *c, uint64_t *most, const struct schema_place *at)
{
    uint64_t n = count_of(c, at);
    *most = n < *most ? n : *most;
}

static unsigned type_of_name(struct schema *c, const struct schema_place *at)
{
    static const struct {
        const char *name;
        unsigned types;
    } types[] = {{"null", SCHEMA_NULL},       {"boolean", SCHEMA_BOOL},
                 {"integer", SCHEMA_INTEGER}, {"number", SCHEMA_INTEGER | SCHEMA_FRACTION},
                 {"string", SCHEMA_STRING},   {"array", SCHEMA_ARRAY},
                 {"object", SCHEMA_OBJECT}};
    if (!at) /* out of memory */
        return 0;
    for (size_t i = 0; at->v.kind == JINJA_STRING && i < sizeof types / sizeof *types; i++)
        if (tft_jinja_is(at->v.string, types[i].name))
            return types[i].types;
    invalid(c, at, "not the name of a type");
    return 0;
}

static void read_type(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    unsigned types = 0;
    const struct schema_place *nullable = tft_schema_member(c, at->up, "nullable");
    if (at->v.kind == JINJA_LIST)
        for (size_t i = 0; i < at->v.list->n; i++)
            types |= type_of_name(c, tft_schema_item(c, at, i));
    else
        types = type_of_name(c, at);
    if (nullable && nullable->v.kind == JINJA_BOOL && nullable->v.truth)
        types |= SCHEMA_NULL;
    s->types &= types;
}

/* Keeps the values that are also in list[n]; the first list is kept whole. */
static void keep_values(struct schema *c, struct schema_shape *s, const struct jinja_value *list,
                        size_t n)
{
    struct jinja_list *kept = tft_jinja_list(c->x, JINJA_PLAIN);
    for (size_t i = 0; i < n && tft_jinja_spend(c->x, 1); i++) {
        bool keep = !s->has_values;
        for (size_t k = 0; !keep && k < s->value->n && tft_jinja_spend(c->x, 1); k++)
            keep = tft_schema_same(c, s->value->item[k], list[i]);
        if (keep)
            tft_jinja_push(c->x, kept, list[i]);
    }
    s->value = kept;
    s->has_values = true;
}

static void read_enum(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    if (at->v.kind != JINJA_LIST)
        invalid(c, at, "not a list");
    else
        keep_values(c, s, at->v.list->item, at->v.list->n);
}

static void read_const(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    keep_values(c, s, &at->v, 1);
}

static void read_bound(struct schema *c, struct schema_bound *bound, const struct schema_place *at,
                       bool exclusive, int better)
{
    struct schema_bound b = {.set = true, .exclusive = exclusive};
    if (!tft_schema_bound(c, at, &b))
        return;
    int order = bound->set ? tft_schema_compare(&b, bound) : better;
    if (order == better || (!order && exclusive))
        *bound = b;
}

static void read_minimum(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    read_bound(c, &s->least, at, false, 1);
}

static void read_maximum(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    read_bound(c, &s->most, at, false, -1);
}

static void read_above(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    read_bound(c, &s->least, at, true, 1);
}

static void read_below(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    read_bound(c, &s->most, at, true, -1);
}

static void read_min_length(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    at_least(c, &s->min_length, at);
}

static void read_max_length(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    at_most(c, &s->max_length, at);
}

static void read_min_items(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    at_least(c, &s->min_items, at);
}

static void read_max_items(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    at_most(c, &s->max_items, at);
}

static void read_min_members(struct schema *c, struct schema_shape *s,
                             const struct schema_place *at)
{
    at_least(c, &s->min_members, at);
    s->members_at = at;
}

static void read_max_members(struct schema *c, struct schema_shape *s,
                             const struct schema_place *at)
{
    at_most(c, &s->max_members, at);
    s->members_at = at;
}

static void set_pattern(struct schema *c, struct schema_shape *s, const struct schema_place *at,
                        const struct jinja_string *pattern)
{
    if (s->pattern && !tft_jinja_same(s->pattern, pattern))
        tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "a second pattern of one string");
    s->pattern = pattern;
    s->pattern_at = at;
}

static void read_pattern(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    if (at->v.kind != JINJA_STRING)
        invalid(c, at, "not a string");
    else
        set_pattern(c, s, at, tft_schema_plain(c, at->v.string));
}

/* Formats are annotations (draft 2020-12, 7.2.1): one that is known gives strings without a pattern
   their form, and one that is not known says nothing. */
static void read_format(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    const char *pattern = at->v.kind == JINJA_STRING ? tft_schema_format(at->v.string) : NULL;
    if (at->v.kind != JINJA_STRING)
        invalid(c, at, "not a string");
    const struct jinja_string *text = pattern ? tft_jinja_text(c->x, pattern).string : NULL;
    if (!text)
        return;
    if (s->format && !tft_jinja_same(s->format, text))
        tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "a second format of one string");
    s->format = text;
    s->format_at = at;
}

static void read_unique(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    if (at->v.kind != JINJA_BOOL)
        invalid(c, at, "not true or false");
    else if (at->v.truth)
        s->unique_at = at;
}

static void read_multiple(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    struct schema_bound b = {.set = true};
    if (!tft_schema_bound(c, at, &b))
        return;
    if (b.minus || (b.n == 1 && !b.digit[0]))
        invalid(c, at, "not more than 0");
    else if (s->multiple.set && tft_schema_compare(&s->multiple, &b))
        tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "a second multipleOf of one number");
    s->multiple = b;
    s->multiple_at = at;
}

static void read_member_names(struct schema *c, struct schema_shape *s,
                              const struct schema_place *at)
{
    if (at->v.kind != JINJA_DICT && at->v.kind != JINJA_BOOL)
        invalid(c, at, "a schema is an object, true or false");
    else if (s->names_at)
        tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "a second propertyNames of one object");
    s->names_at = at;
}

static void read_patterns(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    if (at->v.kind != JINJA_DICT)
        invalid(c, at, "not an object");
    else if (at->v.dict->n && (s->patterns_at || at->v.dict->n > 1))
        tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "a second pattern of names");
    else if (at->v.dict->n)
        s->patterns_at = at;
}

static void read_choice(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    if (at->v.kind != JINJA_LIST || !at->v.list->n)
        invalid(c, at, "not a list of schemas");
    else if (!s->choice)
        s->choice = at;
}

/* Check the types of keywords that object.c, array.c and follow() read later. */
static void want_object(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    (void)s;
    if (at->v.kind != JINJA_DICT)
        invalid(c, at, "not an object");
}

static void want_schema(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    (void)s;
    if (at->v.kind == JINJA_LIST)
        tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "a list is not supported: write prefixItems");
    else if (at->v.kind != JINJA_DICT && at->v.kind != JINJA_BOOL)
        invalid(c, at, "a schema is an object, true or false");
}

static void want_list(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    (void)s;
    if (at->v.kind != JINJA_LIST)
        invalid(c, at, "not a list");
}

static void want_names(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    want_list(c, s, at);
    for (size_t i = 0; at->v.kind == JINJA_LIST && i < at->v.list->n; i++)
        if (at->v.list->item[i].kind != JINJA_STRING)
            invalid(c, at, "not a list of names");
}

static void want_bool(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    (void)s;
    if (at->v.kind != JINJA_BOOL)
        invalid(c, at, "not true or false");
}

/* A second $id, below the root, would change what a $ref means. */
static void want_root(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    (void)s;
    if (at->up->up)
        tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "supported in the outermost schema only");
}

static void refuse(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    (void)s;
    tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "this keyword is not supported");
}

/* An object of keywords for members; empty, it says nothing. */
static void refuse_members(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    if (at->v.kind != JINJA_DICT || at->v.dict->n)
        refuse(c, s, at);
}

/* if says nothing without then and else. */
static void read_if(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    if (tft_schema_member(c, at->up, "then") || tft_schema_member(c, at->up, "else"))
        refuse(c, s, at);
}

static void ignore(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    (void)c, (void)s, (void)at;
}

typedef void read_keyword(struct schema *c, struct schema_shape *s, const struct schema_place *at);

static read_keyword read_not;

/* The keywords that restrict values, or that $ref needs. All others are annotations (draft 2020-12,
   6.5), such as title, and what a library adds: x-order, discriminator, nullable without a type. */
static const struct {
    const char *name;
    read_keyword *read;
} keywords[] = {
    {"$dynamicRef", refuse},
    {"$id", want_root},
    {"$recursiveRef", refuse},
    {"$ref", ignore},
    {"additionalProperties", want_schema},
    {"allOf", want_list},
    {"anyOf", read_choice},
    {"const", read_const},
    {"contains", refuse},
    {"dependencies", refuse},
    {"dependentRequired", refuse_members},
    {"dependentSchemas", refuse_members},
    {"enum", read_enum},
    {"exclusiveMaximum", read_below},
    {"exclusiveMinimum", read_above},
    {"format", read_format},
    {"if", read_if},
    {"items", want_schema},
    {"maxItems", read_max_items},
    {"maxLength", read_max_length},
    {"maxProperties", read_max_members},
    {"maximum", read_maximum},
    {"minItems", read_min_items},
    {"minLength", read_min_length},
    {"minProperties", read_min_members},
    {"minimum", read_minimum},
    {"multipleOf", read_multiple},
    {"not", read_not},
    {"nullable", want_bool},
    {"oneOf", read_choice},
    {"pattern", read_pattern},
    {"patternProperties", read_patterns},
    {"prefixItems", want_list},
    {"properties", want_object},
    {"propertyNames", read_member_names},
    {"required", want_names},
    {"type", read_type},
    {"unevaluatedItems", refuse},
    {"unevaluatedProperties", refuse},
    {"uniqueItems", read_unique},
};

/* The function that reads a keyword; NULL: an annotation. */
static read_keyword *reader(const struct jinja_string *name)
{
    for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
        if (tft_jinja_is(name, keywords[k].name))
            return keywords[k].read;
    return NULL;
}

/* Excludes the types or constants of a schema that has nothing else. */
static void read_not(struct schema *c, struct schema_shape *s, const struct schema_place *at)
{
    struct schema_shape other = {.types = SCHEMA_ALL_TYPES};
    bool restricts = false;
    want_schema(c, s, at);
    for (size_t i = 0; at->v.kind == JINJA_DICT && i < at->v.dict->n; i++) {
        const struct jinja_string *name = at->v.dict->key[i].string;
        read_keyword *read = reader(name);
        const struct schema_place *value = tft_schema_place(c, at, name, 0, at->v.dict->value[i]);
        if (!read || read == want_bool || !value)
            continue;
        restricts = true;
        if (read != read_type && read != read_const && read != read_enum)
            tft_schema_fail(c, value, TFT_ERR_UNSUPPORTED, "in not, only type, enum and const");
        else
            read(c, &other, value);
    }
    if (at->v.kind == JINJA_BOOL ? at->v.truth : !restricts)
        s->all.never = true;
    else if (!other.has_values && at->v.kind == JINJA_DICT)
        s->types &= ~other.types;
    for (size_t i = 0; other.value && i < other.value->n; i++)
        if (tft_schema_type(other.value->item[i]) & other.types) {
            s->excluded = s->excluded ? s->excluded : tft_jinja_list(c->x, JINJA_PLAIN);
            tft_jinja_push(c->x, s->excluded, other.value->item[i]);
        }
}

static void read_part(struct schema *c, struct schema_shape *s, size_t part)
{
    const struct schema_place *at = s->all.part[part].at;
    const struct jinja_dict *d = at->v.dict;
    for (size_t i = 0; i < d->n && tft_jinja_spend(c->x, 1); i++) {
        const struct jinja_string *name = d->key[i].string;
        const struct schema_place *value = tft_schema_place(c, at, name, 0, d->value[i]);
        unsigned choice = tft_jinja_is(name, "anyOf")   ? SCHEMA_ANY_OF
                          : tft_jinja_is(name, "oneOf") ? SCHEMA_ONE_OF
                                                        : 0;
        read_keyword *read = reader(name);
        if (value && read && !(choice & s->all.part[part].settled)) {
            const struct schema_place *before = s->choice;
            read(c, s, value);
            if (s->choice != before)
                s->chooser = part;
        }
    }
}

/* The chain of schemas, by $ref and allOf, to the current one. A $ref back into the chain would
   never end. */
struct way {
    const struct way *before;
    const struct jinja_dict *schema;
};

/* Adds a schema to *all, and the schemas that its $ref and allOf name. */
static void follow(struct schema *c, struct schema_all *all, const struct schema_place *at,
                   unsigned settled, const struct way *way)
{
    size_t before = all->n;
    for (const struct way *w = way; w && at && at->v.kind == JINJA_DICT; w = w->before)
        if (w->schema == at->v.dict)
            tft_schema_fail(c, at, TFT_ERR_UNSUPPORTED, "refers to itself, and to nothing else");
    tft_schema_add(c, all, at, settled);
    if (all->n == before || c->x->status != TFT_OK)
        return;
    struct way here = {way, at->v.dict};
    const struct schema_place *ref = tft_schema_member(c, at, "$ref"),
                              *list = tft_schema_member(c, at, "allOf");
    if (tft_jinja_enter(c->x)) {
        if (ref)
            follow(c, all, tft_schema_resolve(c, ref), 0, &here);
        for (size_t i = 0; list && list->v.kind == JINJA_LIST && i < list->v.list->n; i++)
            follow(c, all, tft_schema_item(c, list, i), 0, &here);
    }
    tft_jinja_leave(c->x);
}

static void read_parts(struct schema *c, struct schema_shape *s)
{
    for (size_t i = 0; i < s->all.n && c->x->status == TFT_OK; i++)
        read_part(c, s, i);
    int order = s->least.set && s->most.set ? tft_schema_compare(&s->least, &s->most) : -1;
    if (order > 0 || (!order && (s->least.exclusive || s->most.exclusive)))
        s->types &= ~(unsigned)(SCHEMA_INTEGER | SCHEMA_FRACTION);
    if (s->min_length > s->max_length)
        s->types &= ~(unsigned)SCHEMA_STRING;
    if (s->min_items > s->max_items)
        s->types &= ~(unsigned)SCHEMA_ARRAY;
    if (s->min_members > s->max_members)
        s->types &= ~(unsigned)SCHEMA_OBJECT;
    if (s->all.never)
        s->types = 0;
    if (!s->pattern && s->format) {
        s->pattern = s->format;
        s->pattern_at = s->format_at;
    }
}

static const struct schema_shape nothing_said = {.types = SCHEMA_ALL_TYPES,
                                                 .max_length = SCHEMA_NO_MAX,
                                                 .max_items = SCHEMA_NO_MAX,
                                                 .max_members = SCHEMA_NO_MAX};

/* Limits a maximum: for generated text, not for constants. */
static void limit(uint64_t *most, uint64_t many)
{
    if (*most != SCHEMA_NO_MAX && *most > many)
        *most = many;
}

void tft_schema_read(struct schema *c, const struct schema_all *all, struct schema_shape *s)
{
    *s = nothing_said;
    s->all.never = all->never;
    for (size_t i = 0; i < all->n; i++)
        follow(c, &s->all, all->part[i].at, all->part[i].settled, NULL);
    read_parts(c, s);
    limit(&s->max_length, SCHEMA_MANY);
    limit(&s->max_items, SCHEMA_MANY);
    limit(&s->max_members, SCHEMA_MEMBERS);
}

void tft_schema_read_one(struct schema *c, const struct schema_place *at, struct schema_shape *s)
{
    size_t i = ((uintptr_t)at->v.dict >> 4) % (sizeof c->known / sizeof *c->known);
    if (c->known[i].of == at->v.dict) {
        *s = c->known[i].shape;
        return;
    }
    *s = nothing_said;
    tft_schema_add(c, &s->all, at, 0);
    read_parts(c, s);
    c->known[i].of = at->v.dict;
    c->known[i].shape = *s;
}
