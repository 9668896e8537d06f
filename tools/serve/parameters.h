/*
 * The parameters of all APIs: each is honoured; or accepted, because it changes no token; or
 * refused, because it would change the answer. docs/server-reference.md lists the same names.
 */
#ifndef SERVE_PARAMETERS_H
#define SERVE_PARAMETERS_H

#include "fields.h"

/* The requests that have parameters. */
enum api {
    API_CHAT = 1,         /* /v1/chat/completions */
    API_TEXT = 2,         /* /v1/completions */
    API_NATIVE = 4,       /* /completion */
    API_OLLAMA_CHAT = 8,  /* /api/chat */
    API_OLLAMA_TEXT = 16, /* /api/generate */
    API_OPTIONS = 32,     /* `options` of Ollama's requests */
    API_EMBED = 64,       /* embeddings, of all APIs */
    API_TOKENS = 128,     /* /tokenize, /detokenize */
    API_MESSAGES = 256,   /* /v1/messages */
    API_RESPONSES = 512,  /* /v1/responses */
    API_INFILL = 1024,    /* /infill */
    API_RERANK = 2048,    /* /v1/rerank, /rerank */
};

/* Fails, with status 501, if a member of `all` is refused. A member that the table does not have is
   named on stderr, once. */
void parameters_check(struct fields *f, const json_t *all, enum api api);

bool parameters_honours(const char *name, enum api api);

#endif
