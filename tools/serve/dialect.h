/* The errors of each API. */
#ifndef SERVE_DIALECT_H
#define SERVE_DIALECT_H

#include <jansson.h>
#include <stdbool.h>

enum dialect {
    DIALECT_OPENAI,
    DIALECT_RESPONSES, /* OpenAI's /v1/responses: its streams have errors of another form */
    DIALECT_OLLAMA,
    DIALECT_ANTHROPIC,
};

/* The body of an error, or the last part of a stream. type: OpenAI's, such as
   "invalid_request_error". Takes text. NULL: out of memory. */
json_t *dialect_error(enum dialect d, bool streaming, int status, const char *type, json_t *text);

/* The error for want of memory, as text. */
const char *dialect_no_memory(enum dialect d, bool streaming);

/* The text before and after an error in a stream. */
const char *dialect_before(enum dialect d);
const char *dialect_after(enum dialect d);

#endif
