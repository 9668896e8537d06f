/* The log of requests: a line for each request that has its reply; never its contents. */
#ifndef SERVE_LOG_H
#define SERVE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct log {
    enum { LOG_NONE, LOG_TEXT, LOG_JSON } form; /* in the order of --log's words */
    const char *path;                           /* NULL: standard error */
    FILE *f;
};

struct log_entry {
    int64_t time; /* seconds since 1970 */
    const char *method, *path;
    const char *model, *key; /* the key's name; both NULL: none */
    int status;
    size_t n_prompt, n_answer; /* tokens */
    double ms;                 /* to the end of the reply */
};

/* Opens the file, or opens it again: another program may have renamed it. Returns CLI_OK, or
   CLI_FAILED after an error message; the file that was open stays so. */
int log_open(struct log *l);
void log_close(struct log *l);

void log_write(struct log *l, const struct log_entry *e);

#endif
