/* OpenAI's API. */
#ifndef SERVE_OPENAI_H
#define SERVE_OPENAI_H

#include "server.h"

void openai_chat(struct exchange *x);
void openai_completions(struct exchange *x);

#endif
