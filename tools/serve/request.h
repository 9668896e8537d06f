/* A request for answers, and its jobs: the same in all dialects. */
#ifndef SERVE_REQUEST_H
#define SERVE_REQUEST_H

#include "parameters.h"
#include "prompt.h"
#include "shape.h"

struct request {
    struct fields f;
    struct params p;
    struct prompt prompt;
    struct tft_chat_tools *tools; /* NULL: none. The owner of the jobs closes the tools after the
                                     jobs */
    enum tft_chat_choice choice;
    const char *only; /* the tool that must be called; NULL: any */
    bool one_call;
    struct shape *shape; /* of all jobs; NULL: none yet */
    bool or_form;        /* as job->or_form */
};

/* A request to an API with the body of the exchange, after parameters_check; false after a reply.
   */
bool request_begin(struct request *r, struct exchange *x, enum api api);

/* Frees the request's parts except the tools. */
void request_end(struct request *r);

/* Reads `tools`, `tool_choice` and `parallel_tool_calls`. */
void request_tools(struct request *r, const struct served *s);

/* Makes n jobs; their form comes from `response_format`, `json_schema`, `grammar` or the tools. The
   owner sets take and user. plain: the prompt is not a conversation. Returns false, without jobs,
   after a reply with the error of the request. */
bool request_jobs(struct request *r, struct exchange *x, bool plain, struct job **jobs, size_t n);

/* Gives jobs[n] to the engine; false after a reply that too many wait. */
bool request_start(struct exchange *x, struct job **jobs, size_t n);

/* Says in the reply what ended the answer, as job->ended_by. */
void reply_stop(json_t *reply, const char *ended_by);

/* Says in the reply how many messages the prompt lacks. */
void reply_dropped(json_t *reply, size_t n);

/* The error of a job that failed or was cancelled. */
void reply_failure(struct exchange *x, const struct job *j);

/* Gives the body the member `to`, which the client names `from`, as errors then do, if the value is
   there; fails if the body has both. */
void request_rename(struct fields *f, const char *to, const char *from, json_t *value);

/* Fails, with status 501: the server lacks what the request asks for. */
void request_lacks(struct fields *f, const char *fmt, ...) CLI_PRINTF(2, 3);

/* Errors of requests: the one in f; a prompt of n tokens, more than `room`; too many waiting. */
void request_fail(struct exchange *x, const struct fields *f);
void request_too_long(struct exchange *x, size_t n, size_t room);
void request_too_many(struct exchange *x);

#endif
