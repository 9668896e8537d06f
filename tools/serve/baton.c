#include "baton.h"

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

void baton_take(struct baton *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    uint64_t mine = b->asked++;
    while (b->served != mine)
        pthread_cond_wait(&b->given, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

void baton_give(struct baton *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->served++;
    pthread_cond_broadcast(&b->given);
    pthread_mutex_unlock(&b->lock);
}
