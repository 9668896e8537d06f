/* A conversation: messages of the user, and the model's answers. */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include "context.h"
#include "tools/cli/form.h"

struct conversation_answer {
    struct cli_text text; /* owned by the conversation, valid until it changes */
    struct tft_text state;
    bool in_thought;  /* the answer began behind <think> */
    const char *stop; /* "end", "length", "context", "interrupt" */
    uint32_t n_tokens;
    double seconds;          /* spent on generating */
    size_t n_prompt, n_held; /* tokens of the prompt; how many of them the session did not have to
                                compute */
    double prompt_seconds;   /* spent on computing the others */
};

struct conversation {
    struct context x; /* its fields up to `o` */
    struct tft_sampler sampler;
    uint32_t n_tokens; /* most tokens of an answer; 0: no limit */
    /* Called before an answer. in_thought: the template has written <think> already. NULL: not
       called. */
    void (*begin)(bool in_thought);
    /* Prints a part of an answer. Returns false, with errno, if that failed. NULL: nothing is
       printed. */
    bool (*print)(const char *p, size_t n);

    struct form form;                /* the form of each answer */
    struct conversation_answer last; /* the last answer; stop is NULL before the first */
};

/* Opens the form and the context of a conversation whose fields up to `print` are set. Arguments
   and result: as context_open. The caller closes the conversation in either case. */
int conversation_open(struct conversation *c, const char *system, const char *path);
void conversation_close(struct conversation *c);

/* Adds a message of the user, and answers it. Ctrl-C ends the answer. If the answer stays empty,
   the message is removed again. c->last has the answer. Returns CLI_OK, or CLI_FAILED after an
   error message. */
int conversation_say(struct conversation *c, const char *p, size_t n);

/* The following functions rewind the session to the tokens that it shares with the remaining
   messages. They return CLI_OK, or CLI_FAILED after an error message. */

/* Replaces the last answer by another one, for which the sampler draws further random numbers. If
   the new answer is empty, the old one stays. */
int conversation_retry(struct conversation *c);

/* Removes the last message of the user and its answer. */
int conversation_undo(struct conversation *c);

/* Removes all messages but the system message. */
int conversation_clear(struct conversation *c);

#endif
