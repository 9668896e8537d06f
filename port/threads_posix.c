/*
 * Teams of POSIX threads that stay for the next team. If a thread cannot be started, where OpenMP
 * ends the process, the team is smaller. In a child of fork(), where OpenMP hangs, the child starts
 * its own threads.
 */
#include "team.h"

#include <stdlib.h>

#include "thread.h"

/* A team at work, on the stack of the thread that began the team. */
struct job {
    struct tft_team team;
    tft_team_fn *fn;
    void *arg;
    int n;
    atomic_uint left; /* unfinished workers, plus WAITED while the caller sleeps on this word. A
                         worker's last access to a job lowers this */
};
enum { WAITED = 1 << 30 };

struct worker {
    pthread_t thread;
    int tid;
    struct job *job; /* NULL: end */
    atomic_uint jobs, sleepers; /* jobs so far; as in tft_team_wait */
    struct worker *next;        /* in a list */
    struct worker *next_of_all;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all variables below */
static struct worker *idle;  /* in the order of their last tid: threads find their caches warm */
static struct worker *all;   /* workers with a live thread */
static struct worker *empty; /* workers without a thread: it was the parent process's */

/* -------------------------------------------------------------------------------------- workers */

static void finish(struct job *job)
{
    if (atomic_fetch_sub(&job->left, 1) == (WAITED | 1))
        tft_port_wake(&job->left);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (unsigned seen = 0;; seen++) {
        tft_team_wait(&w->jobs, seen, &w->sleepers, true);
        if (!w->job)
            return NULL;
        tft_team_run(&w->job->team, w->tid, w->job->n, w->job->fn, w->job->arg);
        finish(w->job);
    }
}

static void give(struct worker *w, struct job *job)
{
    w->job = job;
    atomic_fetch_add(&w->jobs, 1);
    if (atomic_load(&w->sleepers))
        tft_port_wake(&w->jobs);
}

/* A worker in no list except `all`, or NULL. The caller holds the lock. */
static struct worker *hire(void)
{
    struct worker *w = idle ? idle : empty;
    if (idle) {
        idle = w->next;
        return w;
    }
    if (w)
        empty = w->next;
    else if (!(w = malloc(sizeof *w)))
        return NULL;
    *w = (struct worker){.next_of_all = all};
    if (tft_port_start(&w->thread, 0, work, w) == 0) {
        all = w;
        return w;
    }
    w->next = empty;
    empty = w;
    return NULL;
}

/* -------------------------------------------------------------------------- fork, and unloading */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (struct worker *w = all; w; w = w->next_of_all) {
        w->next = empty;
        empty = w;
    }
    idle = all = NULL;
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    tft_port_at_fork(before_fork, in_parent, in_child);
}

/* Runs when the library is unloaded or the process ends. A busy worker is left alone. */
__attribute__((destructor)) static void end(void)
{
    pthread_mutex_lock(&lock);
    for (struct worker *w = idle, *next; w; w = next) {
        next = w->next;
        give(w, NULL);
        pthread_join(w->thread, NULL);
        free(w);
    }
    for (struct worker *w = empty, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    idle = empty = all = NULL;
    pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------------------------------- teams */

/* Takes up to n workers: a list in thread order. */
static struct worker *hire_some(int n, int *hired)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct worker *first = NULL, **last = &first;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    for (*hired = 0; *hired < n && (*last = hire()); ++*hired) {
        last = &(*last)->next;
        *last = NULL;
    }
    pthread_mutex_unlock(&lock);
    return first;
}

static void release(struct worker *first)
{
    struct worker *last = first;
    while (last->next)
        last = last->next;
    pthread_mutex_lock(&lock);
    last->next = idle;
    idle = first;
    pthread_mutex_unlock(&lock);
}

/* Waits until all workers are done. */
static void join(struct job *job)
{
    unsigned left;
    while ((left = atomic_load(&job->left)) != 0) {
        if (!job->team.crowded && tft_team_spin(&job->left, left))
            continue;
        left = atomic_fetch_or(&job->left, WAITED) | WAITED;
        for (; left != WAITED; left = atomic_load(&job->left))
            tft_team_sleep(&job->left, left);
        return;
    }
}

void tft_port_team(int n, tft_team_fn *fn, void *arg)
{
    struct job job = {.fn = fn, .arg = arg};
    struct worker *first = NULL;
    int hired = 0;
    n = tft_team_begin(&job.team, n);
    if (n > 1)
        first = hire_some(n - 1, &hired);
    if (!hired) {
        tft_team_alone(fn, arg);
        return;
    }
    job.n = hired + 1;
    atomic_store(&job.left, (unsigned)hired);
    int tid = 1;
    for (struct worker *w = first; w; w = w->next) {
        w->tid = tid++;
        give(w, &job);
    }
    tft_team_run(&job.team, 0, job.n, fn, arg);
    join(&job);
    release(first);
    tft_team_end(&job.team, job.n);
}

const char *tft_port_threads(void)
{
    return "pthreads";
}
