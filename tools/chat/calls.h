/* Calls of tools in a conversation: shows them, asks the user, and runs their commands. */
#ifndef CALLS_H
#define CALLS_H

#include "input.h"
#include "tools.h"

struct calls {
    const struct tools *tools;
    bool yes;         /* --yes: nothing is asked */
    struct input *in; /* asks the user; NULL with --yes */
    bool *always;     /* [tools] the user allowed all calls of this tool */
};

/* Opens calls. The caller sets the first three fields. Returns CLI_OK, or CLI_FAILED after an error
   message. */
int calls_open(struct calls *c);
void calls_close(struct calls *c);

/* `call` of struct conversation; user: the calls. *out, which is empty, becomes the result for the
   model; the caller frees it. Returns CLI_OK, or CLI_FAILED after an error message. */
int calls_make(void *user, const struct template_message *call, struct cli_text *out);

#endif
