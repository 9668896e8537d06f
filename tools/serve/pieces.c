#define _POSIX_C_SOURCE 200809L
#include "pieces.h"

#include <stdlib.h>
#include <string.h>

#include "lost.h"

void pieces_free(struct pieces *all)
{
    for (size_t i = 0; i < all->n; i++) {
        free(all->p[i].name);
        free(all->p[i].text.p);
    }
    free(all->p);
    *all = (struct pieces){0};
}

/* The kind of piece to which the item belongs. */
static enum item_kind kind_of(const struct item *item)
{
    return item->kind == ITEM_ARGUMENTS ? ITEM_CALL : item->kind;
}

static bool begins_piece(const struct pieces *all, const struct item *item)
{
    return item->kind == ITEM_CALL || !all->n || all->p[all->n - 1].kind != kind_of(item);
}

/* NULL: out of memory. */
static struct piece *begin(struct pieces *all, const struct item *item)
{
    struct piece *p = realloc(all->p, (all->n + 1) * sizeof *p);
    if (!p)
        return NULL;
    all->p = p;
    p += all->n;
    *p = (struct piece){.kind = kind_of(item)};
    if (item->kind == ITEM_CALL) {
        name_call(p->call);
        p->name = strdup(item->p);
        if (!p->name)
            return NULL;
    }
    all->n++;
    return p;
}

struct piece *pieces_take(struct pieces *all, const struct item *item, bool *begins)
{
    enum item_kind kind = kind_of(item);
    if (kind != ITEM_THOUGHT && kind != ITEM_TEXT && kind != ITEM_CALL)
        return NULL;
    *begins = begins_piece(all, item);
    struct piece *p = *begins ? begin(all, item) : all->p + all->n - 1;
    bool has_text = item->kind != ITEM_CALL;
    if (!p || (has_text && !cli_text_append(&p->text, item->p, item->n))) {
        lost_note();
        return NULL;
    }
    return p;
}
