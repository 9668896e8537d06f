#define _POSIX_C_SOURCE 200809L
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    GRACE_MS = 1000, /* from SIGTERM to SIGKILL */
    STEP_MS = 20,    /* interval of checks for the end of the command and Ctrl-C */
};

struct run {
    const struct process *p;
    struct process_result *r;
    pid_t pid;
    int in, out; /* the program's ends of the pipes; -1: closed */
    size_t sent;
    uint64_t deadline; /* ns: time of the next signal */
    int next;          /* the next signal */
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- signals that end the program end the command first */

static const int deadly[] = {SIGHUP, SIGQUIT, SIGTERM};
enum { N_DEADLY = sizeof deadly / sizeof *deadly };
static struct sigaction found[N_DEADLY];
static volatile sig_atomic_t group;

static void end_group(int sig)
{
    kill(-(pid_t)group, SIGKILL);
    for (int i = 0; i < N_DEADLY; i++)
        if (deadly[i] == sig)
            sigaction(sig, &found[i], NULL);
    raise(sig); /* takes effect when this handler returns */
}

static void watch(pid_t pid)
{
    struct sigaction a = {.sa_handler = end_group};
    sigemptyset(&a.sa_mask);
    group = pid;
    for (int i = 0; i < N_DEADLY; i++)
        if (sigaction(deadly[i], NULL, &found[i]) == 0 && found[i].sa_handler != SIG_IGN)
            sigaction(deadly[i], &a, NULL);
}

static void unwatch(void)
{
    for (int i = 0; i < N_DEADLY; i++)
        sigaction(deadly[i], &found[i], NULL);
}

/* ---- starting */

/* A pipe with neither end among the standard descriptors, which a program may have closed, and
   neither left open in commands. Returns 0 or errno. */
static int open_pipe(int end[2])
{
    int made[2], err = 0;
    if (pipe(made) != 0)
        return errno;
    for (int i = 0; i < 2; i++) {
        end[i] = fcntl(made[i], F_DUPFD_CLOEXEC, 3);
        err = end[i] < 0 ? errno : err;
        close(made[i]);
    }
    return err;
}

/* posix_spawn, since fork would want as much memory again as the model has. Returns 0 or errno. */
static int spawn(struct run *x, const int in[2], const int out[2])
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, pipes;
    sigemptyset(&none);
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    int err = posix_spawn_file_actions_init(&files);
    if (err)
        return err;
    err = posix_spawnattr_init(&how);
    if (!err) {
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                           POSIX_SPAWN_SETSIGMASK);
        posix_spawnattr_setsigdefault(&how, &pipes);
        posix_spawnattr_setsigmask(&how, &none);
        err = posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
        err = err ? err : posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
        err = err ? err
                  : posix_spawnp(&x->pid, x->p->argv[0], &files, &how,
                                 (char *const *)(uintptr_t)x->p->argv, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return err;
}

static int start(struct run *x)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err = open_pipe(in);
    err = err ? err : open_pipe(out);
    err = err ? err : spawn(x, in, out);
    close_end(&in[0]);
    close_end(&out[1]);
    x->in = in[1];
    x->out = out[0];
    if (err) {
        close_end(&x->in);
        close_end(&x->out);
        return err;
    }
    fcntl(x->in, F_SETFL, O_NONBLOCK);
    fcntl(x->out, F_SETFL, O_NONBLOCK);
    return 0;
}

/* ---- running */

static void feed(struct run *x)
{
    ssize_t n = 0;
    while (x->sent < x->p->n_in && (n = write(x->in, x->p->in + x->sent, x->p->n_in - x->sent)) > 0)
        x->sent += (size_t)n;
    if (x->sent == x->p->n_in || (n < 0 && errno != EAGAIN && errno != EINTR))
        close_end(&x->in); /* a command need not read its input */
}

static void take(struct run *x)
{
    char piece[4096];
    ssize_t n;
    while ((n = read(x->out, piece, sizeof piece)) > 0) {
        size_t room = x->p->most - x->r->out.n, kept = (size_t)n < room ? (size_t)n : room;
        if (!cli_text_append(&x->r->out, piece, kept))
            kept = 0;
        x->r->left_out += (size_t)n - kept;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        close_end(&x->out);
}

/* Whether the command has ended. It stays a zombie until it is reaped, so that no other process
   gets its number, which is also the group's. */
static bool has_ended(const struct run *x)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)x->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == x->pid;
}

/* Sends SIGTERM when the time is up or Ctrl-C comes, SIGKILL a while later or at the next
   Ctrl-C. */
static void stop_if_due(struct run *x)
{
    bool interrupted = cli_interrupted();
    if (!interrupted && cli_ns() < x->deadline)
        return;
    if (interrupted)
        cli_catch_interrupts();
    if (x->next == SIGTERM)
        x->r->end = interrupted ? PROCESS_INTERRUPT : PROCESS_TIME;
    kill(-x->pid, x->next);
    x->next = SIGKILL;
    x->deadline = cli_ns() + (uint64_t)GRACE_MS * 1000000;
}

static void run(struct run *x)
{
    while (!has_ended(x)) {
        struct pollfd ready[] = {{.fd = x->in, .events = POLLOUT},
                                 {.fd = x->out, .events = POLLIN}};
        poll(ready, 2, x->out >= 0 ? STEP_MS : 1);
        if (x->in >= 0 && ready[0].revents)
            feed(x);
        if (x->out >= 0 && ready[1].revents)
            take(x);
        stop_if_due(x);
    }
    kill(-x->pid, SIGKILL);
    if (x->out >= 0)
        take(x); /* the rest in the pipe; a process that left the group may keep it open */
}

/* Reaps the command. A signal that the program sent does not count as the command's end. */
static void reap(struct run *x)
{
    int status = 0;
    while (waitpid(x->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (x->r->end != PROCESS_EXITED)
        return;
    x->r->end = WIFSIGNALED(status) ? PROCESS_SIGNAL : PROCESS_EXITED;
    x->r->code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

void process_run(const struct process *p, struct process_result *r)
{
    struct run x = {.p = p, .r = r, .next = SIGTERM};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    *r = (struct process_result){.end = PROCESS_EXITED};
    if (cli_interrupted()) {
        cli_catch_interrupts();
        r->end = PROCESS_INTERRUPT;
        return;
    }
    sigaction(SIGPIPE, &ignore, &before);
    x.deadline = cli_ns() + (uint64_t)p->seconds * 1000000000;
    r->code = start(&x);
    if (r->code) {
        r->end = PROCESS_NOT_STARTED;
    } else {
        watch(x.pid);
        run(&x);
        unwatch();
        reap(&x);
    }
    close_end(&x.in);
    close_end(&x.out);
    sigaction(SIGPIPE, &before, NULL);
}
