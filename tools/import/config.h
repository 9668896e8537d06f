/* Values of config.json, and the keys of GGUF that come from them. */
#ifndef IMPORT_CONFIG_H
#define IMPORT_CONFIG_H

#include "work.h"

/* "ARCH.NAME", until the next call. */
const char *import_key(struct import *im, const char *name);

/* Whether a member of config.json counts as absent. */
bool import_ignores(const struct import *im, const char *name);

/* The first of `names`, separated by '|', that config.json has: first in the text model's part,
   then in the rest, then in the defaults. null counts as absent. */
const json_t *import_find(const struct import *im, const char *names);

/* The value of config.json with one of these names: a number, a whole number of at most INT32_MAX,
   or a flag. If absent: `def`, or an error if `def` is IMPORT_NEEDED. A value of another type is
   also an error. */
#define IMPORT_NEEDED (-1)
double import_real(struct import *im, const char *names, double def);
uint64_t import_whole(struct import *im, const char *names, int64_t def);
bool import_flag(struct import *im, const char *names, bool def);

/* A member of an object of config.json, such as rope_scaling; the rest as above. */
double import_member(struct import *im, const json_t *object, const char *names, double def);

/* Reads im's dimensions. */
void import_dimensions(struct import *im);

/* Writes the common values of all architectures. */
void import_values(struct import *im);

#endif
