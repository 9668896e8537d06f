/*
 * What the implementations of threads share: how large a team is, and how its threads wait for each
 * other. For port/ alone.
 */
#ifndef TFT_TEAM_H
#define TFT_TEAM_H


#include "port.h"

typedef void tft_team_fn(void *arg, int tid, int n);

struct tft_team {
    bool crowded;         /* there are more threads than CPUs: who waits must not hold one */
    uint64_t begun;       /* when, by tft_port_ns; 0: nothing is to be learned from it */
    uint64_t busy;        /* nanoseconds that the caller's thread did not wait for others in fn */
    atomic_int arrived;   /* threads at the current barrier */
    atomic_uint round;    /* barriers that the team has passed; a waiting thread sleeps until this
                             changes */
    atomic_uint sleepers; /* threads that sleep, or are about to */
};

/* Begins a team for which the caller wants n threads, and returns how many it may have: one inside
   of a team, and never more than there are CPUs for, unless tft_port_crowds. They are fewer where
   the threads of the teams before have mostly waited for each other. */
int tft_team_begin(struct tft_team *t, int n);

/* Ends a team of n > 1 threads, by the thread that began it. */
void tft_team_end(const struct tft_team *t, int n);

/* What each of its n threads does. tid 0 is the caller's. fn runs in C's default floating-point
   environment, and the thread gets its own back behind it. */
void tft_team_run(struct tft_team *t, int tid, int n, tft_team_fn *fn, void *arg);

/* A team of the calling thread. */
void tft_team_alone(tft_team_fn *fn, void *arg);

/*
 * Spins until *word is not `seen`, and returns whether it is. How long a thread spins is learned.
 * On a quiet machine the others are late by microseconds, and sleeping would cost more than that.
 * If they are late by much more, some other process has their CPU, and spinning only keeps it
 * from having its share of this one now, while there is nothing to do.
 */
bool tft_team_spin(const atomic_uint *word, unsigned seen);

/* tft_port_sleep, with a look at the clock. */
void tft_team_sleep(atomic_uint *word, unsigned seen);

/* Waits until *word is not `seen`: spins, if it may, and then sleeps. Who changes *word then wakes
   those that sleep, if there are any: a thread raises *sleepers before it looks for the last
   time. */
void tft_team_wait(atomic_uint *word, unsigned seen, atomic_uint *sleepers, bool spins);

/* --------------------------------------------------------- implemented by posix.c and windows.c */

/* CPUs that the calling thread may run on; at least 1. */
int tft_port_affinity(void);

/* Sleeps unless *word is not `seen`, until woken, or for no reason at all. Wakes all that sleep on
   word, which is not looked at and may be gone. */
void tft_port_sleep(atomic_uint *word, unsigned seen);
void tft_port_wake(atomic_uint *word);

#endif
