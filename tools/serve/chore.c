#define _POSIX_C_SOURCE 200809L
#include "chore.h"

#include <stdlib.h>
#include <sys/stat.h>

bool chore_is_ready(const struct chore *c, const struct slot *slots, size_t n_slots)
{
    return c->kind == CHORE_LIST || c->slot >= n_slots || !slots[c->slot].job;
}

static void list(struct chore *c, const struct slot *slots, size_t n_slots)
{
    c->slots = calloc(n_slots, sizeof *c->slots);
    c->n_slots = c->slots ? n_slots : 0;
    c->status = c->slots ? TFT_OK : TFT_ERR_NOMEM;
    for (size_t i = 0; i < c->n_slots; i++) {
        c->slots[i].busy = slots[i].job;
        c->slots[i].n_tokens = slots[i].s ? tft_pos(slots[i].s) : 0;
    }
}

static size_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void save(struct chore *c, struct slot *s)
{
    c->n_tokens = tft_pos(s->s);
    c->status = tft_session_save(s->s, NULL, c->path, &c->err);
    c->bytes = file_size(c->path);
}

static void restore(struct chore *c, struct slot *s)
{
    c->status = tft_session_load(s->s, NULL, c->path, &c->err);
    c->n_tokens = tft_pos(s->s);
    c->bytes = file_size(c->path);
}

static void erase(struct chore *c, struct slot *s)
{
    c->n_tokens = tft_pos(s->s);
    c->status = tft_rewind(s->s, 0);
}

void chore_do(struct chore *c, struct slot *slots, size_t n_slots)
{
    uint64_t start = cli_ns();
    if (c->kind == CHORE_LIST)
        list(c, slots, n_slots);
    else if (c->kind == CHORE_SAVE)
        save(c, &slots[c->slot]);
    else if (c->kind == CHORE_RESTORE)
        restore(c, &slots[c->slot]);
    else
        erase(c, &slots[c->slot]);
    c->seconds = (double)(cli_ns() - start) / 1e9;
}
