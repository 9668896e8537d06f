#define _POSIX_C_SOURCE 200809L
#include "editor.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    unsigned char queue[4096]; /* bytes of the terminal: [at, end) are still to be read */
    size_t at, end;
} ed;

static char *prompt(EditLine *edit)
{
    (void)edit;
    return (char *)(uintptr_t)ed.prompt;
}

/* ---- keys */

/* The next byte, without taking it; as read(2) returns. */
static int peek(EditLine *edit, unsigned char *byte)
{
    while (ed.at == ed.end) {
        cli_release_interrupts(); /* those from elsewhere: no key makes one now */
        ssize_t n = read(STDIN_FILENO, ed.queue, sizeof ed.queue);
        int err = errno;
        cli_catch_interrupts();
        if (terminal_disturbed()) {
            el_resize(edit);
            el_set(edit, EL_REFRESH);
        }
        errno = err;
        if (n == 0 || (n < 0 && err != EINTR))
            return (int)n;
        ed.at = 0;
        ed.end = n > 0 ? (size_t)n : 0;
    }
    *byte = ed.queue[ed.at];
    return 1;
}

/* Reads a character for libedit, which would drop bytes that are not UTF-8, and end the line at a
   signal. They are U+FFFD here, and so is NUL, which would end the text. */
static int next_key(EditLine *edit, wchar_t *key)
{
    char bytes[4];
    unsigned char byte = 0;
    size_t n = 0;
    uint32_t c = TFT_UTF8_CUT;
    int got = 1;
    while (c == TFT_UTF8_CUT && (got = peek(edit, &byte)) == 1) {
        bytes[n] = (char)byte;
        tft_utf8_next(bytes, n + 1, &c);
        if (c == TFT_UTF8_BAD && n)
            break; /* without this byte, which begins another character */
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
    terminal_disturbed(); /* drawn again in any case */
    return CC_REDISPLAY;
}

/* ---- pastes */

static const wchar_t paste_end[] = L"\x1b[201~";
enum { PASTE_END = sizeof paste_end / sizeof *paste_end - 1 };

/* Inserts all up to the end of a bracketed paste, with its newlines, which a terminal sends as
   carriage returns. */
static unsigned char paste(EditLine *edit, int key)
{
    wchar_t *text = NULL, c;
    size_t n = 0, room = 0;
    (void)key;
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
    return CC_REFRESH;
}

/* ---- the editor */

static enum terminal_read read_line(const char *text, const char **line, size_t *n)
{
    int count;
    ed.prompt = text;
    ed.interrupted = false;
    *line = el_gets(ed.edit, &count);
    terminal_answer();
    *n = *line && count > 0 ? (size_t)count : 0;
    return ed.interrupted ? TERMINAL_INTERRUPT
           : *n           ? TERMINAL_LINE
           : count < 0    ? TERMINAL_FAILED
                          : TERMINAL_END;
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

/* libedit writes characters by the locale, so this has to have UTF-8. Numbers stay those of C. */
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

static void bind(const char *key, const char *name) { el_set(ed.edit, EL_BIND, key, name, NULL); }

const struct editor *editor_open(bool keep)
{
    static const struct editor editor = {read_line, remember};
    const char *kind = getenv("TERM");
    HistEvent event;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || !kind || !*kind ||
        strcmp(kind, "dumb") == 0 || !locale_is_utf8())
        return NULL;
    terminal_begin(true); /* libedit returns to the modes that it finds */
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
    bind("^R", "em-inc-search-prev");
    el_source(ed.edit, NULL); /* the user's ~/.editrc */
    el_wset(ed.edit, EL_ADDFN, L"tuffet-interrupt", L"Drop the line", interrupt);
    el_wset(ed.edit, EL_ADDFN, L"tuffet-suspend", L"Suspend the program", suspend);
    el_wset(ed.edit, EL_ADDFN, L"tuffet-paste", L"Insert a paste", paste);
    bind("^C", "tuffet-interrupt");
    bind("^Z", "tuffet-suspend");
    bind("\\e[200~", "tuffet-paste");
    history(ed.history, &event, H_SETSIZE, HISTORY_ENTRIES);
    ed.keep = keep;
    if (keep)
        history_load(add_entry);
    return &editor;
}
