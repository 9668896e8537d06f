/* Ollama's API. */
#ifndef SERVE_OLLAMA_H
#define SERVE_OLLAMA_H

#include "server.h"

void ollama_version(struct exchange *x);
void ollama_tags(struct exchange *x);
void ollama_ps(struct exchange *x);
void ollama_show(struct exchange *x);
void ollama_chat(struct exchange *x);
void ollama_generate(struct exchange *x);

json_t *ollama_date(int64_t since_1970);

#endif
