#define _GNU_SOURCE /* syscall */
#include "port.h"

#include <omp.h>
#include <sched.h>
#include <stdatomic.h>

#if defined __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/*
 * The barrier replaces that of libgomp, which goes on spinning while other work keeps a thread of
 * the team from running: beside a second busy process one token took seconds. This one spins for as
 * long as a fair share of work can be late, then sleeps, so that the thread it waits for gets the
 * CPU. Sleeping sooner would give away the thread's own turn, which is slower beside one busy
 * process.
 */
struct team {
    int n;
    atomic_int arrived;   /* threads at the current barrier */
    atomic_uint round;    /* number of barriers passed; threads sleep on it */
    atomic_uint sleepers; /* threads that sleep, or are about to */
};

static _Thread_local struct team *current; /* the team of this thread; NULL outside of one */

enum { SPIN_NS = 200000, SPINS = 64 }; /* SPINS: between two looks at the clock */

static inline void relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb"); /* yield does nothing on most cores */
#endif
}

static void sleep_on(atomic_uint *round, unsigned seen)
{
#if defined __linux__
    syscall(SYS_futex, round, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
#else
    (void)round, (void)seen;
    sched_yield();
#endif
}

static void wake_all(atomic_uint *round)
{
#if defined __linux__
    syscall(SYS_futex, round, FUTEX_WAKE_PRIVATE, TFT_PORT_THREADS, NULL, NULL, 0);
#else
    (void)round;
#endif
}

/* Waits until the round is no longer `seen`: spins, then sleeps. */
static void wait_round(struct team *t, unsigned seen)
{
    uint64_t start = tft_port_ns();
    do
        for (int i = 0; i < SPINS; i++) {
            if (atomic_load_explicit(&t->round, memory_order_acquire) != seen)
                return;
            relax();
        }
    while (tft_port_ns() - start < SPIN_NS);

    atomic_fetch_add(&t->sleepers, 1);
    while (atomic_load(&t->round) == seen)
        sleep_on(&t->round, seen);
    atomic_fetch_sub(&t->sleepers, 1);
}

void tft_port_barrier(void)
{
    struct team *t = current;
    if (!t)
        return;
    unsigned round = atomic_load_explicit(&t->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) + 1 < t->n) {
        wait_round(t, round);
        return;
    }
    atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
    atomic_store(&t->round, round + 1);
    if (atomic_load(&t->sleepers))
        wake_all(&t->round);
}

void tft_port_team(int n, void (*fn)(void *arg, int tid, int n), void *arg)
{
    if (n <= 1) {
        fn(arg, 0, 1);
        return;
    }
    struct team team = {0};
#pragma omp parallel num_threads(n)
    {
#pragma omp single
        team.n = omp_get_num_threads();
        current = &team;
        fn(arg, omp_get_thread_num(), team.n);
        tft_port_barrier(); /* all leave together, so libgomp's own barrier here is short */
        current = NULL;
    }
}

bool tft_port_threaded(void)
{
    return true;
}
