/* Replies of /v1/responses: from items of a job to a response, whole or as events. */
#ifndef SERVE_RESPONSES_REPLY_H
#define SERVE_RESPONSES_REPLY_H

#include "request.h"

/* What a response has of its request. */
struct asked {
    json_t *echo;    /* {} members that the response repeats */
    json_t *history; /* [] messages before the answer, in OpenAI's form; NULL: it is not kept */
    bool stream;
};

/* Gives the job of the request to the engine, or replies with an error. Takes what asked owns. */
void responses_reply(struct exchange *x, struct request *r, struct asked asked);

#endif
