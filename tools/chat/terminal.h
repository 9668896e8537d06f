/*
 * The terminal during a conversation. Input typed while the program computes is not echoed, and
 * stays in the terminal's queue for the next prompt. The original modes are restored when the
 * program exits, when a signal ends it, and while it is suspended.
 */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* Changes the modes for the first time. keys: the program will read single keys and pastes;
   otherwise lines. Does nothing unless standard input is a terminal. */
void terminal_begin(bool keys);

/* Makes a signal that ends the program end dim text on standard output first, also if standard
   input is not a terminal. */
void terminal_write(void);

/* Sets the modes for an answer: no echo, and Ctrl-C is a signal. */
void terminal_answer(void);

/* Sets the modes in which an editor shows its prompt: Ctrl-C is already a key. */
void terminal_edit(void);

/* Reads a line, which the terminal itself edits: line[*n], with its newline, valid until the next
   call. */
enum terminal_read { TERMINAL_LINE, TERMINAL_INTERRUPT, TERMINAL_END, TERMINAL_FAILED };
enum terminal_read terminal_line(const char *prompt, const char **line, size_t *n);

/* Drops all that was typed and not yet read. Returns whether there was anything. */
bool terminal_drop(void);

/* Suspends the program, as Ctrl-Z does. */
void terminal_suspend(void);

/* What has happened to the screen since the last call. TERMINAL_RESUMED: the program was suspended,
   and others have written. */
enum terminal_change { TERMINAL_SAME, TERMINAL_RESIZED, TERMINAL_RESUMED };
enum terminal_change terminal_changed(void);

/* The number of columns of standard error. */
size_t terminal_columns(void);

/* Whether control sequences that style text may be sent to this descriptor: it is a terminal that
   knows the sequences, and NO_COLOR (no-color.org) is not set. */
bool terminal_styles(int fd);

#endif
