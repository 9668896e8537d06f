/* The responses that /v1/responses keeps in memory: the least recently used go first. */
#ifndef SERVE_KEPT_H
#define SERVE_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "naming.h"

enum {
    KEPT_MOST = 256,
    KEPT_BYTES = 16 << 20, /* of all texts */
};

struct kept_response {
    char id[NAME_ROOM];
    char *reply, *messages; /* JSON: the response; its conversation, with its answer at the end */
    size_t bytes;
    uint64_t used;
};

/* All zero: nothing is kept. */
struct kept {
    struct kept_response all[KEPT_MOST];
    size_t n, bytes;
    uint64_t uses;
};

/* Keeps a response, and takes the texts. One of more than KEPT_BYTES is not kept. */
void kept_put(struct kept *k, const char *id, char *reply, char *messages);

/* NULL: it was never kept, or has gone. Valid until the next call of another function. */
const struct kept_response *kept_find(struct kept *k, const char *id);

bool kept_drop(struct kept *k, const char *id); /* false: as kept_find */

void kept_free(struct kept *k);

#endif
