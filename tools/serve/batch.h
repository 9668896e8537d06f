/* tuffet batch: the requests of a file, answered by the engine without a connection. */
#ifndef SERVE_BATCH_H
#define SERVE_BATCH_H

#include "server.h"

/* Answers the requests of the file `in`, in OpenAI's form of a batch, and adds their replies to the
   file `out`; requests whose custom_id is in `out` already are left out. The options of s are set,
   with its model and templates. Returns CLI_OK, CLI_INTERRUPTED, or CLI_FAILED after an error
   message. */
int batch_run(struct server *s, const char *in, const char *out);

#endif
