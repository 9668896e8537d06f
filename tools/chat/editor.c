#define _XOPEN_SOURCE 700 /* wcwidth */
#include "editor.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
#include <wchar.h>

#include "base/utf8.h"
#include "history.h"
#include "tools/cli/cli.h"

static struct {
    EditLine *edit;
    History *history;
    const char *prompt;
    bool keep;
    bool interrupted;          /* Ctrl-C ended the line */
    unsigned char queue[4096]; /* bytes from the terminal; [at, end) are unread */
    size_t at, end;
    bool pastes; /* the last PASTE key was the start of a paste, not Ctrl-^ */
} ed;

enum { PASTE = 0x1e }; /* Ctrl-^ */

static char *prompt(EditLine *edit)
{
    (void)edit;
    return (char *)(uintptr_t)ed.prompt;
}

/* ---- the screen */

/* How many rows the cursor is below the start of the prompt. Terminals that change their width wrap
   a line anew. */
static size_t rows_above(EditLine *edit)
{
    const LineInfoW *line = el_wline(edit);
    size_t width = terminal_columns(), column = strlen(ed.prompt), rows = column / width;
    for (const wchar_t *p = line->buffer; p < line->cursor; p++) {
        int cells = wcwidth(*p);
        column = column % width + (cells < 0 ? 2 : (size_t)cells); /* a control character is ^X */
        rows += *p == L'\n' ? 1 : column / width;
        column = *p == L'\n' ? 0 : column;
    }
    return rows;
}

/* Draws the line again, in its old place. libedit by itself starts where the cursor is. */
static void draw_again(EditLine *edit, enum terminal_change change)
{
    size_t up = change == TERMINAL_RESIZED ? rows_above(edit) : 0;
    fputc('\r', stderr);
    if (up)
        fprintf(stderr, "\x1b[%zuA", up);
    fputs("\x1b[J", stderr);
    el_resize(edit);
    el_set(edit, EL_REFRESH);
}

/* ---- keys */

/* As read(2), but every signal ends the wait, even one with SA_RESTART. */
static ssize_t read_or_signal(void)
{
    fd_set keys;
    FD_ZERO(&keys);
    FD_SET(STDIN_FILENO, &keys);
    if (select(STDIN_FILENO + 1, &keys, NULL, NULL, NULL) < 0)
        return -1;
    return read(STDIN_FILENO, ed.queue + ed.end, sizeof ed.queue - ed.end);
}

/* Adds bytes from the terminal to the queue. Returns 1, or as read(2). */
static int fill(EditLine *edit)
{
    ed.end -= ed.at;
    memmove(ed.queue, ed.queue + ed.at, ed.end);
    ed.at = 0;
    for (;;) {
        cli_release_interrupts(); /* a SIGINT from elsewhere ends the program; no key sends one
                                     now */
        ssize_t n = read_or_signal();
        int err = errno;
        cli_catch_interrupts();
        enum terminal_change change = terminal_changed();
        if (change != TERMINAL_SAME)
            draw_again(edit, change);
        errno = err;
        if (n == 0 || (n < 0 && err != EINTR))
            return (int)n;
        if (n > 0) {
            ed.end += (size_t)n;
            return 1;
        }
    }
}

/* The next byte of the queue, which stays there. Returns 1, or as read(2). */
static int peek(EditLine *edit, unsigned char *byte)
{
    int got = ed.at < ed.end ? 1 : fill(edit);
    *byte = got == 1 ? ed.queue[ed.at] : 0;
    return got;
}

/* Takes the start of a bracketed paste from the queue, if it comes next. libedit cannot have it as
   a key: in vi mode, a key that begins with Escape would replace Escape itself, which leads to vi's
   commands. */
static bool take_paste(EditLine *edit)
{
    static const unsigned char start[] = {0x1b, '[', '2', '0', '0', '~'};
    for (size_t n = 0; n < sizeof start; n++)
        if ((ed.at + n == ed.end && (n < 2 || fill(edit) != 1)) || ed.queue[ed.at + n] != start[n])
            return false;
    ed.at += sizeof start;
    return true;
}

/* Reads a character for libedit. By itself, libedit would drop bytes that are not UTF-8, and end
   the line at a signal. Such bytes become U+FFFD, and so does NUL, which would end the text. */
static int next_key(EditLine *edit, wchar_t *key)
{
    char bytes[4];
    unsigned char byte = 0;
    size_t n = 0;
    uint32_t c = TFT_UTF8_CUT;
    int got = peek(edit, &byte);
    if (got == 1 && take_paste(edit)) {
        ed.pastes = true;
        *key = PASTE;
        return 1;
    }
    while (c == TFT_UTF8_CUT && (got = peek(edit, &byte)) == 1) {
        bytes[n] = (char)byte;
        tft_utf8_next(bytes, n + 1, &c);
        if (c == TFT_UTF8_BAD && n)
            break; /* this byte begins another character */
        n++;
        ed.at++;
    }
    if (!n)
        return got;
    *key = c && c < TFT_UTF8_BAD ? (wchar_t)c : 0xfffd;
    return 1;
}

static unsigned char interrupt(EditLine *edit, int key)
{
    (void)edit;
    (void)key;
    ed.interrupted = true;
    return CC_NEWLINE;
}

static unsigned char suspend(EditLine *edit, int key)
{
    (void)edit;
    (void)key;
    terminal_suspend();
    terminal_changed(); /* libedit draws the line again */
    return CC_REDISPLAY;
}

/* ---- pastes */

static const wchar_t paste_end[] = L"\x1b[201~";
enum { PASTE_END = sizeof paste_end / sizeof *paste_end - 1 };

/* Inserts the text of a bracketed paste, up to its end mark. Newlines, which a terminal sends as
   carriage returns, become newlines again. */
static unsigned char paste(EditLine *edit, int key)
{
    wchar_t *text = NULL, c;
    size_t n = 0, room = 0;
    (void)key;
    if (!ed.pastes)
        return CC_ERROR;
    while (next_key(edit, &c) == 1) {
        if (n + 1 >= room) {
            room = room ? room * 2 : 1024;
            wchar_t *more = realloc(text, room * sizeof *more);
            if (!more)
                break;
            text = more;
        }
        text[n++] = c == '\r' ? '\n' : c;
        if (n >= PASTE_END && wmemcmp(text + n - PASTE_END, paste_end, PASTE_END) == 0) {
            n -= PASTE_END;
            break;
        }
    }
    if (n) {
        text[n] = 0;
        el_winsertstr(edit, text);
    }
    free(text);
    ed.pastes = false;
    return CC_REFRESH;
}

/* ---- the editor */

static enum terminal_read read_line(const char *text, const char **line, size_t *n)
{
    int count;
    ed.prompt = text;
    ed.interrupted = false;
    terminal_edit(); /* libedit makes keys send signals only after it has shown the prompt */
    *line = el_gets(ed.edit, &count);
    terminal_answer();
    *n = *line && count > 0 ? (size_t)count : 0;
    return ed.interrupted ? TERMINAL_INTERRUPT
           : *n           ? TERMINAL_LINE
           : count < 0    ? TERMINAL_FAILED
                          : TERMINAL_END;
}

static bool drop(void)
{
    bool any = ed.at < ed.end;
    ed.at = ed.end = 0;
    return terminal_drop() || any;
}

static void add_entry(const char *entry)
{
    HistEvent event;
    history(ed.history, &event, H_ENTER, entry);
}

static void remember(const char *text, size_t n)
{
    HistEvent newest;
    char *entry = strndup(text, n);
    bool known =
        entry && history(ed.history, &newest, H_FIRST) >= 0 && strcmp(newest.str, entry) == 0;
    if (entry && !known)
        add_entry(entry);
    if (ed.keep && !known)
        history_append(text, n);
    free(entry);
}

/* Sets the locale by which libedit writes characters. Returns whether it has UTF-8. Numbers are
   still written as in C. */
static bool locale_is_utf8(void)
{
    return (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0) ||
           (setlocale(LC_CTYPE, "C.UTF-8") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
}

static void close_editor(void)
{
    history_end(ed.history);
    el_end(ed.edit);
}

/* Binds a key, in the command mode of vi too. */
static void bind(const char *key, const char *name)
{
    el_set(ed.edit, EL_BIND, key, name, NULL);
    el_set(ed.edit, EL_BIND, "-a", key, name, NULL);
}

const struct editor *editor_open(bool keep)
{
    static const struct editor editor = {read_line, drop, remember};
    const char *kind = getenv("TERM");
    HistEvent event;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || !kind || !*kind ||
        strcmp(kind, "dumb") == 0 || !locale_is_utf8())
        return NULL;
    terminal_begin(true); /* libedit later restores the modes that it finds here */
    ed.history = history_init();
    ed.edit = ed.history ? el_init("tuffet", stdin, stderr, stderr) : NULL;
    if (!ed.edit)
        return NULL;
    atexit(close_editor);
    el_set(ed.edit, EL_PROMPT, prompt);
    el_set(ed.edit, EL_EDITOR, "emacs");
    el_set(ed.edit, EL_HIST, history, ed.history);
    el_wset(ed.edit, EL_GETCFN, next_key);
    el_set(ed.edit, EL_SETTY, "-d", "-isig", NULL);
    el_set(ed.edit, EL_SETTY, "-x", "-echo", "-icanon", NULL);
    el_set(ed.edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(ed.edit, NULL); /* the user's ~/.editrc */
    el_wset(ed.edit, EL_ADDFN, L"tuffet-interrupt", L"Drop the line", interrupt);
    el_wset(ed.edit, EL_ADDFN, L"tuffet-suspend", L"Suspend the program", suspend);
    el_wset(ed.edit, EL_ADDFN, L"tuffet-paste", L"Insert a paste", paste);
    bind("^C", "tuffet-interrupt");
    bind("^Z", "tuffet-suspend");
    bind("^^", "tuffet-paste");
    history(ed.history, &event, H_SETSIZE, HISTORY_ENTRIES);
    ed.keep = keep;
    if (keep)
        history_load(add_entry);
    return &editor;
}
