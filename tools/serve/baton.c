#include "baton.h"

#include <stdbool.h>
#include <stddef.h>

void baton_begin(struct baton *b)
{
    *b = (struct baton){0};
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->given, NULL);
}

void baton_end(struct baton *b)
{
    pthread_cond_destroy(&b->given);
    pthread_mutex_destroy(&b->lock);
}

/* Where the engine stands that waits and has used the least time; of several, the first. */
static struct baton_turn **least(struct baton *b)
{
    struct baton_turn **best = &b->waiting;
    for (struct baton_turn **at = &b->waiting; *at; at = &(*at)->next)
        if ((*at)->used < (*best)->used)
            best = at;
    return best;
}

static void hand_on(struct baton *b)
{
    struct baton_turn **first = least(b);
    b->holder = *first;
    if (*first)
        *first = (*first)->next;
    pthread_cond_broadcast(&b->given);
}

static void wait_for_it(struct baton *b, struct baton_turn *t)
{
    struct baton_turn **last = &b->waiting;
    while (*last)
        last = &(*last)->next;
    t->next = NULL;
    *last = t;
    if (!b->holder)
        hand_on(b);
    while (b->holder != t)
        pthread_cond_wait(&b->given, &b->lock);
}

void baton_take(struct baton *b, struct baton_turn *t)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    bool has = b->holder == t;
    if (!has && t->used < b->clock)
        t->used = b->clock;
    const struct baton_turn *other = *least(b);
    if (has && other && other->used < t->used) {
        hand_on(b);
        has = false;
    }
    if (!has)
        wait_for_it(b, t);
    b->clock = t->used;
    pthread_mutex_unlock(&b->lock);
}

void baton_count(struct baton *b, struct baton_turn *t, uint64_t ns)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    t->used += ns;
    pthread_mutex_unlock(&b->lock);
}

void baton_give(struct baton *b, struct baton_turn *t)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    if (b->holder == t)
        hand_on(b);
    pthread_mutex_unlock(&b->lock);
}
