/* Ollama's API. */
#ifndef SERVE_OLLAMA_H
#define SERVE_OLLAMA_H

#include "server.h"

void ollama_version(struct exchange *x);
void ollama_tags(struct exchange *x);
void ollama_ps(struct exchange *x);
void ollama_show(struct exchange *x);

/* The words of Ollama for the abilities of a model: "completion" or "embedding", "tools",
   "thinking". */
json_t *ollama_abilities(const struct served *s);
void ollama_chat(struct exchange *x);
void ollama_generate(struct exchange *x);

/* Whether a request to /api/chat or /api/generate has no messages or no prompt: it only loads or
   unloads its model. */
bool ollama_is_empty(const char *path, const json_t *body);

/* Replies that the model of the exchange goes, which need not be open. */
void ollama_unloaded(struct exchange *x);

json_t *ollama_date(int64_t since_1970);

#endif
