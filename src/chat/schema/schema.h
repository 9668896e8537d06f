/*
 * Turns a JSON Schema into a grammar in GBNF: schema.c makes rules and writes choices, place.c
 * finds places in the schema, keyword.c reads keywords, validate.c checks constants, and object.c,
 * array.c, number.c and pattern.c write the expressions of objects, arrays, numbers and strings.
 * character_set.c has the sets of characters of pattern.c, and raw_string.c writes strings without
 * quotes.
 *
 * A rule stands for a list of schemas, and a value must meet all of them: a schema with allOf and
 * $ref, or the schemas that two parts give one property. To merge the list, keyword.c reads each
 * schema into one shape. tft_schema_rule gives the list a number, and the text of the rule is
 * written later, so a schema may contain itself.
 */
#ifndef TFT_SCHEMA_H
#define TFT_SCHEMA_H

#include "chat/jinja/jinja.h"
#include "chat/tuffet_chat.h"

enum {
    SCHEMA_RULES = 1 << 13, /* limits, named by messages */
    SCHEMA_MANY = 1 << 16,  /* the most items or characters to count; caps larger maxima */
    SCHEMA_MEMBERS = 2000,  /* the same of members */
    SCHEMA_DEPTH = 100,
    SCHEMA_FREE = 8, /* the most properties in any order */
};
#define SCHEMA_NO_MAX UINT64_MAX

enum {
    SCHEMA_NULL = 1,
    SCHEMA_BOOL = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_FRACTION = 8, /* numbers that are not integers */
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
    SCHEMA_ALL_TYPES = 127,
};

/* A value in the schema, and its place. */
struct schema_place {
    struct jinja_value v;
    const struct schema_place *up;  /* NULL: the root */
    const struct jinja_string *key; /* key in the object `up`; NULL: item `index` of the list
                                       `up` */
    size_t index;
};

/* A schema. settled: the choices (SCHEMA_ANY_OF ...) that one of their options already
   replaces. */
struct schema_part {
    const struct schema_place *at; /* an object */
    unsigned settled;
};
enum { SCHEMA_ANY_OF = 1, SCHEMA_ONE_OF = 2, SCHEMA_LEADS = 4 /* $ref, allOf: in validate.c */ };

struct schema_all {
    struct schema_part *part; /* [n] schemas that must all hold */
    size_t n, room;
    bool never; /* one of the schemas is `false` */
};

/* A bound of numbers, in decimal: digits [whole] before the point, then [n - whole]. */
struct schema_bound {
    bool set, exclusive, minus;
    unsigned char digit[40];
    unsigned whole, n; /* whole: more than 18 for numbers that are not written out */
};

/* The keywords of all parts, merged. */
struct schema_shape {
    struct schema_all all; /* the parts, and the targets of their $ref and allOf */
    unsigned types;
    bool has_values; /* enum or const lists the values: */
    struct jinja_list *value;
    struct schema_bound least, most;
    uint64_t min_length, max_length, min_items, max_items, min_members, max_members;
    const struct jinja_string *pattern; /* of `pattern`, else of a format */
    const struct jinja_string *format;  /* the pattern of a format */
    const struct schema_place *pattern_at, *format_at, *members_at;
    struct schema_bound multiple; /* multipleOf */
    struct jinja_list *excluded;  /* constants of `not`; NULL: none */
    const struct schema_place *multiple_at, *unique_at, *names_at, *patterns_at; /* NULL: absent */
    const struct schema_place *choice; /* the first anyOf or oneOf that is not settled */
    size_t chooser;                    /* the index of its part */
};

struct schema_rule {
    struct schema_all all;
    uint32_t next; /* the next rule of the same hash; 0: none */
    bool extra;    /* a rule of tft_schema_extra, without schemas */
};

/* The format of an object with members other than JSON's: before NAME middle VALUE after, with
   `comma` between members, then `close`. until: the text that ends a value that can only be a
   string, which has no quotes and escapes; NULL: such values are quoted. */
struct schema_members {
    const char *before, *middle, *after, *comma, *close, *until;
};

/* The spelling of values. */
struct schema_spelling {
    const char *null, *yes, *no, *comma, *colon;
    const char *mark;  /* around strings, which have no escapes; names have no quotes; NULL: as in
                          JSON */
    const char *rule;  /* the rule of the mark */
    const char *rules; /* shared by all other rules */
};
extern const struct schema_spelling tft_schema_json_spelling, tft_schema_python_spelling,
    tft_schema_gemma_spelling;

struct schema {
    struct jinja *x;
    const struct schema_spelling *as; /* NULL: JSON */
    const struct schema_place *root;
    const struct schema_place *here; /* the schema of the current rule; NULL: none yet */
    bool any_order;
    const char *until; /* the end of the current string without quotes and escapes; its first
                          character is < */
    const struct schema_members *members; /* of the current object; NULL: JSON */
    struct jinja_buffer out, later;       /* out: the grammar; later: rules to write after the
                                             current one */
    struct schema_rule *rule; /* [n_rule] rule 0 is unused; rules from `written` on have no text
                                 yet */
    uint32_t n_rule, room, written;
    struct { /* schemas that tft_schema_read_one has read, by hash */
        const struct jinja_dict *of;
        struct schema_shape shape;
    } known[16];
    uint32_t by_hash[1024];
};

/* ---- place.c */

/* The place of v below `up`. */
const struct schema_place *tft_schema_place(struct schema *c, const struct schema_place *up,
                                            const struct jinja_string *key, size_t index,
                                            struct jinja_value v);
/* Member `name` of the object `at`; NULL: absent. */
const struct schema_place *tft_schema_member(struct schema *c, const struct schema_place *at,
                                             const char *name);
const struct schema_place *tft_schema_find(struct schema *c, const struct schema_place *at,
                                           const struct jinja_string *name);
const struct schema_place *tft_schema_item(struct schema *c, const struct schema_place *list,
                                           size_t index);
/* The schema that a $ref refers to; NULL after a failure. */
const struct schema_place *tft_schema_resolve(struct schema *c, const struct schema_place *ref);

/* Adds a schema to the list `all`. The schema may be true or false. */
void tft_schema_add(struct schema *c, struct schema_all *all, const struct schema_place *at,
                    unsigned settled);

/* Records a failure at a place, unless one is recorded. */
void tft_schema_fail(struct schema *c, const struct schema_place *at, enum tft_status status,
                     const char *fmt, ...) TFT_PRINTF(4, 5);

/* ---- keyword.c */

/* Reads the keywords of all parts into *s. An unsupported keyword is a failure that names the
   keyword. */
void tft_schema_read(struct schema *c, const struct schema_all *all, struct schema_shape *s);

/* Reads the keywords of one schema, without the targets of its $ref and allOf. */
void tft_schema_read_one(struct schema *c, const struct schema_place *at, struct schema_shape *s);

/* ---- schema.c */

/* The bounds and the pool of one or several schemas, which messages call `what`. */
struct jinja tft_schema_pool(const char *what);
/* The value of a JSON text p[n], not copied: p must outlive it; check x->status. */
struct jinja_value tft_schema_read_text(struct jinja *x, const char *p, size_t n);
/* Writes the rules for the schemas `all`, with $ref relative to `root`; returns the number of the
   first rule. tft_schema_write_shared then writes the shared rules. */
uint32_t tft_schema_write(struct schema *c, const struct schema_place *root,
                          const struct schema_all *all);
void tft_schema_write_shared(struct schema *c);
/* As tft_schema_write, for an object in the format `members`. The object may not be a choice of
   objects. */
uint32_t tft_schema_write_members(struct schema *c, const struct schema_place *root,
                                  const struct schema_all *all,
                                  const struct schema_members *members);
/* Copies the grammar to *out, or the failure to *err. */
enum tft_status tft_schema_finish(struct tft_chat_text *out, struct schema *c,
                                  struct tft_error *err);

/* The number of the rule for the schemas. The text of the rule is written later. */
uint32_t tft_schema_rule(struct schema *c, const struct schema_all *all);
/* The parts of s, with option i of its choice in place of the choice. */
struct schema_all tft_schema_option(struct schema *c, const struct schema_shape *s, size_t i);

/* Makes a rule without schemas. The caller writes the rule between tft_schema_begin_extra and
   tft_schema_end_extra. The rule goes after the current one. */
uint32_t tft_schema_extra(struct schema *c);
void tft_schema_begin_extra(struct schema *c, uint32_t rule);
void tft_schema_end_extra(struct schema *c);

const struct schema_spelling *tft_schema_spelling(const struct schema *c);
void tft_schema_put(struct schema *c, const char *fmt, ...) TFT_PRINTF(2, 3);
/* Writes a literal of GBNF for p[n]. */
void tft_schema_literal(struct schema *c, const char *p, size_t n);
/* Writes a literal for the name of a member and the separator after it. */
void tft_schema_put_name(struct schema *c, struct jinja_value name);
/* Writes an expression for a value. */
void tft_schema_put_value(struct schema *c, struct jinja_value v);
/* Writes a literal for a value as JSON, followed by the text `behind`. */
void tft_schema_json(struct schema *c, struct jinja_value v, const char *behind);

/* ---- validate.c */

/* The type of a value: SCHEMA_NULL .. SCHEMA_OBJECT. */
unsigned tft_schema_type(struct jinja_value v);
bool tft_schema_same(struct schema *c, struct jinja_value a, struct jinja_value b);
/* Whether a value is valid by a schema; by all parts of a shape. */
bool tft_schema_holds(struct schema *c, const struct schema_place *at, struct jinja_value v);
/* listed: v is known to be among the constants of s. */
bool tft_schema_all_hold(struct schema *c, const struct schema_shape *s, struct jinja_value v,
                         bool listed);
/* Whether no text of the rule for `a` is valid by `b`; false if unknown. */
bool tft_schema_apart(struct schema *c, const struct schema_all *a, const struct schema_all *b);

/* ---- object.c, array.c, unique.c */

/* Writes rule r: the inside of a string in JSON that equals no name of l. */
void tft_schema_other_names(struct schema *c, const struct jinja_list *l, uint32_t r);

/* Whether member names without quotes may contain c. */
bool tft_schema_is_plain(char c);

/* *out: the schemas for the property `name`. Returns whether one of the parts lists it. */
bool tft_schema_property(struct schema *c, const struct schema_shape *s,
                         const struct jinja_string *name, struct schema_all *out);
bool tft_schema_requires(struct schema *c, const struct schema_shape *s,
                         const struct jinja_string *name);
/* The names in `properties` and `required`, in order. *open: whether objects may have other
   members; *rest: the schemas of the other members' values. */
struct jinja_list *tft_schema_names(struct schema *c, const struct schema_shape *s, bool *open,
                                    struct schema_all *rest);

/* Write the expression of an object, or of an array, and its extra rules. */
void tft_schema_object(struct schema *c, const struct schema_shape *s);
void tft_schema_array(struct schema *c, const struct schema_shape *s);
/* Writes the items of an array of distinct constants, all of the shape `item`. */
void tft_schema_unique(struct schema *c, const struct schema_shape *s,
                       const struct schema_shape *item);

/* ---- number.c: write an expression; false: no number is within the bounds */

bool tft_schema_bound(struct schema *c, const struct schema_place *at, struct schema_bound *b);
int tft_schema_compare(const struct schema_bound *a, const struct schema_bound *b);
bool tft_schema_integer(struct schema *c, const struct schema_shape *s);
bool tft_schema_number(struct schema *c, const struct schema_shape *s);

/* ---- multiple.c */

/* Whether the number is a multiple of s->multiple. */
bool tft_schema_is_multiple(const struct schema_shape *s, const struct schema_bound *b);
/* The digits after the point of multiples of 1, 0.1, 0.01 ...; -1: s->multiple is another number,
   for which tft_schema_multiples writes the integers lo .. hi. */
int tft_schema_places(const struct schema_shape *s);
void tft_schema_multiples(struct schema *c, const struct schema_shape *s, int64_t lo, int64_t hi);

/* ---- raw_string.c */

/* Writes a literal for a string without quotes and escapes; it must not contain `until`. */
void tft_schema_raw_literal(struct schema *c, const struct jinja_string *s, const char *until);

/* Whether the schemas allow strings, and nothing else but null. */
bool tft_schema_is_raw(struct schema *c, const struct schema_all *all);
/* Writes an expression for the schemas' strings, without quotes and escapes. */
void tft_schema_raw(struct schema *c, const struct schema_all *all, const char *until);

/* ---- pattern.c */

/* Writes the expression of strings that match the pattern and have a length within the bounds. */
void tft_schema_pattern(struct schema *c, const struct schema_shape *s);
/* The pattern, or one of the same language that needs no assertions. */
const struct jinja_string *tft_schema_plain(struct schema *c, const struct jinja_string *pattern);
/* The pattern of a format; NULL: unknown. */
const char *tft_schema_format(const struct jinja_string *name);

#endif
