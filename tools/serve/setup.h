/*
 * The file of --config: the options of the command in the section [serve], a section [model NAME]
 * for each model, and [key NAME] for the limits of a key. Its settings are names of options, as in
 * the user's file of defaults.
 */
#ifndef SERVE_SETUP_H
#define SERVE_SETUP_H

#include "keys.h"
#include "tools/cli/cli.h"

enum { SETUP_MODELS = 256, SETUP_KEYS = KEYS_MOST };

/* Options of one model. 0 or NULL: the server's. */
struct setup_own {
    uint32_t ctx, n_slots;
    const char *kv, *pooling;
};

struct setup_model {
    const char *name, *path;
    struct cli_texts aliases;
    struct setup_own own;
    size_t line; /* of its section */
};

/* Limits of a key. 0: none. */
struct setup_key {
    const char *name;
    uint32_t requests; /* at once */
    uint32_t tokens;   /* of prompts and answers, in a minute */
    size_t line;
};

/* A line of [serve], of an option that the command line does not have. */
struct setup_option {
    const char *name, *value;
    size_t line;
};

struct setup {
    const char *path;
    char *text;                 /* which all texts point to */
    struct setup_model *models; /* [n_models] */
    struct setup_key *keys;     /* [n_keys] */
    struct setup_option *options; /* [n_options] */
    size_t n_models, n_keys, n_options;
};

/* Reads the file; NULL after an error message, which names the line. first: sets the options of the
   command by [serve], except those of the command line; otherwise checks only their names. The
   options then point to the text: do not free it. */
struct setup *setup_read(const char *path, const struct cli_command *c, bool first);

/* Whether a name can be written as JSON. */
bool setup_is_utf8(const char *p);

/* Whether each key with limits is among the keys; false after an error message. */
bool setup_has_keys(const struct setup *s, const struct keys *k);

/* Says which lines of [serve] are not in `old`, or only there: they count when the server starts
   again. */
void setup_tell_later(const struct setup *s, const struct setup *old);

void setup_free(struct setup *s); /* s may be NULL */

#endif
