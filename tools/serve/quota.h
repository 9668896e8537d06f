/*
 * Limits of keys: requests at once, and tokens a minute. A key may use the tokens of a minute at
 * once, and then as many as come back: a request is let in while some are left. Its own are
 * subtracted when its reply ends, so the rest may be below 0 for a while.
 */
#ifndef SERVE_QUOTA_H
#define SERVE_QUOTA_H

#include <stddef.h>
#include <stdint.h>

#include "setup.h"

struct quota;

/* The limits of a file; a key that `old` has too, which may be NULL, keeps its rest. NULL: out of
   memory. now: ns. */
struct quota *quota_open(const struct setup *s, const struct quota *old, uint64_t now);
void quota_close(struct quota *q); /* q may be NULL */

enum { QUOTA_WHY = 120 };

/* Whether a request of the key may begin, beside `running` others of it. Returns 0 if it may, or
   else the seconds after which it is worth trying again, with the reason in why[]. */
unsigned quota_check(struct quota *q, const char *name, size_t running, uint64_t now,
                     char why[QUOTA_WHY]);

/* A request of the key has ended, after this many tokens. */
void quota_spend(struct quota *q, const char *name, uint64_t now, size_t tokens);

#endif
