/* Runs a command for the model: a program and its arguments, without a shell. */
#ifndef PROCESS_H
#define PROCESS_H

#include "tools/cli/cli.h"

struct process {
    const char *const *argv; /* NULL ends it; without a slash, argv[0] is looked up in PATH */
    const char *in;          /* [n_in] its standard input */
    size_t n_in;
    size_t most;      /* most bytes of standard output to keep */
    uint32_t seconds; /* the command is ended after these */
};

struct process_result {
    struct cli_text out; /* its output, the first `most` bytes; the caller frees out.p */
    size_t left_out;     /* the number of bytes after these */
    enum {
        PROCESS_EXITED,      /* code: the exit status */
        PROCESS_SIGNAL,      /* code: the signal that ended it */
        PROCESS_TIME,        /* it took too long */
        PROCESS_INTERRUPT,   /* Ctrl-C ended it, or came before it began */
        PROCESS_NOT_STARTED, /* code: errno */
    } end;
    int code;
};

/* Runs the command to its end. The command is a process group of its own: Ctrl-C, the time, and a
   signal that ends the program end all processes of the group; the rest of the group ends with the
   command. Ctrl-C must be caught (cli_catch_interrupts); it is caught anew after it has ended a
   command. Standard error is the program's. */
void process_run(const struct process *p, struct process_result *r);

#endif
