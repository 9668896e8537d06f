/* Commands within a conversation: lines that begin with a slash. What they print goes to standard
   error, so that standard output has the answers alone. */
#ifndef SLASH_H
#define SLASH_H

#include "conversation.h"

/* Obeys the command in *p[*n], if it is one. Returns SLASH_NONE for a message, from which the first
   slash is removed if it begins with two. SLASH_AGAIN: the last answer is to be replaced.
   SLASH_FAILED: after an error message, also for a command that does not exist. Several lines are
   a message as they are, unless they begin with the name of a command. */
enum slash { SLASH_NONE, SLASH_DONE, SLASH_AGAIN, SLASH_FAILED };
enum slash slash(struct conversation *c, const char **p, size_t *n);

#endif
