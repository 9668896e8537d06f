/* GET /v1/models, for clients of OpenAI and of Anthropic. */
#ifndef SERVE_MODELS_H
#define SERVE_MODELS_H

#include "server.h"

void models_list(struct exchange *x);
void models_one(struct exchange *x);

#endif
