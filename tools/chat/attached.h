/* Text of files that becomes part of the user's next message. */
#ifndef ATTACHED_H
#define ATTACHED_H

#include "conversation.h"

/* Adds the text of a file to c->attached, and says on standard error how many tokens it has.
   Returns CLI_OK, or CLI_FAILED after an error message. */
int attached_read(struct conversation *c, const char *path);

#endif
