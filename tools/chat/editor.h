/* A line editor for the terminal: keys, history, and pastes of several lines, by libedit; a build
   without libedit has none. */
#ifndef EDITOR_H
#define EDITOR_H

#include <stddef.h>

#include "terminal.h"

struct editor {
    /* Reads a line, up to Enter: line[*n], valid until the next call. A pasted line may contain
       newlines. TERMINAL_INTERRUPT: Ctrl-C came, and dropped *n bytes. */
    enum terminal_read (*read)(const char *prompt, const char **line, size_t *n);
    /* As terminal_drop. */
    bool (*drop)(void);
    /* Adds a text to the history. */
    void (*remember)(const char *text, size_t n);
};

/* Opens the editor, and calls terminal_begin. NULL: this build has no editor, or standard input and
   standard error are not a terminal that it can draw on. keep: the history is kept in a file
   too. */
const struct editor *editor_open(bool keep);

#endif
