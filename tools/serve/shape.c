#define _POSIX_C_SOURCE 200809L
#include "shape.h"

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

static bool fail(struct job *j, const struct shape *s, enum tft_status status, const char *why)
{
    j->refused = status != TFT_ERR_NOMEM;
    snprintf(j->error, sizeof j->error, "%s: %s", s->where, why);
    return false;
}

bool shape_begin(struct job *j, const struct tft_lexicon *lx)
{
    struct shape *s = j->shape;
    struct form *form = &j->form;
    struct tft_error err;
    if (!s->tried)
        s->status = tft_grammar_open(&s->grammar, lx, TFT_GBNF, s->gbnf, s->n, &s->err);
    s->tried = true;
    if (s->status != TFT_OK)
        return fail(j, s, s->status, s->err.msg);
    form->grammar = s->grammar;
    form->borrowed = true;
    enum tft_status status = tft_grammar_begin(&form->fresh, s->grammar, &err);
    status = status == TFT_OK ? tft_grammar_begin(&form->now, s->grammar, &err) : status;
    if (status != TFT_OK)
        return fail(j, s, status, err.msg);
    if (form_begin(form, j->ids, j->n_ids, j->thinks) != CLI_OK)
        return fail(j, s, TFT_ERR_NOMEM, "out of memory");
    if (j->thinks_on && form->think_end >= 0)
        form->phase = FORM_THINKING;
    return true;
}
