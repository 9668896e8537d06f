/*
 * What the user says, message by message, from a terminal or a pipe: a line; or several, where
 * each but the last ends in a backslash; or all between """ and """, which nothing is read into; or
 * a paste of several lines.
 */
#ifndef INPUT_H
#define INPUT_H

#include "editor.h"
#include "tools/cli/cli.h"

struct input {
    bool terminal;
    const struct editor *editor; /* or NULL */
    struct cli_text text;        /* what was read last */
    bool quoted;                 /* it was between """ */
    char *line;                  /* [room] of getline */
    size_t room;
};

/* keep: the history is also in a file. */
void input_open(struct input *in, bool keep);
void input_close(struct input *in);

/* INPUT_INTERRUPT: Ctrl-C at a terminal; text.n is 0 if nothing had been typed. In a pipe, Ctrl-C
   ends the program. INPUT_END: the input ends, or Ctrl-D. INPUT_FAILED: after an error message.
   (Where the input ends behind an opening """, that is an error, at a terminal with
   INPUT_INTERRUPT.) */
enum input_kind { INPUT_MESSAGE, INPUT_INTERRUPT, INPUT_END, INPUT_FAILED };
enum input_kind input_next(struct input *in);

#endif
