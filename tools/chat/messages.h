/* The messages of a conversation: optionally a system message, then turns. A turn is a message of
   the user and all messages up to the user's next: perhaps calls of tools, each with its result,
   and then the answer. */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "tools/cli/template.h"

/* Starts from all zero. */
struct messages {
    struct template_message *p; /* [n] */
    size_t n, room;
};

void messages_free(struct messages *m);

/* Adds a message at the end, or replaces the system message. Returns false if memory is short. */
bool messages_add(struct messages *m, enum template_role role, const char *p, size_t n);
bool messages_set_system(struct messages *m, const char *p, size_t n);

/* Adds the result of the call that the last message makes; as messages_add. */
bool messages_add_result(struct messages *m, const char *p, size_t n);

/* The system message, or NULL. */
const struct cli_text *messages_system(const struct messages *m);

/* The index of the user's message that begins the first turn; the last turn; the turn after the one
   at `turn`. m->n: no such message. */
size_t messages_first(const struct messages *m);
size_t messages_last(const struct messages *m);
size_t messages_next(const struct messages *m, size_t turn);

/* Whether there are only whole turns; whether a message of this role may come next. */
bool messages_whole(const struct messages *m);
bool messages_takes(const struct messages *m, enum template_role role);

/* Removes the messages [from, end). */
void messages_drop(struct messages *m, size_t from, size_t end);

/* Moves the messages from `from` on to *out, which is empty; and back to the end. Both return false
   if memory is short; nothing has moved then. */
bool messages_cut(struct messages *m, size_t from, struct messages *out);
bool messages_append(struct messages *m, struct messages *more);

#endif
