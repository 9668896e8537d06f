/* The replies of OpenAI's API: from items of jobs to JSON, whole or as a stream. */
#ifndef SERVE_OPENAI_REPLY_H
#define SERVE_OPENAI_REPLY_H

#include "naming.h"
#include "openai_logprobs.h"

enum { CALL_CHOICES = 64 };

struct choice {
    struct job *job;      /* NULL: the job has ended, and is freed */
    struct cli_text echo; /* completions: the text before the answer */
    struct cli_text text, thought;
    json_t *calls;            /* [] of whole calls, for a reply that is not a stream */
    struct logprobs logprobs; /* not sent yet */
    struct shown shown;       /* the text before these, for completions */
    size_t n_prompt, n_held;  /* tokens of the prompt; how many the model's prefix has */
    bool first;               /* of its prompt */
    bool begun;
    const char *finish;
    const char *ended_by; /* as job->ended_by */
};

/* A request in progress, and the results of its jobs. */
struct call {
    struct exchange *x;
    struct served *served;
    bool chat, stream, usage, progress;
    bool calls_only; /* as job->calls_only */
    char id[NAME_ROOM];
    int64_t created;
    struct choice choice[CALL_CHOICES];
    bool fails;                /* what is under way is cancelled */
    struct job *failed;        /* it has the reason; NULL: too much memory for log-probabilities */
    size_t n, n_left;          /* choices; choices that have not ended */
    size_t n_prompt, n_held;   /* of all prompts */
    size_t n_dropped;          /* as prompt->n_dropped */
    size_t n_cached, n_tokens; /* of the ended choices */
    double prompt_seconds, seconds;
    struct tft_chat_tools *tools; /* NULL: none */
    uint64_t written;             /* time of the last write, ns */
};

/* Frees a call after its jobs have ended, or if they were never given to the engine. */
void call_free(struct call *c);

/* `take` of each job; user: the call. */
void call_take(void *user, const struct item *item);

/* `gone` of the exchange; user: the call. */
void call_gone(void *user);

#endif
