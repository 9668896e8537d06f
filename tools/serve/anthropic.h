/* Anthropic's API. */
#ifndef SERVE_ANTHROPIC_H
#define SERVE_ANTHROPIC_H

#include "server.h"

void anthropic_messages(struct exchange *x);
void anthropic_count(struct exchange *x);

#endif
