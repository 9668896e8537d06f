#define _WIN32_WINNT 0x0a00
#include "terminal.h"

#include <errno.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <windows.h>

#include "tools/cli/cli.h"
#include "tools/cli/system.h"

#define PLAIN "\x1b[0m"
enum { CTRL_D = 4, CTRL_Z = 26 }; /* either ends the input */

/* Modes need no change: a console echoes and edits a line only while one is read. */

static void end_style(void)
{
    if (write(STDOUT_FILENO, PLAIN, sizeof PLAIN - 1) < 0)
        return; /* the console is gone, and needs nothing */
}

void terminal_write(void)
{
    if (terminal_styles(STDOUT_FILENO))
        cli_before_interrupt(end_style);
}

void terminal_begin(bool keys)
{
    (void)keys;
    if (system_is_terminal(STDIN_FILENO))
        terminal_write();
}

/* ---- lines */

/* text = the UTF-16 in wide[], which is complete, as UTF-8. Returns false if out of memory. */
static bool take_utf8(struct cli_text *text, const struct cli_text *wide)
{
    const wchar_t *p = (const wchar_t *)(const void *)wide->p;
    int n = (int)(wide->n / sizeof *p), len = WideCharToMultiByte(CP_UTF8, 0, p, n, NULL, 0, 0, 0);
    text->n = 0;
    if (text->room < (size_t)len) {
        char *more = realloc(text->p, (size_t)len);
        if (!more)
            return false;
        text->p = more;
        text->room = (size_t)len;
    }
    text->n = (size_t)WideCharToMultiByte(CP_UTF8, 0, p, n, text->p, len, 0, 0);
    return true;
}

enum terminal_read terminal_line(const char *prompt, const char **line, size_t *n)
{
    static struct cli_text text, wide;
    CONSOLE_READCONSOLE_CONTROL ends = {sizeof ends, 0, 1 << CTRL_D | 1 << CTRL_Z, 0};
    wchar_t piece[512], last = 0;
    DWORD got = 1;
    bool read = true, ended = false;
    cli_catch_interrupts(); /* Ctrl-C makes ReadConsole return nothing */
    fputs(prompt, stderr);
    wide.n = 0;
    while (read && got && last != '\n' && !ended) {
        read = ReadConsoleW(GetStdHandle(STD_INPUT_HANDLE), piece, 512, &got, &ends);
        last = read && got ? piece[got - 1] : 0;
        bool ends_input = last == CTRL_D || last == CTRL_Z; /* after a text, it does not */
        read = read &&
               cli_text_append(&wide, (const char *)piece, (got - ends_input) * sizeof *piece);
        ended = ends_input && !wide.n;
    }
    read = read && (!wide.n || take_utf8(&text, &wide));
    /* The thread that sets the flag may be late: the flag must not count as the next Ctrl-C. */
    for (int i = 0; i < 100 && !got && !cli_interrupted(); i++)
        Sleep(1);
    *line = text.p;
    *n = wide.n && got ? text.n : 0;
    errno = EIO;
    return !read   ? TERMINAL_FAILED
           : !got  ? TERMINAL_INTERRUPT
           : ended ? TERMINAL_END
                   : TERMINAL_LINE;
}

/* A console's queue has key releases and window events too: no count says whether a key was typed.
   */
bool terminal_drop(void)
{
    FlushConsoleInputBuffer(GetStdHandle(STD_INPUT_HANDLE));
    return false;
}

/* ---- styles */

bool terminal_styles(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    DWORD mode;
    return !(no_color && *no_color) && GetConsoleMode((HANDLE)_get_osfhandle(fd), &mode) &&
           mode & ENABLE_VIRTUAL_TERMINAL_PROCESSING;
}
