/* The replies of OpenAI's API: from items of jobs to JSON, whole or as a stream. */
#ifndef SERVE_OPENAI_REPLY_H
#define SERVE_OPENAI_REPLY_H

#include "server.h"

enum { CALL_CHOICES = 8 };

struct choice {
    struct job *job; /* NULL: it has ended, and is freed */
    struct cli_text text, thought;
    json_t *calls;    /* [] of whole calls, for a reply that is not a stream */
    json_t *logprobs; /* [] of what has not been sent yet */
    size_t offset;    /* bytes of text before those, for completions */
    bool begun;
    const char *finish;
};

/* A request under way, and what its jobs have brought. */
struct call {
    struct exchange *x; /* NULL: the reply is complete, but jobs have not ended */
    struct server *server;
    bool chat, stream, usage, progress;
    char id[40];
    int64_t created;
    struct choice choice[CALL_CHOICES];
    size_t n, n_left;          /* choices; those that have not ended */
    size_t n_prompt, n_held;   /* tokens of the prompt; of them in the model's prefix */
    size_t n_cached, n_tokens; /* of the choices that have ended */
    double prompt_seconds, seconds;
    char *echo;                   /* completions: the text before the answer, or NULL */
    struct tft_chat_tools *tools; /* NULL: none */
    uint64_t written;             /* when something was last sent, ns */
};

/* Frees a call whose jobs have ended, or were never given to the engine. */
void call_free(struct call *c);

/* `take` of each job; user: the call. */
void call_take(void *user, const struct item *item);

/* `gone` of the exchange; user: the call. */
void call_gone(void *user);

/* A random name such as "chatcmpl-0123456789abcdef". */
void call_name(char *out, size_t size, const char *before, int digits);

#endif
