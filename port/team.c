#include "team.h"

#include <fenv.h>

bool tft_port_crowds;

static _Thread_local struct membership {
    struct tft_team *team; /* of this thread; NULL: no team to wait for */
    int n;
    uint64_t waited; /* nanoseconds that the thread has waited for the others */
} current;

/* ---------------------------------------------------------------------------------------- waits */

/* Nanoseconds that a thread spins. A thread late by less than LATE has a CPU, and more work than
   the others; a later thread has lost its CPU to another process. SPINS: between two readings of
   the clock. */
enum { LONGEST = 200000, SHORTEST = 2000, LATE = 300000, SPINS = 64 };
static atomic_uint patience = LONGEST;

/* Learn only from waits within a team: between teams, threads have nothing to do. */
static void set_patience(unsigned ns)
{
    if (current.team && ns != atomic_load_explicit(&patience, memory_order_relaxed))
        atomic_store_explicit(&patience, ns, memory_order_relaxed);
}

static inline void relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb"); /* yield does nothing on most cores */
#endif
}

static bool changes_soon(const atomic_uint *word, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != seen)
            return true;
        relax();
    }
    return false;
}

bool tft_team_spin(const atomic_uint *word, unsigned seen)
{
    if (changes_soon(word, seen))
        return true;
    unsigned ns = atomic_load_explicit(&patience, memory_order_relaxed);
    uint64_t start = tft_port_ns(), took = 0;
    bool changed = false;
    while (!changed && took < ns) {
        changed = changes_soon(word, seen);
        took = tft_port_ns() - start;
    }
    current.waited += took;
    if (changed)
        set_patience(ns + (LONGEST - ns + 63) / 64);
    return changed;
}

void tft_team_sleep(atomic_uint *word, unsigned seen)
{
    uint64_t start = tft_port_ns();
    tft_port_sleep(word, seen);
    uint64_t took = tft_port_ns() - start;
    current.waited += took;
    unsigned ns = atomic_load_explicit(&patience, memory_order_relaxed);
    if (took > LATE)
        set_patience(ns / 2 > SHORTEST ? ns / 2 : SHORTEST);
}

void tft_team_wait(atomic_uint *word, unsigned seen, atomic_uint *sleepers, bool spins)
{
    if (spins && tft_team_spin(word, seen))
        return;
    atomic_fetch_add(sleepers, 1);
    while (atomic_load(word) == seen)
        tft_team_sleep(word, seen);
    atomic_fetch_sub(sleepers, 1);
}

void tft_port_barrier(void)
{
    struct tft_team *t = current.team;
    if (!t)
        return;
    unsigned round = atomic_load_explicit(&t->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) + 1 < current.n) {
        tft_team_wait(&t->round, round, &t->sleepers, !t->crowded);
        return;
    }
    atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
    atomic_store(&t->round, round + 1);
    if (atomic_load(&t->sleepers))
        tft_port_wake(&t->round);
}

/* -------------------------------------------------------------------------------- size of teams */

/*
 * The threads of a pass get equal shares, and wait for the slowest. So a slow core delays all fast
 * ones, and so do two threads on one core, which share its arithmetic units. Threads are not
 * pinned: the system puts them on the fast cores while these are idle, and elsewhere beside other
 * work.
 */
int tft_port_cpus(void)
{
    struct tft_cpus c;
    tft_port_count_cpus(&c);
    return c.quota && c.quota < c.fast ? c.quota : c.fast;
}

/*
 * A team is worth its threads if the threads mostly work. If other processes have the CPUs, the
 * threads mostly wait for a thread without a CPU, and fewer threads are faster. Times are summed
 * over teams that take WINDOW nanoseconds in all. If the thread that begins the teams waited more
 * than half of that time, teams are half as large for a while. The while doubles each time this
 * happens in a row.
 */
enum { WINDOW = 5000000, FIRST_WHILE = 20000000, LONGEST_WHILE = 640000000 };

static _Thread_local struct {
    uint64_t took, waited; /* in this window */
    int most;              /* threads of a team until `until`; 0: no limit */
    uint64_t until, last_while;
} learned;

static void learn(int n, uint64_t now, uint64_t took, uint64_t waited)
{
    learned.took += took;
    learned.waited += waited < took ? waited : took;
    if (learned.took < WINDOW)
        return;
    if (learned.waited > learned.took / 2) {
        learned.last_while = learned.last_while ? 2 * learned.last_while : FIRST_WHILE;
        if (learned.last_while > LONGEST_WHILE)
            learned.last_while = LONGEST_WHILE;
        learned.most = n / 2;
        learned.until = now + learned.last_while;
    } else if (!learned.most) {
        learned.last_while = 0;
    }
    learned.took = learned.waited = 0;
}

int tft_team_begin(struct tft_team *t, int n)
{
    *t = (struct tft_team){0};
    if (n <= 1 || current.team)
        return 1;
    int most = n < TFT_PORT_THREADS ? n : TFT_PORT_THREADS, cpus = tft_port_affinity();
    t->crowded = tft_port_crowds && most > cpus;
    if (tft_port_crowds)
        return most;
    most = most < cpus ? most : cpus;
    t->begun = tft_port_ns();
    if (learned.most && t->begun >= learned.until)
        learned.most = 0;
    return learned.most && learned.most < most ? learned.most : most;
}

void tft_team_end(const struct tft_team *t, int n)
{
    uint64_t now = tft_port_ns();
    if (t->begun)
        learn(n, now, now - t->begun, now - t->begun - t->busy);
}

void tft_team_run(struct tft_team *t, int tid, int n, tft_team_fn *fn, void *arg)
{
    struct membership outer = current;
    fenv_t was;
    bool known = fegetenv(&was) == 0;
    fesetenv(FE_DFL_ENV);
    current = (struct membership){n > 1 ? t : NULL, n, 0};
    uint64_t begun = tid == 0 && n > 1 ? tft_port_ns() : 0;
    fn(arg, tid, n);
    if (begun)
        t->busy = tft_port_ns() - begun - current.waited;
    current = outer;
    if (known)
        fesetenv(&was);
}

void tft_team_alone(tft_team_fn *fn, void *arg)
{
    tft_team_run(NULL, 0, 1, fn, arg);
}
