/*
 * A conversation: its messages, and the session that has their tokens. Before each answer all
 * messages are turned into tokens again, and the session computes only what it does not hold yet.
 * When the context is full, the oldest messages are dropped, two at a time, but never the system
 * message.
 */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include "tools/chat/template.h"
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
    const struct tft_model *m;
    const struct template_format *format;
    struct tft_sampler sampler;
    bool no_think;     /* the variable enable_thinking is false */
    uint32_t n_tokens; /* most tokens of an answer; 0: no limit */
    /* Called before an answer. in_thought: the template has written <think> already. NULL: not
       called. */
    void (*begin)(bool in_thought);
    /* Prints a part of an answer. Returns false, with errno, if that failed. NULL: nothing is
       printed. */
    bool (*print)(const char *p, size_t n);

    struct form form; /* the form of each answer */
    struct tft_session *s;
    size_t bytes;                     /* memory of the session */
    const char *prefix;               /* the session's prefix; NULL: the model's own */
    struct conversation_answer last;  /* the last answer; stop is NULL before the first */
    struct template_message *message; /* [n] the system message, if there is one; then the user's
                                         messages and the answers in turn */
    size_t n, room;
};

/* The value of --prefix, if it names a prefix other than the model's own; else NULL. */
const char *conversation_named_prefix(void);

/* Opens the form and the session of a conversation whose fields up to `print` are set. The system
   message is `system`, or the one of the prefix that --prefix names; NULL: none. path: the model's,
   for messages. Returns CLI_OK, or CLI_FAILED after an error message. The caller closes the
   conversation in either case. */
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

/* Replaces the system message; the other messages stay. If the template ignores or rejects a system
   message, that is an error, and nothing changes. */
int conversation_set_system(struct conversation *c, const char *system);

/* The system message, or NULL. */
const struct cli_text *conversation_system(const struct conversation *c);

#endif
