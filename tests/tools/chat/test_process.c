/* Commands that are run for the model: their output, their end, and that nothing of them
   remains. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/chat/process.h"

enum { MOST = 4096, LONG = 3600 }; /* bytes; seconds that no command takes */

/* Runs a line of sh. r->out has a NUL after it. */
static void run(struct process_result *r, const char *line, const char *in, uint32_t seconds)
{
    const char *argv[] = {"sh", "-c", line, NULL};
    struct process p = {argv, in, strlen(in), MOST, seconds};
    cli_catch_interrupts();
    process_run(&p, r);
    assert_true(cli_text_append(&r->out, "", 1));
}

static void ends(const char *line, const char *out, int end, int code)
{
    struct process_result r;
    run(&r, line, "{\"a\": 1}", LONG);
    assert_string_equal(r.out.p, out);
    assert_int_equal(r.end, end);
    assert_int_equal(r.code, code);
    assert_int_equal(r.left_out, 0);
    free(r.out.p);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void commands_end(void **state)
{
    (void)state;
    ends("cat", "{\"a\": 1}", PROCESS_EXITED, 0);
    ends("echo no; exit 3", "no\n", PROCESS_EXITED, 3);
    ends("echo oh; kill -9 $$", "oh\n", PROCESS_SIGNAL, SIGKILL);
    /* it goes on for a while without its output */
    ends("exec >&-; i=0; while [ $i -lt 10000 ]; do i=$((i + 1)); done; exit 2", "",
         PROCESS_EXITED, 2);
}

/* Whether posix_spawn reports why the new process cannot run the program. Under qemu-user, where
   the two processes share no memory, glibc's cannot. */
static bool spawn_tells(void)
{
    char name[] = "/nowhere", *argv[] = {name, NULL}, *none[] = {NULL};
    pid_t pid;
    if (posix_spawn(&pid, name, NULL, NULL, argv, none) != 0)
        return true;
    waitpid(pid, NULL, 0);
    return false;
}

static void a_command_that_is_not_there(void **state)
{
    (void)state;
    static const char *const argv[] = {"/nowhere/at all", NULL};
    struct process p = {argv, "", 0, MOST, LONG};
    struct process_result r;
    cli_catch_interrupts();
    process_run(&p, &r);
    assert_int_equal(r.out.n, 0);
    if (spawn_tells()) {
        assert_int_equal(r.end, PROCESS_NOT_STARTED);
        assert_int_equal(r.code, ENOENT);
    } else { /* as POSIX allows: "the exit status of the child process shall be 127" */
        assert_int_equal(r.end, PROCESS_EXITED);
        assert_int_equal(r.code, 127);
    }
}

/* More than pipes hold, in both directions at once, and into a command that does not read. */
static void much_input_and_output(void **state)
{
    (void)state;
    enum { MUCH = 1 << 20 };
    struct process_result r;
    char *in = malloc(MUCH + 1);
    assert_non_null(in);
    memset(in, 'x', MUCH);
    in[MUCH] = 0;
    run(&r, "cat", in, LONG);
    assert_int_equal(r.out.n, MOST + 1);
    assert_memory_equal(r.out.p, in, MOST);
    assert_int_equal(r.left_out, MUCH - MOST);
    assert_int_equal(r.end, PROCESS_EXITED);
    free(r.out.p);
    run(&r, "exec <&-; echo done", in, LONG);
    assert_string_equal(r.out.p, "done\n");
    assert_int_equal(r.end, PROCESS_EXITED);
    free(r.out.p);
    free(in);
}

/* Every process of the line holds the end of a pipe, which is closed when all have ended. A line
   that has a second may not come to its echo. */
static void ends_whole(const char *line, int end, uint32_t seconds)
{
    struct process_result r;
    int alive[2];
    assert_int_equal(pipe(alive), 0);
    assert_int_equal(fcntl(alive[0], F_SETFD, FD_CLOEXEC), 0);
    run(&r, line, "", seconds);
    assert_int_equal(r.end, end);
    if (seconds == LONG || strlen(r.out.p) > 0)
        assert_string_equal(r.out.p, "here\n");
    close(alive[1]);
    struct pollfd closed = {.fd = alive[0], .events = POLLIN};
    while (poll(&closed, 1, -1) != 1) /* a signal may come between */
        ;
    assert_int_equal(closed.revents & (POLLIN | POLLHUP), POLLHUP);
    close(alive[0]);
    free(r.out.p);
}

static void nothing_remains(void **state)
{
    (void)state;
    ends_whole("echo here; sleep 100000 & sleep 100000", PROCESS_TIME, 1);
    assert_false(cli_interrupted());
    ends_whole("echo here; kill -INT $PPID; sleep 100000", PROCESS_INTERRUPT, LONG);
    assert_false(cli_interrupted()); /* the command had it */
    /* SIGTERM is not enough, and a second Ctrl-C, which follows it, does not end this program */
    ends_whole("trap 'kill -INT $PPID' TERM; echo here; kill -INT $PPID; while :; do :; done",
               PROCESS_INTERRUPT, LONG);
    ends_whole("trap '' TERM; echo here; sleep 100000; sleep 100000", PROCESS_TIME, 1);
    /* a process in the background keeps the pipe open */
    ends_whole("echo here; sleep 100000 &", PROCESS_EXITED, LONG);
    assert_false(cli_interrupted());
}

static void an_interrupt_before_it_begins(void **state)
{
    (void)state;
    static const char *const argv[] = {"true", NULL};
    struct process p = {argv, "", 0, MOST, LONG};
    struct process_result r;
    cli_catch_interrupts();
    raise(SIGINT);
    process_run(&p, &r);
    assert_int_equal(r.end, PROCESS_INTERRUPT);
    assert_false(cli_interrupted());
}

static size_t count_descriptors(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* The command has its three descriptors and that of the folder it lists. Signals and descriptors of
   this program stay as they were. */
static void what_a_command_inherits(void **state)
{
    (void)state;
    struct sigaction before, after;
    size_t n = count_descriptors();
    for (int fd = 3; fd < 256; fd++) /* the ones that this program got */
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    assert_true(sigaction(SIGPIPE, NULL, &before) == 0);
    if (n)
        ends("ls /proc/self/fd | wc -l", "4\n", PROCESS_EXITED, 0);
    ends("yes | head -n 1", "y\n", PROCESS_EXITED, 0); /* SIGPIPE ends yes */
    assert_true(sigaction(SIGPIPE, NULL, &after) == 0);
    assert_true(before.sa_handler == after.sa_handler);
    assert_true(sigaction(SIGTERM, NULL, &after) == 0);
    assert_true(after.sa_handler == SIG_DFL);
    assert_int_equal(count_descriptors(), n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_end),
        cmocka_unit_test(a_command_that_is_not_there),
        cmocka_unit_test(much_input_and_output),
        cmocka_unit_test(nothing_remains),
        cmocka_unit_test(an_interrupt_before_it_begins),
        cmocka_unit_test(what_a_command_inherits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
