/*
 * An answer that a client waits for. The clients' thread makes a job and gives it to the engine
 * (engine.h). The engine's thread computes it and hands back items: pieces of text, of thoughts, of
 * calls, and the end. After the end only the clients' thread has the job, and frees it.
 */
#ifndef SERVE_JOB_H
#define SERVE_JOB_H

#include <stdatomic.h>

#include "bias.h"
#include "chat/tuffet_chat.h"
#include "loras.h"
#include "steps.h"
#include "texts.h"
#include "tools/cli/form.h"

enum item_kind {
    ITEM_TEXT,      /* p[n]: text of the answer, whole characters */
    ITEM_THOUGHT,   /* p[n]: text between <think> and </think> */
    ITEM_CALL,      /* call `index` begins, of the tool p[n] */
    ITEM_ARGUMENTS, /* p[n]: a piece of its arguments; together they are a JSON object */
    ITEM_TOKEN,     /* p: struct tft_choice[1 + index]: the chosen token, and the most likely ones
                       in its place; comes before its text, if job->logprobs asks for it */
    ITEM_VECTOR,    /* p: float[n / 4], the vector of text `index` of job->texts */
    ITEM_PROMPT,    /* `index` tokens of the prompt are in the session */
    ITEM_END,       /* the job's results are final */
};

struct item {
    struct item *next;
    struct job *job;
    enum item_kind kind;
    size_t index, n;
    char p[]; /* [n] and a NUL */
};

enum { JOB_STOPS = 16, JOB_LOGPROBS = 20 };

/* Takes an item; false: out of memory. */
struct job;
typedef bool job_put(void *user, struct job *j, enum item_kind kind, size_t index, const char *p,
                     size_t n);

/* State of turning text into items (answer.h); the engine's. */
struct answer {
    job_put *put;
    void *user;
    struct tft_text text;
    struct tft_chat_answer *calls; /* reads calls; NULL: no tools */
    enum {
        ANSWER_START,   /* only white space has come, and <think> may follow */
        ANSWER_THOUGHT, /* </think> has not come yet */
        ANSWER_BEHIND,  /* after </think>: white space does not count */
        ANSWER_TEXT,
    } at;
    struct cli_text tag;  /* text that may be the beginning of the next tag */
    struct cli_text held; /* text that may be the beginning of a stop */
    bool any, called, failed;
    const char *stopped; /* the text of job->stop that ended the answer, or NULL */
};

struct job {
    /* The request; the job owns all these pointers. */
    int32_t *ids; /* [n_ids] the prompt, without the tokens that the model's prefix holds */
    size_t n_ids;
    bool text_goes_on; /* as tft_chat_tokenize */
    bool in_thought;   /* the prompt ends in <think> */
    bool plain;        /* <think> is text like any other */
    bool lead;         /* a space before the answer belongs to the template */
    bool progress;     /* ITEM_PROMPT is wanted */
    int logprobs;      /* ITEM_TOKEN is wanted, with this many of the most likely tokens; -1: no */
    bool of_prompt;    /* and first for each token of the prompt but the first */
    struct tft_sampler sampler;
    struct steps steps; /* sampler.more is in it */
    struct bias bias;
    struct loras loras;
    bool stop_loops; /* a loop ends the answer */
    int64_t most; /* tokens; -1: as many as there is room for */
    bool is_limit;    /* `most` is the program's */
    uint64_t time;    /* ns for the prompt and the answer; 0: any */
    struct shape *shape; /* the form that is wanted; NULL: any text. One owner of it */
    bool thinks;         /* the answer may begin with thoughts, before its form */
    bool thinks_on;      /* the prompt ends within thoughts that the answer continues */
    struct form form;
    const struct tft_chat_tools *tools; /* the caller's; NULL: no calls to look for */
    bool calls_only;                    /* text of the answer is the beginning of a call */
    bool or_form;                       /* an answer without calls is text of the form */
    char *stop[JOB_STOPS + 1];          /* texts at which the answer ends; NULL ends the list */
    uint64_t client;                    /* clients share the engine equally */
    struct texts *texts;                /* embeddings are wanted instead of an answer; or NULL */

    atomic_bool cancelled; /* engine_cancel */

    /* Results, to be read after ITEM_END. */
    const char *finish; /* "stop", "length", "tool_calls", "cancelled"; NULL: see error */
    const char *ended_by; /* if finish is "length" and no member of the request says so: "loop",
                             "limit" (-n) or "time" (--time-limit); else NULL */
    char error[256];
    bool refused; /* the error is one of the request, in its form */
    size_t n_cached, n_tokens; /* cached tokens of the prompt; tokens of the answer */
    double prompt_seconds, seconds;

    /* The engine's. */
    struct answer answer;
    struct loops loops;
    uint64_t start, deadline; /* ns; 0: none */
    struct slot *slot; /* while it has one */
    struct item *end;  /* ITEM_END, allocated with the job: it comes even if memory is short */
    struct job *next;

    /* Receives the items, in the clients' thread. */
    void (*take)(void *user, const struct item *item);
    void *user;
};

struct job *job_new(const struct tft_model *m); /* NULL: out of memory */
void job_free(struct job *j);                   /* j may be NULL */

#endif
