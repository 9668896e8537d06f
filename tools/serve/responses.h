/* OpenAI's /v1/responses. */
#ifndef SERVE_RESPONSES_H
#define SERVE_RESPONSES_H

#include "server.h"

void responses_create(struct exchange *x);
void responses_count(struct exchange *x);
void responses_get(struct exchange *x);
void responses_delete(struct exchange *x);

#endif
