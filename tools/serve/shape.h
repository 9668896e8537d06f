/* The form that a request wants for its answers: a grammar, compiled once for all of its jobs, by a
   thread of its own (engine.c), so that neither clients nor answers wait for it. */
#ifndef SERVE_SHAPE_H
#define SERVE_SHAPE_H

#include "tools/cli/form.h"

/* A grammar in GBNF p[n], which is copied. where: the member of the request that it comes from, a
   constant. NULL: out of memory. */
struct shape *shape_new(const char *where, const char *p, size_t n);

struct shape *shape_share(struct shape *s);
void shape_drop(struct shape *s); /* the last owner frees it; NULL is fine */

/* Compiles the grammar, unless that was done before, and gives it to the form. why: [room] the
   reason of a failure. */
enum tft_status shape_give(struct shape *s, struct form *form, const struct tft_lexicon *lx,
                           char *why, size_t room);

#endif
