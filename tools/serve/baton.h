/* Engines of several models compute in turn: only the engine that has the baton, one pass at a
   time. Between two passes it keeps the baton unless another engine waits that has computed for
   less time, so engines that always have work get equal shares of the time. An engine that was idle
   counts from there on as if it had computed as long as the one with the baton, so it is the next,
   and it has saved up nothing. */
#ifndef SERVE_BATON_H
#define SERVE_BATON_H

#include <pthread.h>
#include <stdint.h>

/* Of an engine; all zero at first. */
struct baton_turn {
    uint64_t used; /* nanoseconds */
    struct baton_turn *next;
};

struct baton {
    pthread_mutex_t lock;
    pthread_cond_t given;
    struct baton_turn *holder, *waiting; /* NULL: nobody; in the order of their asking */
    uint64_t clock; /* the time that the holder had used before its pass */
};

void baton_begin(struct baton *b);
void baton_end(struct baton *b);

/* Functions do nothing if b is NULL: there is one engine, which need not wait. */

/* Call it before each pass, also while the engine has the baton. Hold no lock. */
void baton_take(struct baton *b, struct baton_turn *t);
/* After each pass. */
void baton_count(struct baton *b, struct baton_turn *t, uint64_t ns);
/* The engine has no work for a while. It may be without the baton. */
void baton_give(struct baton *b, struct baton_turn *t);

#endif
