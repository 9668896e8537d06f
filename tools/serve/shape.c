#define _POSIX_C_SOURCE 200809L
#include "shape.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    atomic_uint owners;
    const char *where;
    struct tft_grammar *grammar;
    enum tft_status status;
    struct tft_error err; /* of the grammar */
    bool tried;
    size_t n;
    char gbnf[]; /* [n] */
};

struct shape *shape_new(const char *where, const char *p, size_t n)
{
    struct shape *s = calloc(1, sizeof *s + n);
    if (!s)
        return NULL;
    atomic_init(&s->owners, 1);
    s->where = where;
    s->n = n;
    memcpy(s->gbnf, p, n);
    return s;
}

struct shape *shape_share(struct shape *s)
{
    atomic_fetch_add(&s->owners, 1);
    return s;
}

void shape_drop(struct shape *s)
{
    if (!s || atomic_fetch_sub(&s->owners, 1) > 1)
        return;
    tft_grammar_close(s->grammar);
    free(s);
}

enum tft_status shape_give(struct shape *s, struct form *form, const struct tft_lexicon *lx,
                           char *why, size_t room)
{
    struct tft_error err;
    if (!s->tried)
        s->status = tft_grammar_open(&s->grammar, lx, TFT_GBNF, s->gbnf, s->n, &s->err);
    s->tried = true;
    enum tft_status status = s->status;
    err = s->err;
    form->grammar = s->grammar;
    form->borrowed = true;
    if (status == TFT_OK)
        status = tft_grammar_begin(&form->fresh, s->grammar, &err);
    if (status == TFT_OK)
        status = tft_grammar_begin(&form->now, s->grammar, &err);
    if (status != TFT_OK)
        snprintf(why, room, "%s: %s", s->where, err.msg);
    return status;
}
