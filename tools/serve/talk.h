/* An answer in progress for the APIs of Ollama and llama.cpp, which have one job for a request. */
#ifndef SERVE_TALK_H
#define SERVE_TALK_H

#include "request.h"

struct talk {
    struct exchange *x;
    struct server *server;
    struct job *job;
    struct tft_chat_tools *tools;
    const char *stream;            /* the type of a stream; NULL: the reply is whole */
    size_t n_prompt, n_held;       /* tokens of the prompt; how many the model's prefix has */
    struct cli_text text, thought; /* of the answer so far */
    json_t *calls;                 /* []: {"name", "arguments": text} */
    json_t *tokens;                /* [] ids, if the job has ITEM_TOKEN */
    /* Sends an item of a stream; the talk also keeps it. */
    void (*part)(struct talk *t, const struct item *item);
    /* Sends the last part of a stream, or the whole reply, and ends it. */
    void (*end)(struct talk *t);
};

/* Makes the job of a request, plain as for request_jobs, and gives it to the engine; or replies
   with an error. stream, part, end: as above. */
void talk_begin(struct exchange *x, struct request *r, bool plain, const char *stream,
                void (*part)(struct talk *t, const struct item *item),
                void (*end)(struct talk *t));

#endif
