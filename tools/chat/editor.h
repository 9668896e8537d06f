/* A line editor for the terminal: keys, history, and pastes of several lines. By libedit; without
   it there is none. */
#ifndef EDITOR_H
#define EDITOR_H

#include <stddef.h>

#include "terminal.h"

struct editor {
    /* Reads what is typed up to Enter: line[*n], valid until the next call, with newlines inside if
       a paste had them. TERMINAL_INTERRUPT: Ctrl-C; *n is how much it dropped. */
    enum terminal_read (*read)(const char *prompt, const char **line, size_t *n);
    /* Adds a text to the history. */
    void (*remember)(const char *text, size_t n);
};

/* The editor, which calls terminal_begin; NULL if there is none, or standard input and error are
   not a terminal that it can draw on. keep: the history is also in a file. */
const struct editor *editor_open(bool keep);

#endif
