/*
 * Shared code of the implementations of threads: the size of a team, and its threads' waits for
 * each other. For port/ alone.
 */
#ifndef TFT_TEAM_H
#define TFT_TEAM_H


#include "port.h"

typedef void tft_team_fn(void *arg, int tid, int n);

struct tft_team {
    bool crowded;         /* more threads than CPUs: a waiting thread must not hold a CPU */
    uint64_t begun;       /* the start, by tft_port_ns; 0: learn nothing from this team */
    uint64_t busy;        /* nanoseconds that the caller's thread spent in fn without waiting */
    atomic_int arrived;   /* threads at the current barrier */
    atomic_uint round;    /* the number of passed barriers; a waiting thread sleeps until this
                             changes */
    atomic_uint sleepers; /* threads that sleep or are about to sleep */
};

/* Begins a team, for which the caller wants n threads, and returns its size: one inside another
   team, and never more than CPUs, unless tft_port_crowds. The size is smaller if the threads of
   earlier teams mostly waited for each other. */
int tft_team_begin(struct tft_team *t, int n);

/* Ends a team of n > 1 threads. The thread that began the team calls this. */
void tft_team_end(const struct tft_team *t, int n);

/* The work of each of the n threads. tid 0 is the caller's thread. fn runs in C's default
   floating-point environment; afterwards the thread's own environment is restored. */
void tft_team_run(struct tft_team *t, int tid, int n, tft_team_fn *fn, void *arg);

/* A team of the calling thread. */
void tft_team_alone(tft_team_fn *fn, void *arg);

/*
 * Spins until *word is not `seen`; false if *word still is `seen` at the end. A thread learns how
 * long to spin. On a quiet machine the other threads are late by microseconds, and sleeping would
 * cost more. If threads are late by much more, another process has their CPU, and spinning only
 * keeps that process from this idle CPU.
 */
bool tft_team_spin(const atomic_uint *word, unsigned seen);

/* tft_port_sleep, timed. */
void tft_team_sleep(atomic_uint *word, unsigned seen);

/* Waits until *word is not `seen`: spins if `spins`, then sleeps. A thread that changes *word must
   then wake the sleepers, if any: a thread raises *sleepers before its last look at *word. */
void tft_team_wait(atomic_uint *word, unsigned seen, atomic_uint *sleepers, bool spins);

/* --------------------------------------------------------- implemented by posix.c and windows.c */

/* CPUs that the calling thread may run on; at least 1. */
int tft_port_affinity(void);

/* tft_port_sleep: sleeps if *word is `seen`, until woken; may also return without a reason. The
   next function wakes all threads that sleep on `word`; it does not read *word, which may be
   freed. */
void tft_port_sleep(atomic_uint *word, unsigned seen);
void tft_port_wake(atomic_uint *word);

#endif
