/*
 * Objects. Properties come in the listed order, or in any order. Other members come after the
 * properties, and never have the name of a property. An object with properties has other members
 * only if a schema has additionalProperties.
 */
#include "schema.h"

#include <string.h>

#include "base/utf8.h"

struct object {
    struct schema *c;
    const struct schema_shape *s;
    const struct schema_members *as; /* the format of members; NULL: JSON */
    struct jinja_list *name; /* [n] of the properties */
    size_t n;
    bool *required;
    uint32_t *value;     /* [n] the rules of the properties' values */
    bool open;           /* other members may come */
    uint32_t key, other; /* the rules of other members' names and values */
    bool quoted;         /* the rule `key` has the quotes */
    size_t most;         /* counts of members stop here */
};

static bool has_patterns(struct schema *c, const struct schema_place *at)
{
    const struct schema_place *patterns = tft_schema_member(c, at, "patternProperties");
    return patterns && patterns->v.kind == JINJA_DICT && patterns->v.dict->n;
}

bool tft_schema_property(struct schema *c, const struct schema_shape *s,
                         const struct jinja_string *name, struct schema_all *out)
{
    bool listed = false;
    *out = (struct schema_all){.never = s->all.never};
    for (size_t i = 0; i < s->all.n && tft_jinja_spend(c->x, 1); i++) {
        const struct schema_place *at = s->all.part[i].at,
                                  *list = tft_schema_member(c, at, "properties"),
                                  *own = list ? tft_schema_find(c, list, name) : NULL;
        listed = listed || own;
        if (own || !has_patterns(c, at))
            tft_schema_add(c, out, own ? own : tft_schema_member(c, at, "additionalProperties"), 0);
    }
    return listed;
}

static bool is_among(struct schema *c, const struct jinja_list *l, const struct jinja_string *name)
{
    for (size_t i = 0; i < l->n && tft_jinja_spend(c->x, 1); i++)
        if (l->item[i].kind == JINJA_STRING && tft_jinja_same(l->item[i].string, name))
            return true;
    return false;
}

bool tft_schema_requires(struct schema *c, const struct schema_shape *s,
                         const struct jinja_string *name)
{
    for (size_t i = 0; i < s->all.n; i++) {
        const struct schema_place *list = tft_schema_member(c, s->all.part[i].at, "required");
        if (list && list->v.kind == JINJA_LIST && is_among(c, list->v.list, name))
            return true;
    }
    return false;
}

static void add_name(struct schema *c, struct jinja_list *l, struct jinja_value name)
{
    if (l && !is_among(c, l, name.string))
        tft_jinja_push(c->x, l, name);
}

struct jinja_list *tft_schema_names(struct schema *c, const struct schema_shape *s, bool *open,
                                    struct schema_all *rest)
{
    struct jinja_list *l = tft_jinja_list(c->x, JINJA_PLAIN);
    bool says = false;
    *rest = (struct schema_all){.never = s->all.never};
    for (size_t i = 0; i < s->all.n && c->x->status == TFT_OK; i++) {
        const struct schema_place *list = tft_schema_member(c, s->all.part[i].at, "properties");
        for (size_t k = 0; list && k < list->v.dict->n && c->x->status == TFT_OK; k++)
            add_name(c, l, list->v.dict->key[k]);
    }
    for (size_t i = 0; i < s->all.n && c->x->status == TFT_OK; i++) {
        const struct schema_place *at = s->all.part[i].at,
                                  *list = tft_schema_member(c, at, "required"),
                                  *other = tft_schema_member(c, at, "additionalProperties");
        for (size_t k = 0; list && k < list->v.list->n && c->x->status == TFT_OK; k++)
            add_name(c, l, list->v.list->item[k]);
        tft_schema_add(c, rest, other, 0);
        says = says || other;
    }
    *open = l && (s->patterns_at || (!rest->never && (says || !l->n)));
    return l;
}

/* ---- names of other members */

static uint32_t character(const struct jinja_string *s, size_t at)
{
    uint32_t ch = UINT32_MAX;
    if (at < s->n)
        tft_utf8_next(s->p + at, s->n - at, &ch);
    return ch;
}

static bool must_escape(uint32_t ch) { return ch < 0x20 || ch == '"' || ch == '\\'; }

/* Writes a literal for a character in JSON's spelling. */
static void put_character(struct schema *c, uint32_t ch, const char *p, size_t n)
{
    static const char names[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *name = ch && ch < 0x80 ? strchr(names, (int)ch) : NULL;
    if (name)
        tft_schema_literal(c, (const char[]){'\\', letters[name - names]}, 2);
    else if (ch < 0x20)
        tft_schema_put(c, "\"\\\\u%04x\"", (unsigned)ch);
    else
        tft_schema_literal(c, p, n);
}

/* Whether name i is the first name in the list with its character at byte `at`; false if the name
   ends there. */
static bool is_first(struct schema *c, const struct jinja_list *l, size_t i, size_t at)
{
    uint32_t ch = character(l->item[i].string, at);
    for (size_t k = 0; k < i && tft_jinja_spend(c->x, 1); k++)
        if (character(l->item[k].string, at) == ch)
            return false;
    return ch != UINT32_MAX;
}

static bool has_character(struct schema *c, const struct jinja_list *l, size_t at, uint32_t ch)
{
    for (size_t i = 0; i < l->n && tft_jinja_spend(c->x, 1); i++)
        if (character(l->item[i].string, at) == ch)
            return true;
    return false;
}

/* Writes rule r: the rest of a string that shares its first `at` bytes with the names in l, and
   equals no name. child: [l->n] the rule after a name's next character, at the first name with
   that character; else 0. */
static void write_other(struct schema *c, const struct jinja_list *l, size_t at, uint32_t r,
                        const uint32_t *child)
{
    bool escapes = false;
    tft_schema_begin_extra(c, r);
    tft_schema_put(c, has_character(c, l, at, UINT32_MAX) ? " never" : " \"\"");
    tft_schema_put(c, " | [^\"\\\\\\x00-\\x1f");
    for (size_t i = 0; i < l->n; i++) {
        uint32_t ch = character(l->item[i].string, at);
        if (child[i] && !must_escape(ch))
            tft_schema_put(c, "\\U%08x", (unsigned)ch);
        escapes = escapes || (child[i] && must_escape(ch));
    }
    tft_schema_put(c, escapes ? "] char*" : "] char* | \"\\\\\" ([\"\\\\] | ctl) char*");
    for (uint32_t ch = 1; escapes && ch <= '\\'; ch++)
        if (must_escape(ch) && !has_character(c, l, at, ch)) {
            tft_schema_put(c, " | ");
            put_character(c, ch, NULL, 0);
            tft_schema_put(c, " char*");
        }
    for (size_t i = 0; i < l->n && c->x->status == TFT_OK; i++)
        if (child[i]) {
            uint32_t ch;
            const struct jinja_string *s = l->item[i].string;
            size_t n = tft_utf8_next(s->p + at, s->n - at, &ch);
            tft_schema_put(c, " | ");
            put_character(c, ch, s->p + at, n);
            tft_schema_put(c, " r%u", (unsigned)child[i]);
        }
    tft_schema_end_extra(c);
}

static void names_from(struct schema *c, const struct jinja_list *l, size_t at, uint32_t r)
{
    uint32_t *child = tft_jinja_take(c->x, l ? l->n : 0, sizeof *child);
    for (size_t i = 0; child && i < l->n; i++)
        child[i] = is_first(c, l, i, at) ? tft_schema_extra(c) : 0;
    if (!child || !tft_jinja_enter(c->x))
        return;
    write_other(c, l, at, r, child);
    for (size_t i = 0; i < l->n && c->x->status == TFT_OK; i++) {
        uint32_t ch = character(l->item[i].string, at);
        struct jinja_list *below = child[i] ? tft_jinja_list(c->x, JINJA_PLAIN) : NULL;
        for (size_t k = i; below && k < l->n && tft_jinja_spend(c->x, 1); k++)
            if (character(l->item[k].string, at) == ch)
                tft_jinja_push(c->x, below, l->item[k]);
        if (below) {
            const struct jinja_string *s = l->item[i].string;
            names_from(c, below, at + tft_utf8_next(s->p + at, s->n - at, &ch), child[i]);
        }
    }
    tft_jinja_leave(c->x);
}

void tft_schema_other_names(struct schema *c, const struct jinja_list *l, uint32_t r)
{
    names_from(c, l, 0, r);
}

/* ---- members */

bool tft_schema_is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* Refuses a name that the format might end too early. */
static void check_name(struct schema *c, const struct jinja_string *name)
{
    bool good = name->n > 0 && name->n <= 64;
    for (size_t i = 0; i < name->n && good; i++) {
        good = tft_schema_is_plain(name->p[i]);
    }
    if (!good)
        tft_schema_fail(c, c->root, TFT_ERR_UNSUPPORTED,
                        "in this format names have 1 to 64 characters of A-Z, a-z, 0-9, _, - and "
                        ".");
}

void tft_schema_put_name(struct schema *c, struct jinja_value name)
{
    const struct schema_spelling *as = tft_schema_spelling(c);
    if (as->mark) {
        check_name(c, name.string);
        tft_schema_put(c, " ");
        tft_schema_literal(c, name.string->p, name.string->n);
        tft_schema_put(c, " \"%s\"", as->colon);
    } else {
        tft_schema_json(c, name, as->colon);
    }
}

/* Writes property k in the format o->as. */
static void put_written(struct object *o, size_t k, bool comma)
{
    const struct jinja_string *name = o->name->item[k].string;
    tft_schema_put(o->c, " ");
    tft_schema_literal(o->c, o->as->comma, comma ? strlen(o->as->comma) : 0);
    tft_schema_literal(o->c, o->as->before, strlen(o->as->before));
    tft_schema_literal(o->c, name->p, name->n);
    tft_schema_literal(o->c, o->as->middle, strlen(o->as->middle));
    tft_schema_put(o->c, " r%u ", (unsigned)o->value[k]);
    tft_schema_literal(o->c, o->as->after, strlen(o->as->after));
}

/* The rule for the values of a property, which must meet `all`. */
static uint32_t value_rule(struct object *o, const struct schema_all *all)
{
    if (!o->as || !o->as->until || !tft_schema_is_raw(o->c, all))
        return tft_schema_rule(o->c, all);
    uint32_t r = tft_schema_extra(o->c);
    tft_schema_begin_extra(o->c, r);
    tft_schema_put(o->c, " ");
    tft_schema_raw(o->c, all, o->as->until);
    tft_schema_end_extra(o->c);
    return r;
}

/* Writes one member: property k, or, if k is n, a member with another name. */
static void put_member(struct object *o, size_t k, bool comma)
{
    if (o->as) {
        put_written(o, k, comma);
        return;
    }
    tft_schema_put(o->c, " ");
    if (comma)
        tft_schema_put(o->c, "\"%s\" ", tft_schema_spelling(o->c)->comma);
    if (k < o->n)
        tft_schema_put_name(o->c, o->name->item[k]);
    else if (o->quoted)
        tft_schema_put(o->c, "r%u \": \"", (unsigned)o->key);
    else
        tft_schema_put(o->c, "\"\\\"\" r%u \"\\\": \"", (unsigned)o->key);
    tft_schema_put(o->c, " r%u", (unsigned)(k < o->n ? o->value[k] : o->other));
}

/* Writes the members after the properties. count: the number of members so far; o->most means
   o->most or more. */
static void put_rest(struct object *o, size_t count)
{
    const struct schema_shape *s = o->s;
    bool enough = count >= s->min_members;
    tft_schema_put(o->c, enough ? " \"\"" : " never");
    if (!o->open || count >= s->max_members || count + 1 < s->min_members)
        return;
    tft_schema_put(o->c, " |");
    put_member(o, o->n, count > 0);
    tft_schema_put(o->c, " (");
    put_member(o, o->n, true);
    if (s->max_members == SCHEMA_NO_MAX)
        tft_schema_put(o->c, " )*");
    else
        tft_schema_put(o->c, " ){0,%u}", (unsigned)(s->max_members - count - 1));
}

/* Writes a rule for each property k and number m of members before it: rule[k * (most + 1) + m]. */
static void write_in_order(struct object *o)
{
    struct schema *c = o->c;
    size_t width = o->most + 1;
    uint32_t *rule = tft_jinja_take(c->x, o->n + 1, width * sizeof *rule);
    if (!rule)
        return;
    for (size_t k = 0; k <= o->n; k++)
        for (size_t m = 0; m < width && m <= k && tft_jinja_spend(c->x, 1); m++)
            rule[k * width + m] = tft_schema_extra(c);
    tft_schema_put(c, " r%u", (unsigned)rule[0]);
    for (size_t k = 0; k <= o->n; k++)
        for (size_t m = 0; m < width && m <= k && c->x->status == TFT_OK; m++) {
            tft_schema_begin_extra(c, rule[k * width + m]);
            if (k == o->n) {
                put_rest(o, m);
            } else {
                bool skips = !o->required[k], full = m >= o->s->max_members;
                if (skips)
                    tft_schema_put(c, " r%u |", (unsigned)rule[(k + 1) * width + m]);
                put_member(o, k, m > 0);
                tft_schema_put(c, full ? " never" : " r%u",
                               (unsigned)rule[(k + 1) * width + (m < o->most ? m + 1 : m)]);
            }
            tft_schema_end_extra(c);
        }
}

/* Writes a rule for each set of properties already written: rule[set] at the object's beginning,
   rule[sets + set] after a member. */
static void write_free(struct object *o)
{
    struct schema *c = o->c;
    size_t sets = (size_t)1 << o->n;
    uint32_t *rule = tft_jinja_take(c->x, 2 * sets, sizeof *rule);
    for (size_t i = 0; rule && i < 2 * sets; i++)
        rule[i] = i == sets || (i && i < sets) ? 0 : tft_schema_extra(c);
    if (!rule)
        return;
    if (o->open)
        rule[sets] = tft_schema_extra(c);
    tft_schema_put(c, " r%u", (unsigned)rule[0]);
    for (size_t i = 0; i < 2 * sets && c->x->status == TFT_OK; i++) {
        size_t set = i % sets, count = 0;
        bool enough = true;
        if (!rule[i])
            continue;
        tft_schema_begin_extra(c, rule[i]);
        for (size_t k = 0; k < o->n; k++) {
            count += set >> k & 1;
            enough = enough && (!o->required[k] || set >> k & 1);
        }
        tft_schema_put(c, enough && count >= o->s->min_members ? " \"\"" : " never");
        for (size_t k = 0; k < o->n + o->open && count < o->s->max_members; k++)
            if (k == o->n || !(set >> k & 1)) {
                tft_schema_put(c, " |");
                put_member(o, k, i > 0);
                tft_schema_put(c, " r%u",
                               (unsigned)rule[sets + (k < o->n ? set | (size_t)1 << k : set)]);
            }
        tft_schema_end_extra(c);
    }
}

/* Refuses bounds on members that a grammar cannot count: two other members with the same name count
   as one. */
static void check_counts(struct object *o)
{
    size_t required = 0;
    for (size_t k = 0; k < o->n; k++)
        required += o->required[k];
    bool counts = o->s->min_members > required || o->s->max_members != SCHEMA_NO_MAX;
    if (o->open && (o->s->min_members > required + 1 || (o->c->any_order && o->n && counts)))
        tft_schema_fail(o->c, o->s->members_at, TFT_ERR_UNSUPPORTED,
                        "counts names that are not listed and may be equal: list them in "
                        "properties");
    if (o->c->any_order && o->n > SCHEMA_FREE)
        tft_jinja_fail(o->c->x, TFT_ERR_UNSUPPORTED, "schema: more than %d properties in any order",
                       SCHEMA_FREE);
}

/* The shape of propertyNames; false: it is absent, or allows every name. */
static bool shape_of_names(struct object *o, struct schema_shape *names)
{
    struct schema_all all = {0};
    if (!o->s->names_at)
        return false;
    tft_schema_add(o->c, &all, o->s->names_at, 0);
    tft_schema_read(o->c, &all, names);
    return !(names->types & SCHEMA_STRING) || names->has_values || names->choice ||
           names->pattern || names->excluded || names->min_length ||
           names->max_length != SCHEMA_NO_MAX;
}

/* Constants of propertyNames are names like those in properties, and there are no others. */
static void list_names(struct object *o)
{
    struct schema_shape names;
    if (!shape_of_names(o, &names) || o->c->x->status != TFT_OK)
        return;
    if (!names.has_values && names.types & SCHEMA_STRING)
        return;
    for (size_t i = 0; o->open && names.has_values && i < names.value->n; i++)
        if (names.value->item[i].kind == JINJA_STRING)
            add_name(o->c, o->name, names.value->item[i]);
    o->open = false;
}

/* Makes the rule of other names from a schema of strings. */
static void name_by(struct object *o, struct jinja_value schema, const struct schema_place *at)
{
    struct schema_all all = {0};
    struct jinja_dict *strings = tft_jinja_dict(o->c->x);
    if (o->n)
        tft_schema_fail(o->c, at, TFT_ERR_UNSUPPORTED, "not supported beside properties, required");
    if (!strings)
        return;
    tft_jinja_put(o->c->x, strings, tft_jinja_text(o->c->x, "type"),
                  tft_jinja_text(o->c->x, "string"));
    struct jinja_value type = {.kind = JINJA_DICT, .dict = strings};
    tft_schema_add(o->c, &all, tft_schema_place(o->c, at->up, at->key, 0, schema), 0);
    tft_schema_add(o->c, &all, tft_schema_place(o->c, at->up, at->key, 0, type), 0);
    o->key = tft_schema_rule(o->c, &all);
    o->quoted = true;
}

/* Names by patternProperties, with the values of that pattern: other names, which the keyword
   leaves to additionalProperties, are left out. */
static void name_by_pattern(struct object *o)
{
    const struct schema_place *at = o->s->patterns_at;
    const struct jinja_dict *d = at->v.dict;
    struct jinja_dict *pattern = tft_jinja_dict(o->c->x);
    struct schema_all all = {0};
    if (o->s->names_at)
        tft_schema_fail(o->c, at, TFT_ERR_UNSUPPORTED, "not supported beside propertyNames");
    if (!pattern)
        return;
    tft_jinja_put(o->c->x, pattern, tft_jinja_text(o->c->x, "pattern"), d->key[0]);
    name_by(o, (struct jinja_value){.kind = JINJA_DICT, .dict = pattern}, at);
    tft_schema_add(o->c, &all, tft_schema_find(o->c, at, d->key[0].string), 0);
    for (size_t i = 0; i < o->s->all.n; i++)
        if (o->s->all.part[i].at->v.dict != at->up->v.dict)
            tft_schema_add(o->c, &all, tft_schema_member(o->c, o->s->all.part[i].at,
                                                         "additionalProperties"), 0);
    o->other = tft_schema_rule(o->c, &all);
}

/* Makes the rules of other members where a keyword restricts their names. */
static bool name_others(struct object *o, const struct schema_all *rest)
{
    struct schema_shape names;
    if (o->s->patterns_at) {
        name_by_pattern(o);
        return true;
    }
    if (!shape_of_names(o, &names))
        return false;
    name_by(o, o->s->names_at->v, o->s->names_at);
    o->other = tft_schema_rule(o->c, rest);
    return true;
}

void tft_schema_object(struct schema *c, const struct schema_shape *s)
{
    struct schema_all rest, all;
    struct object o = {.c = c, .s = s, .as = c->members};
    c->members = NULL; /* objects inside are JSON */
    o.name = tft_schema_names(c, s, &o.open, &rest);
    list_names(&o);
    o.n = o.name ? o.name->n : 0;
    o.required = tft_jinja_take(c->x, o.n, sizeof *o.required);
    o.value = tft_jinja_take(c->x, o.n, sizeof *o.value);
    for (size_t k = 0; k < o.n && c->x->status == TFT_OK; k++) {
        tft_schema_property(c, s, o.name->item[k].string, &all);
        if (s->names_at && !tft_schema_holds(c, s->names_at, o.name->item[k]))
            all.never = true;
        o.required[k] = tft_schema_requires(c, s, o.name->item[k].string);
        o.value[k] = value_rule(&o, &all);
        if (o.as)
            check_name(c, o.name->item[k].string);
    }
    if (c->x->status != TFT_OK)
        return;
    bool plain = o.as || tft_schema_spelling(c)->mark; /* names are not quoted */
    if (plain && !o.as && o.open && !o.n && !rest.n && !s->min_members &&
        s->max_members == SCHEMA_NO_MAX) {
        tft_schema_put(c, "object");
        return;
    }
    o.open = o.open && !plain;
    check_counts(&o);
    o.most = s->max_members != SCHEMA_NO_MAX ? s->max_members : s->min_members;
    o.most = o.most > o.n ? o.n : o.most;
    o.most = o.most ? o.most : 1;
    if (o.open && c->x->status == TFT_OK && !name_others(&o, &rest)) {
        o.other = tft_schema_rule(c, &rest);
        o.key = tft_schema_extra(c);
        tft_schema_other_names(c, o.name, o.key);
    }
    if (c->x->status != TFT_OK)
        return;
    tft_schema_put(c, o.as ? "" : "\"{\"");
    if (c->any_order && o.n)
        write_free(&o);
    else
        write_in_order(&o);
    tft_schema_put(c, " ");
    tft_schema_literal(c, o.as ? o.as->close : "}", o.as ? strlen(o.as->close) : 1);
}
