/*
 * The members of a request. A member that is null is absent. The first error stays, and names the
 * member; members read after it get their default.
 */
#ifndef SERVE_FIELDS_H
#define SERVE_FIELDS_H

#include <jansson.h>

#include "tools/cli/cli.h"

struct fields {
    json_t *body;
    bool failed, unsupported; /* the error has status 501, not 400 */
    char error[400];

    /* Of a request that becomes one of another API: what the client calls its members. */
    struct {
        const char *ours, *theirs;
    } name[12]; /* [n_names] */
    size_t n_names;
    json_t *places; /* of the messages in the new form, each a text such as "input[3]"; or NULL */
};

/* The text names the members of the new form; f->error has the client's names. */
void fields_fail(struct fields *f, const char *fmt, ...) CLI_PRINTF(2, 3);

/* From now on errors call the member `ours` `theirs`; a longer name of the same beginning comes
   first. A name that begins with a slash is a part of a path, and is replaced once. */
void fields_name(struct fields *f, const char *ours, const char *theirs);

/* The client's name of a member. */
const char *fields_named(const struct fields *f, const char *ours);

/* The client's name of the message number i of the new form. */
enum { FIELDS_PLACE = 40 };
const char *fields_message(const struct fields *f, size_t i, char room[FIELDS_PLACE]);

const json_t *field(const struct fields *f, const char *name); /* NULL: absent */
bool field_flag(struct fields *f, const char *name, bool otherwise);
double field_number(struct fields *f, const char *name, double least, double most,
                    double otherwise);
int64_t field_integer(struct fields *f, const char *name, int64_t least, int64_t most,
                      int64_t otherwise);
const char *field_text(struct fields *f, const char *name, const char *otherwise);

/* Whether a client means no more by v than that there is none: null, or an empty value. */
bool json_void(const json_t *v);

/* Whether v is a whole number of 64 bits, also one written as 4.0, and its value. */
bool json_whole(const json_t *v, int64_t *value);

enum {
    FIELDS_VALUES = 1 << 18, /* of a body: an empty object takes 220 bytes once read */
    FIELDS_WHY = 256,        /* bytes of an error */
};

/* A body: a JSON object, which the caller owns; NULL: the reason is in why[FIELDS_WHY]. */
json_t *json_body(const char *p, size_t n, char *why);
json_t *json_list(const char *p, size_t n, char *why); /* likewise a list */

/* As read_json, but an integer beyond 64 bits becomes a real. */
json_t *json_text(const char *p, size_t n, size_t flags, json_error_t *e);

/* Whether the reason of an error is that memory is short: the server's fault. */
bool fields_lack_memory(const char *why);

/* A JSON string of bytes; invalid UTF-8 becomes U+FFFD. NULL: out of memory (lost.h). */
json_t *json_bytes(const char *p, size_t n);

#endif
