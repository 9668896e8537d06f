/* An answer in progress, for the APIs with one job for a request: all but OpenAI's older ones. */
#ifndef SERVE_TALK_H
#define SERVE_TALK_H

#include "request.h"

struct talk;

/* How an API replies. */
struct talk_kind {
    /* Sends an item of a stream. With `keeps`, takes each item of any reply. */
    void (*part)(struct talk *t, const struct item *item);
    /* Sends the last part of a stream, or the whole reply, and ends it. */
    void (*end)(struct talk *t);
    /* Ends a stream with the error of the job; NULL: with the error of the dialect. */
    void (*fail)(struct talk *t);
    void (*drop)(void *own); /* frees talk->own; NULL: there is none */
    bool keeps;              /* `own` keeps the answer; streams also have ITEM_PROMPT */
};

struct talk {
    struct exchange *x;
    struct server *server;
    struct served *served;
    const struct talk_kind *kind;
    void *own; /* the kind's */
    struct job *job;
    struct tft_chat_tools *tools;
    const char *stream;            /* the type of a stream; NULL: the reply is whole */
    size_t n_prompt, n_held;       /* tokens of the prompt; how many the model's prefix has */
    struct cli_text text, thought; /* of the answer so far, unless the kind keeps it; likewise: */
    json_t *calls;                 /* []: {"name", "arguments": text} */
    json_t *tokens;                /* [] ids, if the job has ITEM_TOKEN */
};

/* Makes the job of a request, plain as for request_jobs, and gives it to the engine; or replies
   with an error. stream, kind, own: as above. */
void talk_begin(struct exchange *x, struct request *r, bool plain, const char *stream,
                const struct talk_kind *kind, void *own);

#endif
