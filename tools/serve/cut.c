#include "cut.h"

#include <stdlib.h>
#include <string.h>

static bool is_of(const json_t *messages, size_t i, const char *role)
{
    const char *is = json_string_value(json_object_get(json_array_get(messages, i), "role"));
    return is && strcmp(is, role) == 0;
}

/* Whether the message is neither the model's nor a tool's. */
static bool is_asked(const json_t *messages, size_t i)
{
    return is_of(messages, i, "user") || is_of(messages, i, "system");
}

/* Whether a turn begins at message i: with a user's message, perhaps after system messages. A
   result after these belongs to a call before them. */
static bool begins_turn(const json_t *messages, size_t i)
{
    bool user = false;
    if (is_asked(messages, i - 1))
        return false;
    for (; is_asked(messages, i); i++)
        user |= is_of(messages, i, "user");
    return user && !is_of(messages, i, "tool");
}

bool cuts_find(struct cuts *c, const json_t *messages)
{
    size_t n = json_array_size(messages), head = 0;
    *c = (struct cuts){.p = malloc((n + 1) * sizeof *c->p)};
    if (!c->p)
        return false;
    while (is_of(messages, head, "system"))
        head++;
    size_t turn = head;
    for (size_t i = head + 1; i < n; i++)
        if (begins_turn(messages, i)) {
            c->p[c->n++] = (struct cut){head, i, i, i};
            turn = i;
        }
    size_t from = turn;
    while (is_asked(messages, from))
        from++;
    for (size_t i = from + 1; from > turn && i < n && !is_of(messages, i, "user"); i++)
        if (is_of(messages, i, "assistant") && is_of(messages, i - 1, "tool"))
            c->p[c->n++] = (struct cut){head, turn, from, i};
    return true;
}

void cuts_shift(struct cuts *c, size_t first)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cut *k = &c->p[i];
        *k = (struct cut){k->head + first, k->turn + first, k->from + first, k->to + first};
    }
}

json_t *cut_apply(const struct cut *c, const json_t *messages)
{
    json_t *rest = json_array();
    for (size_t i = 0; i < json_array_size(messages); i++) {
        bool dropped = (i >= c->head && i < c->turn) || (i >= c->from && i < c->to);
        if (!dropped && json_array_append(rest, json_array_get(messages, i)) != 0) {
            json_decref(rest);
            return NULL;
        }
    }
    return rest;
}

size_t cut_size(const struct cut *c) { return c->turn - c->head + c->to - c->from; }

size_t cut_place(const struct cut *c, size_t at)
{
    at += at >= c->head ? c->turn - c->head : 0;
    return at + (at >= c->from ? c->to - c->from : 0);
}
