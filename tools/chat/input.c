#define _POSIX_C_SOURCE 200809L
#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "tools/cli/system.h"

static const char prompt[] = "> ", prompt_more[] = "... ", quotes[] = "\"\"\"";
enum {
    QUOTES = sizeof quotes - 1,
    MOST = 16 << 20, /* bytes of a message: more tokens than any context */
};

void input_open(struct input *in, bool keep)
{
    *in = (struct input){.terminal = system_is_terminal(STDIN_FILENO)};
    if (in->terminal)
        in->editor = editor_open(keep);
    if (in->terminal && !in->editor)
        terminal_begin(false);
}

void input_close(struct input *in)
{
    free(in->text.p);
    free(in->line.p);
}

/* ---- a line */

static enum input_kind read_pipe(struct input *in, const char **line, size_t *n)
{
    int c = 0;
    /* While it waits, Ctrl-C ends the program. A flag would not do: if set just before getchar, it
       would be seen only after getchar. */
    cli_release_interrupts();
    in->line.n = 0;
    while (c != '\n' && in->line.n <= MOST && (c = getchar()) != EOF)
        if (!cli_text_append(&in->line, &(char){(char)c}, 1)) {
            errno = ENOMEM;
            return INPUT_FAILED;
        }
    size_t mark = in->begun ? 0 : tft_utf8_mark(in->line.p, in->line.n);
    in->begun = true;
    *line = mark ? in->line.p + mark : in->line.p; /* NULL, if no line came */
    *n = in->line.n - mark;
    return ferror(stdin) ? INPUT_FAILED : *n ? INPUT_MESSAGE : INPUT_END;
}

static enum input_kind read_terminal(struct input *in, const char *text, const char **line,
                                     size_t *n)
{
    static const enum input_kind kinds[] = {
        [TERMINAL_LINE] = INPUT_MESSAGE,
        [TERMINAL_INTERRUPT] = INPUT_INTERRUPT,
        [TERMINAL_END] = INPUT_END,
        [TERMINAL_FAILED] = INPUT_FAILED,
    };
    enum terminal_read found =
        in->editor ? in->editor->read(text, line, n) : terminal_line(text, line, n);
    if (found == TERMINAL_INTERRUPT || found == TERMINAL_END)
        fputc('\n', stderr);
    return kinds[found];
}

/* Reads a line without its newline: line[*n]. */
static enum input_kind read_line(struct input *in, const char *text, const char **line, size_t *n)
{
    enum input_kind found =
        in->terminal ? read_terminal(in, text, line, n) : read_pipe(in, line, n);
    if (found == INPUT_FAILED)
        cli_fail("standard input: %s", strerror(errno));
    if (found == INPUT_MESSAGE)
        while (*n && strchr("\r\n", (*line)[*n - 1]) && (*line)[*n - 1])
            --*n;
    if (!*n)
        *line = ""; /* libedit has no line if Ctrl-C came first */
    return found;
}

/* ---- a message */

static enum input_kind append(struct input *in, const char *p, size_t n)
{
    if (n > MOST - in->text.n) {
        cli_fail_endless("the message", MOST);
        return INPUT_FAILED;
    }
    if (cli_text_append(&in->text, p, n))
        return INPUT_MESSAGE;
    cli_fail("out of memory");
    return INPUT_FAILED;
}

/* Reads the lines that follow a line with a backslash at its end. */
static enum input_kind read_continued(struct input *in)
{
    const char *line;
    size_t n = 0;
    enum input_kind found = INPUT_MESSAGE;
    bool more = true;
    while (found == INPUT_MESSAGE && more) {
        in->text.p[in->text.n - 1] = '\n';
        found = read_line(in, prompt_more, &line, &n);
        if (found == INPUT_END)
            return INPUT_MESSAGE;
        if (found == INPUT_MESSAGE)
            found = append(in, line, n);
        more = n && line[n - 1] == '\\';
    }
    return found;
}

/* Removes the newline after the opening quotes, and the one before the closing quotes. */
static void trim(struct cli_text *t)
{
    if (t->n && t->p[0] == '\n')
        memmove(t->p, t->p + 1, --t->n);
    if (t->n && t->p[t->n - 1] == '\n')
        t->n--;
}

/* Reads up to the closing quotes. in->text has the rest of the first line. */
static enum input_kind read_quoted(struct input *in)
{
    const char *line;
    size_t n = 0;
    in->quoted = true;
    while (in->text.n < QUOTES || memcmp(in->text.p + in->text.n - QUOTES, quotes, QUOTES) != 0) {
        enum input_kind found = append(in, "\n", 1);
        if (found == INPUT_MESSAGE)
            found = read_line(in, prompt_more, &line, &n);
        if (found == INPUT_MESSAGE)
            found = append(in, line, n);
        if (found == INPUT_END) {
            cli_fail("the message that begins with %s does not end with %s", quotes, quotes);
            found = in->terminal ? INPUT_INTERRUPT : INPUT_FAILED;
        }
        if (found != INPUT_MESSAGE)
            return found;
    }
    in->text.n -= QUOTES;
    trim(&in->text);
    return INPUT_MESSAGE;
}

/* Adds the message to the history. A single line in """ keeps its quotes: without them it might be
   a command. */
static void remember(const struct input *in)
{
    const char *p = in->text.p;
    size_t n = in->text.n;
    struct cli_text line = {0};
    if (!in->quoted || memchr(p, '\n', n))
        in->editor->remember(p, n);
    else if (cli_text_append(&line, quotes, QUOTES) && cli_text_append(&line, p, n) &&
             cli_text_append(&line, quotes, QUOTES))
        in->editor->remember(line.p, line.n);
    free(line.p);
}

enum input_kind input_next(struct input *in)
{
    const char *line;
    size_t n = 0;
    in->text.n = 0;
    in->quoted = false;
    enum input_kind found = read_line(in, prompt, &line, &n);
    if (found == INPUT_END || found == INPUT_FAILED)
        return found;
    bool pasted = memchr(line, '\n', n); /* no line of a paste is special */
    bool opens = !pasted && n >= QUOTES && memcmp(line, quotes, QUOTES) == 0;
    enum input_kind kept = append(in, line + (opens ? QUOTES : 0), n - (opens ? QUOTES : 0));
    if (found == INPUT_INTERRUPT || kept == INPUT_FAILED)
        return kept == INPUT_FAILED ? kept : found;
    found = opens                                 ? read_quoted(in)
            : !pasted && n && line[n - 1] == '\\' ? read_continued(in)
                                                  : INPUT_MESSAGE;
    if (found == INPUT_MESSAGE && in->editor && in->text.n)
        remember(in);
    return found;
}

bool input_ask(struct input *in, const char *question, const char **line, size_t *n)
{
    *n = 0;
    if (in->editor ? in->editor->drop() : terminal_drop())
        fputs("tuffet: what was typed before this question is dropped\n", stderr);
    return read_line(in, question, line, n) == INPUT_MESSAGE;
}
