#include "kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kept_response *find(struct kept *k, const char *id)
{
    for (struct kept_response *r = k->all; r < k->all + k->n; r++)
        if (strcmp(r->id, id) == 0)
            return r;
    return NULL;
}

/* The last one takes its place. */
static void drop(struct kept *k, struct kept_response *r)
{
    free(r->reply);
    free(r->messages);
    k->bytes -= r->bytes;
    *r = k->all[--k->n];
}

static struct kept_response *least_used(struct kept *k)
{
    struct kept_response *least = k->all;
    for (struct kept_response *r = k->all; r < k->all + k->n; r++)
        if (r->used < least->used)
            least = r;
    return least;
}

void kept_put(struct kept *k, const char *id, char *reply, char *messages)
{
    struct kept_response new = {.reply = reply,
                                .messages = messages,
                                .bytes = strlen(reply) + strlen(messages),
                                .used = ++k->uses};
    snprintf(new.id, sizeof new.id, "%s", id);
    if (new.bytes > KEPT_BYTES) {
        free(reply);
        free(messages);
        return;
    }
    while (k->n == KEPT_MOST || k->bytes > KEPT_BYTES - new.bytes)
        drop(k, least_used(k));
    k->all[k->n++] = new;
    k->bytes += new.bytes;
}

const struct kept_response *kept_find(struct kept *k, const char *id)
{
    struct kept_response *r = find(k, id);
    if (r)
        r->used = ++k->uses;
    return r;
}

bool kept_drop(struct kept *k, const char *id)
{
    struct kept_response *r = find(k, id);
    if (r)
        drop(k, r);
    return r;
}

void kept_free(struct kept *k)
{
    while (k->n)
        drop(k, k->all);
}
