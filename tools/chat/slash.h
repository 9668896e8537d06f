/* Commands within a conversation: lines that begin with a slash. They print to standard error, so
   that standard output has only the answers. */
#ifndef SLASH_H
#define SLASH_H

#include "conversation.h"

/* Runs the command in *p[*n]. SLASH_NONE: it is a message; if it begins with two slashes, the first
   is removed. SLASH_AGAIN: replace the last answer. SLASH_END: end the conversation. SLASH_FAILED:
   an error, after its message, such as an unknown command. Several lines are a message, unless they
   begin with the name of a command. */
enum slash { SLASH_NONE, SLASH_DONE, SLASH_AGAIN, SLASH_END, SLASH_FAILED };
enum slash slash(struct conversation *c, const char **p, size_t *n);

#endif
