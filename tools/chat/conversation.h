/* A conversation: messages of the user, and the model's answers, which may call tools. */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include "context.h"
#include "reader.h"
#include "tools.h"
#include "tools/cli/form.h"

struct conversation_answer {
    struct cli_text text; /* owned by the conversation, valid until it changes */
    struct tft_text state;
    bool in_thought;  /* the answer began after <think> */
    const char *stop; /* "end", "length", "loop", "context", "interrupt" */
    uint32_t n_tokens;
    double seconds;          /* spent on generating */
    size_t n_prompt, n_held; /* tokens of the prompt; how many the session need not compute */
    double prompt_seconds;   /* spent on computing the other tokens */
};

/* Tools in a conversation. */
struct conversation_tools {
    const struct tools *list;    /* NULL: none */
    enum tft_chat_choice choice; /* of the first answer to a message */
    const char *only;            /* the tool that it must call; NULL: any */
    uint32_t most;               /* calls for a message */
    /* Makes a call. *out, which is empty, becomes the result; the conversation frees it. Returns
       CLI_OK, or CLI_FAILED after an error message. */
    int (*call)(void *user, const struct template_message *call, struct cli_text *out);
    void *user;
};

struct conversation {
    struct context x; /* its fields up to `o` */
    /* Of /model, or NULL: the model, which the caller owns, and which /model closes and replaces;
       makes the path of a model that is named otherwise, as pull_operand. */
    struct tft_model *model;
    int (*find_model)(const char **path);
    struct conversation_tools tools;
    struct tft_sampler sampler;
    uint32_t min_tokens;  /* sampler.min_tokens at the beginning of an answer */
    int32_t n_tokens;     /* most tokens for a message, with its calls; -1: no limit */
    int32_t think_budget; /* most tokens of thoughts of an answer; -1: no limit */
    bool stop_loops;      /* an answer that repeats itself ends */
    /* Called before an answer. in_thought: the template has written <think> already. NULL: not
       called. */
    void (*begin)(bool in_thought);
    /* Prints a part of an answer. Returns false, with errno, if that failed. NULL: nothing is
       printed. */
    bool (*print)(const char *p, size_t n);
    /* Called after an answer that calls a tool. Returns false as print. NULL: not called. */
    bool (*end)(void);

    struct cli_text attached; /* text that comes before the next message of the user */
    struct form form;                /* the form of each answer */
    struct loops loops;              /* of the answer */
    struct reader reader;            /* of an answer, if there are tools */
    struct cli_text shown;           /* the printed part of the answer */
    int calls;                       /* the choice of the form; -1: the form has no calls */
    struct conversation_answer last; /* the last answer; stop is NULL before the first */
};

/* Opens the form and the context of a conversation. The caller sets the fields up to `end`.
   Arguments and result: as context_open. The caller closes the conversation in either case. */
int conversation_open(struct conversation *c, const char *system, const char *path);
void conversation_close(struct conversation *c);

/* Adds a message of the user, with c->attached before it, and answers it.
   While an answer calls a tool, the call is made, and
   the model answers again. Ctrl-C ends the answer. If the last answer stays empty, the turn is
   removed again. c->last is the last answer. Returns CLI_OK, or CLI_FAILED after an error
   message. */
int conversation_say(struct conversation *c, const char *p, size_t n);

/* The following functions rewind the session to the tokens that it shares with the remaining
   messages. They return CLI_OK, or CLI_FAILED after an error message. */

/* Replaces the answer of the last turn, with its calls, by another one, drawn with further random
   numbers. If the new answer is empty, the old one stays. */
int conversation_retry(struct conversation *c);

/* Removes the last message of the user and its answer. */
int conversation_undo(struct conversation *c);

/* Removes all messages but the system message, and c->attached. */
int conversation_clear(struct conversation *c);

#endif
