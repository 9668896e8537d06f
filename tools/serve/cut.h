/* The places at which a conversation that outgrows the context may lose its oldest messages. */
#ifndef SERVE_CUT_H
#define SERVE_CUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The messages [head, turn) and [from, to) are dropped. All zero: no message is dropped. */
struct cut {
    size_t head, turn, from, to;
};

struct cuts {
    struct cut *p; /* [n] each drops more than the one before */
    size_t n;
};

/* Finds all cuts of messages in OpenAI's form; the caller frees c->p. System messages at the start
   stay. First whole turns are dropped: a turn begins with a message of the user. Then the calls of
   the last turn with their results, but no message of a user and not the last call. No cut
   separates a call from its result. Returns false if memory is short. */
bool cuts_find(struct cuts *c, const json_t *messages);

/* Adapts the cuts to `first` new messages before all others, which stay. */
void cuts_shift(struct cuts *c, size_t first);

/* The messages that stay, in a new list; NULL: out of memory. */
json_t *cut_apply(const struct cut *c, const json_t *messages);

/* Number of dropped messages; and the place, before the cut, of message `at` of the rest. */
size_t cut_size(const struct cut *c);
size_t cut_place(const struct cut *c, size_t at);

#endif
