/*
 * Teams by OpenMP. OpenMP's runtimes end the process if a thread cannot be started, and hang in a
 * child of fork() if the parent had a team. So threads are first started for trial, and such a
 * child has teams of one.
 */
#include "team.h"

#include <omp.h>

#ifndef _WIN32

#include <pthread.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <dlfcn.h>
#endif

static atomic_bool used, orphaned; /* a team was started; by this process's parent */
static bool can_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    orphaned = used;
}

/*
 * OpenMP's threads end by pthread_exit when the thread that began their teams ends. glibc then
 * loads libgcc_s, and ends the process if it cannot, for lack of addresses or descriptors. So
 * libgcc_s is loaded before there are such threads. It stays loaded.
 */
static bool load_unwinder(void)
{
#ifdef __GLIBC__
    return dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
#else
    return true;
#endif
}

static void prepare(void)
{
    pthread_atfork(NULL, NULL, in_child);
    can_end = load_unwinder();
}

/* Trial threads live until all have been started. */
struct trial {
    pthread_mutex_t lock;
    pthread_t thread[TFT_PORT_THREADS];
};

static void *wait_for_the_others(void *arg)
{
    struct trial *t = arg;
    pthread_mutex_lock(&t->lock);
    pthread_mutex_unlock(&t->lock);
    pthread_exit(NULL); /* from now on glibc needs nothing for this */
}

/* The size of the largest team, up to n, that can start now. */
static int try_to_start(int n)
{
    struct trial *t = malloc(sizeof *t);
    int started = 0;
    if (!t || pthread_mutex_init(&t->lock, NULL) != 0) {
        free(t);
        return 1;
    }
    pthread_mutex_lock(&t->lock);
    while (started < n - 1 &&
           pthread_create(&t->thread[started], NULL, wait_for_the_others, t) == 0)
        started++;
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < started; i++)
        pthread_join(t->thread[i], NULL);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return started + 1;
}

/* OpenMP keeps threads for each thread that begins teams, so each such thread tries for itself. */
static int startable(int n)
{
    static _Thread_local int tried, most;
    pthread_once(&once, prepare);
    if (orphaned || !can_end)
        return 1;
    if (n > tried) {
        most = try_to_start(n);
        tried = n;
    }
    used = used || most > 1;
    return n < most ? n : most;
}

#else

static int startable(int n)
{
    return n;
}

#endif

struct job {
    tft_team_fn *fn;
    void *arg;
};

static void run(void *arg, int tid, int n)
{
    const struct job *job = arg;
    job->fn(job->arg, tid, n);
    tft_port_barrier(); /* all threads leave together, so OpenMP's own barrier is short */
}

void tft_port_team(int n, tft_team_fn *fn, void *arg)
{
    struct tft_team team;
    struct job job = {fn, arg};
    n = tft_team_begin(&team, n);
    if (n > 1)
        n = startable(n);
    if (n == 1) {
        tft_team_alone(fn, arg);
        return;
    }
#pragma omp parallel num_threads(n)
    tft_team_run(&team, omp_get_thread_num(), omp_get_num_threads(), run, &job);
    tft_team_end(&team, n);
}

const char *tft_port_threads(void)
{
    return "openmp";
}
