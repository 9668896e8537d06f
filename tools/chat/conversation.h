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
    bool in_thought;  /* it began behind <think> */
    const char *stop; /* "end", "length", "context", "interrupt" */
    uint32_t n_tokens;
    double seconds;          /* of generating */
    size_t n_prompt, n_held; /* tokens of the prompt, and those that the session had already */
    double prompt_seconds;   /* of computing the others */
};

struct conversation {
    const struct tft_model *m;
    const struct template_format *format;
    struct tft_sampler sampler;
    bool no_think;     /* the variable enable_thinking is false */
    uint32_t n_tokens; /* most tokens of an answer; 0: no limit */
    /* An answer comes; in_thought: the template has written <think> already. NULL: nobody asks. */
    void (*begin)(bool in_thought);
    /* Prints a part of an answer; returns false, with errno, if it cannot be printed. NULL: nothing
       is printed. */
    bool (*print)(const char *p, size_t n);

    struct form form; /* of each answer */
    struct tft_session *s;
    size_t bytes;                     /* that the session takes */
    const char *prefix;               /* of the session; NULL: the model's own */
    struct conversation_answer last;  /* what was generated last; stop is NULL before that */
    struct template_message *message; /* [n] the system message, if there is one; then the user's
                                         messages and the answers in turn */
    size_t n, room;
};

/* The name that --prefix gives to something other than the model's own prefix, or NULL. */
const char *conversation_named_prefix(void);

/* Opens the form and the session of a conversation whose first fields are set. The system message
   is `system`, NULL for none, or that of the prefix which --prefix names. path: of the model.
   Returns CLI_OK, or CLI_FAILED after an error message. The caller closes the
   conversation in either case. */
int conversation_open(struct conversation *c, const char *system, const char *path);
void conversation_close(struct conversation *c);

/* Takes a message of the user, and answers it. Ctrl-C ends the answer. If the answer has no text,
   the conversation is as if the message had not been sent. c->last tells about the answer. Returns
   CLI_OK, or CLI_FAILED after an error message. */
int conversation_say(struct conversation *c, const char *p, size_t n);

/* What follows rewinds the session to what it shares with the messages that are left. Returns
   CLI_OK, or CLI_FAILED after an error message. */

/* Replaces the last answer by another one, which the sampler goes on to draw. An answer without
   text replaces nothing. */
int conversation_retry(struct conversation *c);

/* Removes the last message of the user and its answer. */
int conversation_undo(struct conversation *c);

/* Removes all messages but the system message. */
int conversation_clear(struct conversation *c);

/* Replaces the system message; the other messages stay. If the template ignores it or refuses it,
   that is an error, and nothing changes. */
int conversation_set_system(struct conversation *c, const char *system);

/* The system message, or NULL. */
const struct cli_text *conversation_system(const struct conversation *c);

#endif
