/*
 * From a JSON Schema to a grammar in GBNF: schema.c has the rules and what a value may be, place.c
 * goes through the schema's text, keyword.c reads keywords, holds.c judges constants, object.c,
 * array.c, digits.c and pattern.c write what their types look like.
 *
 * A rule stands for several schemas that all have to hold: those of allOf, of a $ref and what is
 * beside it, of a property that two schemas know. So merging them is reading one after another. The
 * text of a rule is written when its number is asked for the first time and its turn comes; a
 * schema may contain itself.
 */
#ifndef TFT_SCHEMA_H
#define TFT_SCHEMA_H

#include "jinja.h"

enum {
    SCHEMA_RULES = 1 << 13, /* bounds that messages name */
    SCHEMA_MANY = 2000, /* items or characters that are counted; a larger maximum becomes this */
    SCHEMA_DEPTH = 100,
    SCHEMA_FREE = 8, /* properties in any order */
};
#define SCHEMA_NO_MAX UINT64_MAX

enum {
    SCHEMA_NULL = 1,
    SCHEMA_BOOL = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_FRACTION = 8, /* numbers that are no integers */
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
    SCHEMA_ALL_TYPES = 127,
};

/* A value of the schema's text, and where it stands. */
struct schema_place {
    struct jinja_value v;
    const struct schema_place *up;  /* NULL: the root */
    const struct jinja_string *key; /* in an object; NULL: item `index` of a list */
    size_t index;
};

/* A schema, without those of its choices that are settled already. */
struct schema_part {
    const struct schema_place *at; /* an object */
    unsigned settled;
};
enum { SCHEMA_ANY_OF = 1, SCHEMA_ONE_OF = 2, SCHEMA_LEADS = 4 /* $ref, allOf: in holds.c */ };

struct schema_all {
    struct schema_part *part; /* [n] all of them hold */
    size_t n, room;
    bool never; /* one of them is `false` */
};

/* A bound of numbers, in decimal: digits [whole] before the point, then [n - whole]. */
struct schema_bound {
    bool set, exclusive, minus;
    unsigned char digit[40];
    unsigned whole, n;
};

/* What the keywords of all parts say. */
struct schema_shape {
    struct schema_all all; /* the parts, with those that $ref and allOf lead to */
    unsigned types;
    bool has_values; /* enum, const: */
    struct jinja_list *value;
    struct schema_bound least, most;
    uint64_t min_length, max_length, min_items, max_items, min_members, max_members;
    const struct jinja_string *pattern; /* or that of a format */
    const struct schema_place *pattern_at, *members_at;
    const struct schema_place *choice; /* the first anyOf or oneOf that is not settled */
    size_t chooser;                    /* its part */
};

struct schema_rule {
    struct schema_all all;
    uint32_t next; /* of the same hash; 0: none */
    bool extra;    /* its text is not that of schemas */
};

struct schema {
    struct jinja *x;
    const struct schema_place *root;
    bool any_order;
    struct jinja_buffer out, later; /* the text; the rules that come behind the one at hand */
    struct schema_rule *rule; /* [n_rule] 0 is none; those from `written` on have no text yet */
    uint32_t n_rule, room, written;
    uint32_t by_hash[1024];
};

/* ---- place.c */

/* A place below `up`. */
const struct schema_place *tft_schema_place(struct schema *c, const struct schema_place *up,
                                            const struct jinja_string *key, size_t index,
                                            struct jinja_value v);
/* Member `name` of the object `at`; NULL: there is none. */
const struct schema_place *tft_schema_member(struct schema *c, const struct schema_place *at,
                                             const char *name);
const struct schema_place *tft_schema_find(struct schema *c, const struct schema_place *at,
                                           const struct jinja_string *name);
const struct schema_place *tft_schema_item(struct schema *c, const struct schema_place *list,
                                           size_t index);
/* What a $ref leads to; NULL after a failure. */
const struct schema_place *tft_schema_resolve(struct schema *c, const struct schema_place *ref);

/* Adds a schema to those that hold; it may be true or false. */
void tft_schema_add(struct schema *c, struct schema_all *all, const struct schema_place *at,
                    unsigned settled);

/* Records a failure at a place, unless there is one. */
void tft_schema_fail(struct schema *c, const struct schema_place *at, enum tft_status status,
                     const char *fmt, ...) TFT_PRINTF(4, 5);

/* ---- keyword.c */

/* Reads all keywords. A keyword that is not supported is a failure that names it. */
void tft_schema_read(struct schema *c, const struct schema_all *all, struct schema_shape *s);

/* The same for one schema, without what its $ref and allOf lead to. */
void tft_schema_read_one(struct schema *c, const struct schema_place *at, struct schema_shape *s);

/* ---- schema.c */

/* The rule for these schemas, to be written later. */
uint32_t tft_schema_rule(struct schema *c, const struct schema_all *all);
/* The parts with option i of the choice in place of the choice. */
struct schema_all tft_schema_option(struct schema *c, const struct schema_shape *s, size_t i);

/* A rule of its own, which the caller writes between tft_schema_begin_extra, which begins its line,
   and tft_schema_end_extra. It comes behind the rule that is being written. */
uint32_t tft_schema_extra(struct schema *c);
void tft_schema_begin_extra(struct schema *c, uint32_t rule);
void tft_schema_end_extra(struct schema *c);

void tft_schema_put(struct schema *c, const char *fmt, ...) TFT_PRINTF(2, 3);
/* A literal of GBNF for p[n]. */
void tft_schema_literal(struct schema *c, const char *p, size_t n);
/* Likewise for a value as JSON, with `behind` behind it. */
void tft_schema_json(struct schema *c, struct jinja_value v, const char *behind);

/* ---- holds.c */

bool tft_schema_same(struct schema *c, struct jinja_value a, struct jinja_value b);
/* Whether a value is valid by a schema, by all parts of a shape. */
bool tft_schema_holds(struct schema *c, const struct schema_place *at, struct jinja_value v);
bool tft_schema_all_hold(struct schema *c, const struct schema_shape *s, struct jinja_value v);
/* Whether no text that the rule for `a` has is valid by `b`; false if that is not known. */
bool tft_schema_apart(struct schema *c, const struct schema_all *a, const struct schema_all *b);

/* ---- object.c, array.c */

/* The schemas for the property of that name. Returns whether one of the parts lists it. */
bool tft_schema_property(struct schema *c, const struct schema_shape *s,
                         const struct jinja_string *name, struct schema_all *out);
bool tft_schema_requires(struct schema *c, const struct schema_shape *s,
                         const struct jinja_string *name);
/* The names that are listed as properties or required, in their order; and whether objects may have
   others: *rest are the schemas of those. */
struct jinja_list *tft_schema_names(struct schema *c, const struct schema_shape *s, bool *open,
                                    struct schema_all *rest);

/* Write the rest of a rule whose name is written, and the rules that it needs. */
void tft_schema_object(struct schema *c, const struct schema_shape *s);
void tft_schema_array(struct schema *c, const struct schema_shape *s);

/* ---- digits.c: write an expression; false: no number is within the bounds */

bool tft_schema_bound(struct schema *c, const struct schema_place *at, struct schema_bound *b);
int tft_schema_compare(const struct schema_bound *a, const struct schema_bound *b);
bool tft_schema_integer(struct schema *c, const struct schema_shape *s);
bool tft_schema_number(struct schema *c, const struct schema_shape *s);

/* ---- pattern.c */

/* The expression for strings that the pattern matches and that have a length within the bounds. */
void tft_schema_pattern(struct schema *c, const struct schema_shape *s);
/* The pattern of a format; NULL: it is not supported. */
const char *tft_schema_format(const struct jinja_string *name);

#endif
