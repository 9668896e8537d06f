#include "states.h"

#include <string.h>

static void layout_drafts(struct tft_states *s, struct tft_arena *a)
{
    float **draft = tft_arena_take(a, s->n_draft, sizeof(float *));
    for (uint32_t i = 0; i < s->n_draft; i++) {
        float *state = tft_arena_take(a, s->size, sizeof *state);
        if (draft)
            draft[i] = state;
    }
    s->draft = draft;
}

void tft_states_layout(struct tft_states *s, struct tft_arena *a, size_t size, uint32_t most,
                       uint32_t n_draft)
{
    *s = (struct tft_states){.size = size, .most = size ? most : 0, .n_draft = size ? n_draft : 0};
    if (!size)
        return;
    s->now = tft_arena_take(a, size, sizeof *s->now);
    s->undo = tft_arena_take(a, size, sizeof *s->undo);
    struct tft_checkpoint *checkpoint = tft_arena_take(a, most, sizeof *checkpoint);
    for (uint32_t i = 0; i < most; i++) {
        float *state = tft_arena_take(a, size, sizeof *state);
        if (checkpoint)
            checkpoint[i] = (struct tft_checkpoint){.state = state};
    }
    s->checkpoint = checkpoint;
    layout_drafts(s, a);
}

static void copy(const struct tft_states *s, float *to, const float *from)
{
    memcpy(to, from, s->size * sizeof *to);
}

void tft_states_reset(struct tft_states *s)
{
    s->n = 0;
    if (s->first)
        copy(s, s->now, s->first);
    else if (s->size)
        memset(s->now, 0, s->size * sizeof *s->now);
}

void tft_states_begin(struct tft_states *s)
{
    if (s->size)
        copy(s, s->undo, s->now);
}

void tft_states_undo(struct tft_states *s)
{
    if (s->size)
        copy(s, s->now, s->undo);
}

void tft_states_accept(struct tft_states *s)
{
    if (!s->size)
        return;
    float *was = s->now;
    s->now = s->draft[0];
    memmove(s->draft, s->draft + 1, (s->n_draft - 1) * sizeof *s->draft);
    s->draft[s->n_draft - 1] = was;
}

/* Frees a checkpoint: moves it after the used ones. */
static void drop(struct tft_states *s, uint32_t which)
{
    struct tft_checkpoint free = s->checkpoint[which];
    memmove(s->checkpoint + which, s->checkpoint + which + 1,
            (s->n - 1 - which) * sizeof *s->checkpoint);
    s->checkpoint[--s->n] = free;
}

/* Frees a checkpoint when all are in use: the one with the closest neighbours, and of several such
   ones the oldest. The newest stays. */
static void drop_one(struct tft_states *s)
{
    uint32_t least = UINT32_MAX, which = 0;
    for (uint32_t i = 0; i + 1 < s->n; i++) {
        uint32_t before = i ? s->checkpoint[i - 1].pos : 0, gap = s->checkpoint[i + 1].pos - before;
        if (gap < least) {
            least = gap;
            which = i;
        }
    }
    drop(s, which);
}

void tft_states_drop_oldest(struct tft_states *s)
{
    drop(s, 0);
}

void tft_states_keep(struct tft_states *s, uint32_t pos)
{
    if (!s->most || !pos || tft_states_before(s, pos) == pos)
        return;
    if (s->n == s->most)
        drop_one(s);
    s->checkpoint[s->n].pos = pos;
    copy(s, s->checkpoint[s->n++].state, s->now);
}

void tft_states_step(struct tft_states *s, uint32_t pos)
{
    if (pos - tft_states_before(s, pos) >= TFT_CHECKPOINT_EACH)
        tft_states_keep(s, pos);
}

static const struct tft_checkpoint *newest(const struct tft_states *s, uint32_t pos)
{
    const struct tft_checkpoint *found = NULL;
    for (uint32_t i = 0; i < s->n && s->checkpoint[i].pos <= pos; i++)
        found = &s->checkpoint[i];
    return found;
}

uint32_t tft_states_before(const struct tft_states *s, uint32_t pos)
{
    const struct tft_checkpoint *c = newest(s, pos);
    return c ? c->pos : 0;
}

void tft_states_back(struct tft_states *s, uint32_t pos)
{
    const struct tft_checkpoint *c = newest(s, pos);
    if (!c) {
        tft_states_reset(s);
        return;
    }
    copy(s, s->now, c->state);
    s->n = (uint32_t)(c - s->checkpoint) + 1;
}

void tft_states_forget(struct tft_states *s)
{
    s->n = 0;
}
