/* Replies of /v1/messages: from items of a job to a message, whole or as events. */
#ifndef SERVE_ANTHROPIC_REPLY_H
#define SERVE_ANTHROPIC_REPLY_H

#include "request.h"

/* Gives the job of the request to the engine, or replies with an error. */
void anthropic_reply(struct exchange *x, struct request *r, bool stream);

#endif
