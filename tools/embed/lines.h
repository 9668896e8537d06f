/* The texts of a file: one a line. */
#ifndef EMBED_LINES_H
#define EMBED_LINES_H

#include "tools/cli/cli.h"

struct lines {
    const char *path; /* for messages */
    char *all;
    struct cli_text *text; /* [n], parts of `all` */
    size_t n;
};

/* Reads a file; path NULL or "-": standard input. json: each line is a text as a string of JSON.
   Returns CLI_OK, CLI_FAILED or CLI_USAGE. Call lines_free in any case. */
int lines_read(struct lines *l, const char *path, bool json);
void lines_free(struct lines *l);

#endif
