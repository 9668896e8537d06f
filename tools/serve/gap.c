#include "gap.h"

#include <stdlib.h>

#include "aside.h"

/* The ids so far, [room]. */
struct ids {
    const struct tft_model *m;
    int32_t *p;
    size_t n, room;
    enum tft_status status; /* the first error */
};

static void add_text(struct ids *ids, const struct cli_text *text, unsigned flags)
{
    size_t n = 0;
    if (ids->status == TFT_OK)
        ids->status = tft_tokenize(ids->m, text->n ? text->p : "", text->n, flags, ids->p + ids->n,
                                   ids->room - ids->n, &n);
    ids->n += ids->status == TFT_OK ? n : 0;
}

static void add_part(struct ids *ids, enum tft_fim part)
{
    if (ids->status == TFT_OK)
        ids->p[ids->n++] = tft_token_fim(ids->m, part);
}

/* The text after the gap is no beginning: it gets no space before its first word. */
void prompt_gap(struct prompt *p, const struct served *s, struct fields *f,
                const struct cli_text *before, const struct cli_text *after)
{
    static const struct cli_text none = {0};
    struct ids ids = {.m = s->m,
                      .room = cli_most_tokens(0) + cli_most_tokens(before->n) +
                              cli_most_tokens(after->n) + TFT_FIM_MIDDLE + 1};
    *p = (struct prompt){0};
    for (int part = TFT_FIM_PREFIX; part <= TFT_FIM_MIDDLE; part++)
        if (tft_token_fim(s->m, (enum tft_fim)part) < 0)
            fields_fail(f, "the model has no tokens for a text with a gap (fill-in-the-middle)");
    if (f->failed)
        return;
    p->ids = ids.p = malloc(ids.room * sizeof *ids.p);
    ids.status = ids.p ? TFT_OK : TFT_ERR_NOMEM;
    aside_begin();
    add_text(&ids, &none, TFT_ADD_BOS);
    add_part(&ids, TFT_FIM_PREFIX);
    add_text(&ids, before, 0);
    add_part(&ids, TFT_FIM_SUFFIX);
    add_text(&ids, after, TFT_CONTINUE);
    add_part(&ids, TFT_FIM_MIDDLE);
    aside_end();
    p->n = ids.n;
    if (ids.status == TFT_OK)
        prompt_hold(p, s);
    else
        fields_fail(f, "the prompt cannot be tokenized: %s", tft_status_text(ids.status));
}
