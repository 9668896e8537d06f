/*
 * The interpreter of chat templates: a Jinja source becomes tokens (lexer.c), a tree
 * (parse_statement.c, parse_expression.c), and then text (run.c, eval.c). src/chat/template runs it
 * over conversations.
 *
 * One context, struct jinja, serves reading and running. All memory comes from its pool, and is
 * freed with the pool. A failure is recorded once and persists: every function then returns the
 * undefined value, and tft_jinja_spend, called before each iteration of a loop, returns false. So a
 * caller checks x->status only before it uses a pointer that may be NULL.
 *
 * The semantics are Jinja2 3.1's, on Python's types. Anything unsupported is an error.
 */
#ifndef TFT_JINJA_H
#define TFT_JINJA_H

#include "base/error.h"

enum jinja_kind {
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_BIG, /* a JSON integer beyond int64_t: only printed */
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_CALLABLE,
    JINJA_LOOP,
};

/* p[n], UTF-8 and perhaps invalid bytes. mark: [n] which bytes are trusted; NULL: `trusted` holds
   for all bytes. safe: the filter `safe` made the string. Strings are immutable. */
struct jinja_string {
    const char *p;
    const unsigned char *mark;
    size_t n;
    bool trusted, safe;
};

struct jinja_value {
    enum jinja_kind kind;
    union {
        bool truth;
        int64_t integer;
        double number;
        const struct jinja_string *string; /* also the digits of JINJA_BIG, and the name of an
                                              undefined value */
        struct jinja_list *list;
        struct jinja_dict *dict; /* of JINJA_NAMESPACE too */
        struct jinja_callable *call;
        struct jinja_loop *loop;
    };
};

enum jinja_list_kind {
    JINJA_PLAIN,
    JINJA_TUPLE,
    JINJA_VIEW,      /* keys(), values(), items() */
    JINJA_GENERATOR, /* of map, select and the like: true even if empty, and used up by one loop */
};

struct jinja_list {
    struct jinja_value *item; /* [n] */
    size_t n, room;
    enum jinja_list_kind kind;
};

/* In insertion order. */
struct jinja_dict {
    struct jinja_value *key, *value; /* [n] */
    size_t n, room;
    const struct jinja_string *text; /* printed, or added to a string, in place of the dict; NULL:
                                        prints as in Python, and cannot be added */
};

/* A macro, a function, or a method of `self`. */
struct jinja_callable {
    const char *name; /* of a function or method; NULL: a macro */
    struct jinja_value self;
    const struct jinja_node *macro;
    struct jinja_scope *scope; /* the scope that defines the macro */
};

struct jinja_loop {
    struct jinja_list *over;
    size_t index;
    unsigned depth;
};

/* The variables of a scope, newest first. */
struct jinja_scope {
    struct jinja_scope *parent;
    struct jinja_binding *first;
};

/* Arguments of a call. */
struct jinja_args {
    struct jinja_value *value; /* [n] by position */
    size_t n;
    const struct jinja_string **name; /* [n_named] by name */
    struct jinja_value *named;
    size_t n_named;
};

/* Text that grows. mark: [room] whether each byte is trusted */
struct jinja_buffer {
    char *p;
    unsigned char *mark;
    size_t n, room;
};

struct jinja {
    const char *what; /* the name of the source in messages, such as "template" */
    /* the pool */
    struct jinja_chunk *chunk;
    size_t memory, max_memory;
    /* bounds */
    uint64_t steps, max_steps;
    unsigned depth, max_depth;
    size_t max_output;
    bool exact; /* half of a surrogate pair in JSON is an error */
    /* the first failure, and the current line of the template */
    enum tft_status status;
    struct tft_error err;
    int line;
    /* of a run */
    struct jinja_scope *scope;
    struct jinja_buffer *out;
    enum { JINJA_GO_ON, JINJA_BREAK, JINJA_CONTINUE } leave;
    bool has_time;
    int64_t time;
};

/* ---- context.c */

void *tft_jinja_take(struct jinja *x, size_t count, size_t size); /* zeroed; NULL after a failure */
void tft_jinja_free(struct jinja *x);

/* Counts n steps; returns whether to continue. Work on n bytes is n / 16 steps. */
bool tft_jinja_spend(struct jinja *x, size_t n);

/* Enters one level of recursion, until tft_jinja_leave; false after a failure. */
bool tft_jinja_enter(struct jinja *x);
void tft_jinja_leave(struct jinja *x);

/* Records a failure, "line N: ...", unless one is recorded. Returns the undefined value. */
struct jinja_value tft_jinja_fail(struct jinja *x, enum tft_status status, const char *fmt, ...)
    TFT_PRINTF(3, 4);

/* ---- value.c */

extern const struct jinja_value tft_jinja_undefined, tft_jinja_none;

struct jinja_value tft_jinja_bool(bool truth);
struct jinja_value tft_jinja_int(int64_t integer);
struct jinja_value tft_jinja_float(double number);
struct jinja_value tft_jinja_list_value(struct jinja_list *l);
struct jinja_list *tft_jinja_list(struct jinja *x, enum jinja_list_kind kind);
void tft_jinja_push(struct jinja *x, struct jinja_list *l, struct jinja_value v);
struct jinja_dict *tft_jinja_dict(struct jinja *x);
/* The value of a key, or NULL. */
struct jinja_value *tft_jinja_find(struct jinja *x, const struct jinja_dict *d,
                                   struct jinja_value key);
void tft_jinja_put(struct jinja *x, struct jinja_dict *d, struct jinja_value key,
                   struct jinja_value value);

bool tft_jinja_true(struct jinja *x, struct jinja_value v);
bool tft_jinja_equal(struct jinja *x, struct jinja_value a, struct jinja_value b);
/* < 0, 0, > 0; fails for values that have no order */
int tft_jinja_compare(struct jinja *x, struct jinja_value a, struct jinja_value b);
bool tft_jinja_contains(struct jinja *x, struct jinja_value in, struct jinja_value v);
/* The items of a loop over v; NULL after a failure. */
struct jinja_list *tft_jinja_iterate(struct jinja *x, struct jinja_value v);
const char *tft_jinja_type(struct jinja_value v); /* Python's name of its type */
bool tft_jinja_is_number(struct jinja_value v, double *number);

/* ---- string.c */

/* A string of p[n], not copied: p must outlive it. */
struct jinja_value tft_jinja_string(struct jinja *x, const char *p, size_t n, bool trusted);
struct jinja_value tft_jinja_text(struct jinja *x, const char *p); /* trusted, NUL at the end */
struct jinja_value tft_jinja_part(struct jinja *x, const struct jinja_string *s, size_t begin,
                                  size_t end);
bool tft_jinja_same(const struct jinja_string *a, const struct jinja_string *b);
bool tft_jinja_is(const struct jinja_string *s, const char *p);
bool tft_jinja_trusts(const struct jinja_string *s, size_t at); /* whether byte `at` is trusted */

void tft_jinja_add(struct jinja *x, struct jinja_buffer *b, const struct jinja_string *s);
void tft_jinja_add_text(struct jinja *x, struct jinja_buffer *b, const char *p, size_t n,
                        bool trusted);
struct jinja_value tft_jinja_finish(struct jinja *x, struct jinja_buffer *b); /* as a string */
struct jinja_value tft_jinja_concat(struct jinja *x, const struct jinja_string *a,
                                    const struct jinja_string *b);
/* The operator +: if one of a and b is safe, the other is escaped, and the sum is safe. */
struct jinja_value tft_jinja_sum(struct jinja *x, const struct jinja_string *a,
                                 const struct jinja_string *b);
struct jinja_value tft_jinja_markup(struct jinja *x, const struct jinja_string *s); /* s, safe */

size_t tft_jinja_length(const struct jinja_string *s);               /* in characters */
size_t tft_jinja_offset(const struct jinja_string *s, size_t index); /* of character `index` */
bool tft_jinja_space(uint32_t c);                                    /* Python's str.isspace */
/* The first occurrence of `what` in s, from `from` on; s->n + 1 if absent. */
size_t tft_jinja_search(struct jinja *x, const struct jinja_string *s, size_t from,
                        const struct jinja_string *what);
/* s without the characters of `set` at its start or end; set NULL: white space. */
struct jinja_value tft_jinja_strip(struct jinja *x, const struct jinja_string *s,
                                   const struct jinja_string *set, bool start, bool end);
enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_CAPITALIZE, JINJA_TITLE, JINJA_TITLE_FILTER };
struct jinja_value tft_jinja_cased(struct jinja *x, const struct jinja_string *s,
                                   enum jinja_case how);
struct jinja_value tft_jinja_replace(struct jinja *x, const struct jinja_string *s,
                                     const struct jinja_string *from, const struct jinja_string *to,
                                     int64_t count);

/* ---- print.c */

/* str(v) and repr(v) of Python. */
const struct jinja_string *tft_jinja_str(struct jinja *x, struct jinja_value v);
void tft_jinja_print(struct jinja *x, struct jinja_buffer *b, struct jinja_value v);
void tft_jinja_print_number(struct jinja *x, struct jinja_buffer *b, double number, bool json);

/* ---- read_json.c, tojson.c */

struct jinja_value tft_jinja_read_json(struct jinja *x, const struct jinja_string *s);
struct jinja_value tft_jinja_tojson(struct jinja *x, struct jinja_value v,
                                    const struct jinja_args *a);

/* ---- eval.c, operator.c, builtin_methods.c, run.c */

struct jinja_value tft_jinja_eval(struct jinja *x, const struct jinja_node *e);
void tft_jinja_args(struct jinja *x, const struct jinja_node *list, struct jinja_args *out);
struct jinja_value tft_jinja_filtered(struct jinja *x, const struct jinja_node *chain,
                                      struct jinja_value v);
struct jinja_value tft_jinja_binary(struct jinja *x, int op, struct jinja_value a,
                                    struct jinja_value b);
struct jinja_value tft_jinja_unary(struct jinja *x, int op, struct jinja_value a);
struct jinja_value tft_jinja_attribute(struct jinja *x, struct jinja_value v,
                                       const struct jinja_string *name);
struct jinja_value tft_jinja_item(struct jinja *x, struct jinja_value v, struct jinja_value key);
struct jinja_value tft_jinja_slice(struct jinja *x, struct jinja_value v,
                                   const struct jinja_value part[3]);
struct jinja_value tft_jinja_call(struct jinja *x, struct jinja_value f,
                                  const struct jinja_args *a);
struct jinja_value tft_jinja_call_macro(struct jinja *x, const struct jinja_callable *f,
                                        const struct jinja_args *a);
void tft_jinja_set(struct jinja *x, const struct jinja_string *name, struct jinja_value v);
void tft_jinja_run(struct jinja *x, const struct jinja_node *body);

/* ---- builtin_filters.c and builtin_list_filters.c, builtin_tests.c, builtin_methods.c,
   builtin_functions.c */

/* The argument at `index` or of `name`; else `otherwise`. */
struct jinja_value tft_jinja_arg(const struct jinja_args *a, size_t index, const char *name,
                                 struct jinja_value otherwise);
/* Fails on more arguments than names in the list, or on another name. NULL ends the list. */
bool tft_jinja_check_args(struct jinja *x, const char *what, const struct jinja_args *a,
                          size_t most, const char *const *names);
struct jinja_value tft_jinja_filter(struct jinja *x, const struct jinja_string *name,
                                    struct jinja_value v, const struct jinja_args *a);
/* false: not a filter on lists */
bool tft_jinja_filter_list(struct jinja *x, const struct jinja_string *name, struct jinja_value v,
                           const struct jinja_args *a, struct jinja_value *out);
bool tft_jinja_test(struct jinja *x, const struct jinja_string *name, struct jinja_value v,
                    const struct jinja_args *a);
/* The method of the name, not yet called; false if the type has no such method. */
bool tft_jinja_method(struct jinja *x, struct jinja_value self, const struct jinja_string *name,
                      struct jinja_value *out);
struct jinja_value tft_jinja_call_method(struct jinja *x, const struct jinja_callable *f,
                                         const struct jinja_args *a);
bool tft_jinja_function(struct jinja *x, const struct jinja_string *name, struct jinja_value *out);
struct jinja_value tft_jinja_call_function(struct jinja *x, const char *name,
                                           const struct jinja_args *a);

#endif
