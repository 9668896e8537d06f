/*
 * The messages of a conversation, and the session that has their tokens. Before each answer all
 * messages are turned into tokens again, and the session computes only the tokens that it does not
 * hold yet. When the context is full, the oldest turns are dropped, but never the system message.
 */
#ifndef CONTEXT_H
#define CONTEXT_H

#include "messages.h"

struct context {
    const struct tft_model *m;
    const struct template_format *format;
    struct template_options o;

    struct messages said; /* the model continues the last message, the answer */
    struct tft_session *s, *draft; /* draft: of the draft model, or NULL */
    size_t bytes;                  /* memory of the session */
    const char *prefix;            /* the session's prefix; NULL: the model's own */
};

/* The value of --prefix, if it names a prefix other than the model's own; else NULL. */
const char *context_named_prefix(void);

/* Opens the session of a context. The caller sets the fields up to `o`, and the others to zero. The
   system message is `system`, or the one of the prefix that --prefix names; NULL: none. path: the
   model's, for messages. Returns CLI_OK, or CLI_FAILED after an error message. The caller closes
   the context in either case. */
int context_open(struct context *x, const char *system, const char *path);
void context_close(struct context *x);

/* Opens the session of a context with messages, of another model. Likewise. */
int context_reopen(struct context *x);

/* Tokens up to the point at which the answer continues, without the prefix's tokens. Starts from
   all zero; the owner frees ids. */
struct context_prompt {
    int32_t *ids; /* [n] */
    size_t n;
    bool text_goes_on; /* as tft_chat_tokenize */
    bool in_thought;   /* the prompt ends in <think> */
};

/* The tokens of all messages. Returns false after an error message; p->ids is then NULL. */
bool context_prompt(struct context *x, struct context_prompt *p);

/* The same. If the tokens fill the session, drops the oldest turns; if the last turn alone would
   fill it, that is an error, and nothing is dropped. */
bool context_fit(struct context *x, struct context_prompt *p);

/* Drops the oldest turn, then further ones until a quarter of the session is free. *p is the prompt
   of the remaining messages. in_line: an answer has begun on the terminal's line. Returns false if
   nothing could be dropped. p->ids is NULL after an error message. */
bool context_drop_oldest(struct context *x, struct context_prompt *p, bool in_line);

/* The text of the answer. */
struct cli_text *context_answer(struct context *x);

/* Rewinds the session to the tokens that it shares with the messages. The next answer would do this
   too, but until then the removed tokens would count as part of the context. Returns CLI_OK, or
   CLI_FAILED after an error message. */
int context_rewind(struct context *x);

/* Replaces the system message; the other messages stay. If the template ignores or rejects a system
   message, that is an error, and nothing changes. */
int context_set_system(struct context *x, const char *system);

#endif
