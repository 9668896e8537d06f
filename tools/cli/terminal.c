/* Progress, and Ctrl-C. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------- progress */

uint64_t cli_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void cli_progress_begin(struct cli_progress *p, const char *what)
{
    *p = (struct cli_progress){.what = what, .start = cli_ns()};
}

void cli_progress_at(struct cli_progress *p, double done)
{
    enum { WIDTH = 30 };
    const uint64_t second = 1000000000;
    uint64_t now = cli_ns(), spent = now - p->start, first = p->soon ? second / 2 : 2 * second;
    if (!isatty(STDERR_FILENO) || spent < first || now - p->shown < second / 10 || !(done > 0))
        return;
    int full = (int)(done * WIDTH);
    double left = (double)spent / 1e9 * (1 - done) / done;
    fprintf(stderr, "\r%c %s [%.*s%*s] %3.0f %%, %.0f s left \x1b[K",
            "|/-\\"[now / (second / 10) % 4], p->what, full, "##############################",
            WIDTH - full, "", done * 100, left);
    p->shown = now;
    p->drawn = true;
}

void cli_progress_end(struct cli_progress *p)
{
    if (p->drawn)
        fputs("\r\x1b[K", stderr);
    p->drawn = false;
}

/* --------------------------------------------------------------------------------------- Ctrl-C */

static volatile sig_atomic_t interrupted;
static void (*before)(void);

static void end_by(int sig)
{
    if (before)
        before();
    signal(sig, SIG_DFL);
    raise(sig);
}

static void on_interrupt(int sig)
{
    if (interrupted)
        end_by(sig);
    interrupted = 1;
}

void cli_catch_interrupts(void)
{
    struct sigaction a = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    interrupted = 0;
    sigaction(SIGINT, &a, NULL);
}

void cli_release_interrupts(void) { signal(SIGINT, before ? end_by : SIG_DFL); }

void cli_before_interrupt(void (*f)(void)) { before = f; }

bool cli_interrupted(void) { return interrupted; }
