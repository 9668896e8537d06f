#define _POSIX_C_SOURCE 200809L
#include "terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "tools/cli/cli.h"
#include "tools/cli/system.h"

/* Bracketed paste (xterm's ctlseqs): the terminal puts a paste between two sequences. */
#define PASTE_ON "\x1b[?2004h"
#define PASTE_OFF "\x1b[?2004l"
#define PLAIN "\x1b[0m"

enum { INTERRUPT = 3 }; /* the byte of Ctrl-C, if it is not a signal */

static struct {
    bool on, keys, styles; /* styles: standard output may be in the middle of a dim text */
    struct termios found;
} terminal;

static volatile sig_atomic_t change; /* enum terminal_change */

/* ---- modes. Signal handlers call these. */

static void send(int fd, const char *sequence)
{
    ssize_t sent = write(fd, sequence, strlen(sequence));
    (void)sent; /* if the terminal is gone, nothing needs to be sent */
}

/* Restores the modes, unless the program is in the background: they are then the shell's, and
   tcsetattr would stop the program, so that one killed while suspended would not end. */
static void restore(void)
{
    pid_t front = tcgetpgrp(STDIN_FILENO);
    if (front >= 0 && front != getpgrp())
        return;
    if (terminal.styles)
        send(STDOUT_FILENO, PLAIN);
    if (terminal.keys)
        send(STDERR_FILENO, PASTE_OFF);
    if (terminal.on)
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal.found);
}

/* NOFLSH: otherwise Ctrl-C would discard the bytes in the queue. Without keys, the terminal itself
   still edits the current line. */
static void silent_modes(bool signals)
{
    struct termios t = terminal.found;
    if (!terminal.on)
        return;
    t.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ISIG | (terminal.keys ? ICANON : 0));
    t.c_lflag |= NOFLSH | (signals ? ISIG : 0);
    t.c_cc[VMIN] = terminal.keys ? 1 : t.c_cc[VMIN];
    t.c_cc[VTIME] = terminal.keys ? 0 : t.c_cc[VTIME];
    tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

void terminal_answer(void) { silent_modes(true); }

void terminal_edit(void) { silent_modes(false); }

/* Makes Ctrl-C end a line, as its last character. As a signal, it could come just before the
   read. */
static void prompt_modes(void)
{
    struct termios t = terminal.found;
    t.c_lflag |= ICANON | ECHO;
    t.c_cc[VINTR] = _POSIX_VDISABLE;
    t.c_cc[VEOL] = INTERRUPT;
    tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

/* ---- signals */

static void handle(int sig, void (*handler)(int))
{
    struct sigaction a = {.sa_handler = handler}, old;
    sigemptyset(&a.sa_mask);
    a.sa_flags = SA_RESTART;
    if (sigaction(sig, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(sig, &a, NULL);
}

static void end_by(int sig)
{
    restore();
    signal(sig, SIG_DFL);
    raise(sig); /* takes effect when this handler returns */
}

static void suspend_by(int sig)
{
    int err = errno;
    struct termios t;
    sigset_t stop;
    tcgetattr(STDIN_FILENO, &t);
    restore();
    sigemptyset(&stop);
    sigaddset(&stop, sig);
    signal(sig, SIG_DFL);
    raise(sig);
    sigprocmask(SIG_UNBLOCK, &stop, NULL); /* the program stops in this call, and resumes from it */
    handle(sig, suspend_by);
    tcsetattr(STDIN_FILENO, TCSANOW, &t);
    if (terminal.keys)
        send(STDERR_FILENO, PASTE_ON);
    change = TERMINAL_RESUMED;
    errno = err;
}

static void resized_by(int sig)
{
    (void)sig;
    if (change == TERMINAL_SAME)
        change = TERMINAL_RESIZED;
}

void terminal_suspend(void) { raise(SIGTSTP); }

enum terminal_change terminal_changed(void)
{
    enum terminal_change was = (enum terminal_change)change;
    change = TERMINAL_SAME;
    return was;
}

size_t terminal_columns(void)
{
    enum { USUAL = 80 };
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
    return known ? size.ws_col : USUAL;
}

/* SA_RESTART: writing an answer must not fail when the size changes. The editor waits in select(),
   which is interrupted even so; it then draws the line again. */
static void watch_size(void)
{
    struct sigaction a = {.sa_handler = resized_by, .sa_flags = SA_RESTART};
    sigemptyset(&a.sa_mask);
#ifdef SIGWINCH
    sigaction(SIGWINCH, &a, NULL);
#endif
}

static void handle_ends(void)
{
    handle(SIGHUP, end_by);
    handle(SIGQUIT, end_by);
    handle(SIGTERM, end_by);
    cli_before_interrupt(restore);
}

void terminal_write(void)
{
    terminal.styles = terminal_styles(STDOUT_FILENO);
    if (terminal.styles)
        handle_ends();
}

void terminal_begin(bool keys)
{
    if (tcgetattr(STDIN_FILENO, &terminal.found) != 0)
        return;
    terminal.on = true;
    terminal.keys = keys;
    terminal.styles = terminal_styles(STDOUT_FILENO);
    atexit(restore);
    handle_ends();
    handle(SIGTSTP, suspend_by);
    cli_release_interrupts();
    if (keys) {
        watch_size();
        send(STDERR_FILENO, PASTE_ON);
    }
    terminal_answer();
}

/* ---- lines */

static bool append_read(struct cli_text *t, ssize_t *got)
{
    char piece[4096];
    do
        *got = read(STDIN_FILENO, piece, sizeof piece);
    while (*got < 0 && errno == EINTR);
    if (*got > 0 && !cli_text_append(t, piece, (size_t)*got)) {
        errno = ENOMEM;
        return false;
    }
    return *got >= 0;
}

/* How many bytes are waiting to be read. */
static size_t waiting(void)
{
    int n = 0;
    return ioctl(STDIN_FILENO, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

/* How many bytes at the front of the terminal's queue are on the screen. */
static size_t shown;

/* A line of n bytes has been read; n_queued were in the queue when the echo began. The terminal has
   echoed all bytes after that. Returns whether the line was typed without an echo. */
static bool was_silent(size_t n, size_t n_queued)
{
    bool silent = n_queued > shown && n > shown;
    size_t left = n_queued > n ? n_queued - n : 0;
    shown = shown > n ? shown - n : 0;
    if (left == shown) /* none is left that was not echoed */
        shown = waiting();
    return silent;
}

enum terminal_read terminal_line(const char *prompt, const char **line, size_t *n)
{
    static struct cli_text text;
    ssize_t got = 1;
    bool read = true;
    prompt_modes();
    /* Counted while the terminal echoes, here and when the line has been read: a line that comes
       between the two steps is then shown twice, and not never. */
    size_t n_queued = waiting();
    cli_release_interrupts(); /* a SIGINT from elsewhere ends the program; no key sends one now */
    fputs(prompt, stderr);
    text.n = 0;
    while (read && got && (!text.n || !strchr("\n\x03", text.p[text.n - 1])))
        read = append_read(&text, &got);
    int err = errno;
    bool silent = was_silent(text.n, n_queued);
    cli_catch_interrupts();
    terminal_answer();
    bool interrupted = text.n && text.p[text.n - 1] == INTERRUPT;
    *line = text.p;
    *n = text.n - interrupted;
    if (silent && *n)
        fwrite(text.p, 1, *n, stderr);
    errno = err;
    return !read         ? TERMINAL_FAILED
           : !text.n     ? TERMINAL_END
           : interrupted ? TERMINAL_INTERRUPT
                         : TERMINAL_LINE;
}

/* Without ICANON the terminal counts the bytes of an unfinished line too. The next read sets the
   modes again. */
bool terminal_drop(void)
{
    struct termios t = terminal.found;
    t.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ECHONL);
    tcsetattr(STDIN_FILENO, TCSANOW, &t);
    bool any = waiting() > 0;
    tcflush(STDIN_FILENO, TCIFLUSH);
    shown = 0;
    return any;
}

/* ---- styles */

bool terminal_styles(int fd)
{
    const char *no_color = getenv("NO_COLOR"), *kind = getenv("TERM");
    return system_is_terminal(fd) && !(no_color && *no_color) && kind && *kind &&
           strcmp(kind, "dumb") != 0;
}
