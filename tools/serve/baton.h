/* Engines of several models compute in turn: only the engine that has the baton, one pass at a
   time. They get the baton in the order in which they ask, so each waits for at most one pass of
   every other one. */
#ifndef SERVE_BATON_H
#define SERVE_BATON_H

#include <pthread.h>
#include <stdint.h>

struct baton {
    pthread_mutex_t lock;
    pthread_cond_t given;
    uint64_t asked, served; /* numbers of the next engine that asks, and of the one that computes */
};

void baton_begin(struct baton *b);
void baton_end(struct baton *b);

/* b: NULL if there is one engine, which need not wait. Hold no other lock. */
void baton_take(struct baton *b);
void baton_give(struct baton *b);

#endif
