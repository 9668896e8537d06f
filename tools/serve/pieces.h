/* An answer as a list of thoughts, texts and calls in their order. */
#ifndef SERVE_PIECES_H
#define SERVE_PIECES_H

#include "job.h"
#include "naming.h"

struct piece {
    enum item_kind kind;  /* ITEM_THOUGHT, ITEM_TEXT or ITEM_CALL */
    char *name;           /* of the tool; NULL: no call */
    char call[NAME_ROOM]; /* the name of the call */
    char id[NAME_ROOM];   /* the API's; empty until it gives one */
    struct cli_text text; /* a thought, a text or arguments */
};

struct pieces {
    struct piece *p; /* [n] */
    size_t n;
};

/* Adds an item of a job. Returns its piece, the last one; *begins: the item begins it. NULL: the
   item is none of an answer, or out of memory (lost.h). */
struct piece *pieces_take(struct pieces *all, const struct item *item, bool *begins);

void pieces_free(struct pieces *all);

#endif
