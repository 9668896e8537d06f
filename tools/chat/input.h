/*
 * The user's messages, from a terminal or a pipe. A message is a line; or several lines, all but
 * the last with a backslash at the end; or all text between """ and """, unchanged; or a paste of
 * several lines.
 */
#ifndef INPUT_H
#define INPUT_H

#include "editor.h"
#include "tools/cli/cli.h"

struct input {
    bool terminal;
    const struct editor *editor; /* or NULL */
    struct cli_text text;        /* the last message */
    bool quoted;                 /* the message was between """ */
    struct cli_text line;        /* the last line from a pipe */
    bool begun;                  /* a line has come from the pipe */
};

/* keep: the history is kept in a file too. */
void input_open(struct input *in, bool keep);
void input_close(struct input *in);

/* INPUT_INTERRUPT: Ctrl-C at a terminal; text.n is 0 if nothing had been typed. (In a pipe, Ctrl-C
   ends the program.) INPUT_END: the end of the input, or Ctrl-D. INPUT_FAILED: an error, after its
   message. Input that ends after an opening """ is an error too; at a terminal it gives
   INPUT_INTERRUPT. */
enum input_kind { INPUT_MESSAGE, INPUT_INTERRUPT, INPUT_END, INPUT_FAILED };
enum input_kind input_next(struct input *in);

/* Asks a question at the terminal. What was typed before the question is no answer: it is dropped,
   after a note. Returns whether a line came, without its newline: line[*n], valid until the next
   call; false: Ctrl-C or Ctrl-D came. The last message stays. */
bool input_ask(struct input *in, const char *question, const char **line, size_t *n);

#endif
