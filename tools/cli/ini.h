/* Files of settings: sections, and lines NAME = VALUE in them. */
#ifndef INI_H
#define INI_H

#include "cli.h"

enum { INI_MOST = 1 << 20 }; /* bytes of a file */

struct ini_line {
    const char *path;
    size_t line;
    const char *section; /* between the brackets; NULL: before the first one */
    const char *name;    /* NULL: the section begins */
    const char *value;   /* without quotes around it */
};

/* Gives `take` the lines of a text with a NUL after text[n], but empty ones, and ones that begin
   with # or ;. Changes the text, which the lines point to. Returns CLI_OK, or the first other
   result of `take`, or CLI_FAILED after an error message, which names the line. */
int ini_read(const char *path, char *text, size_t n,
             int (*take)(void *user, const struct ini_line *l), void *user);

/* The file and the line, for messages. */
enum { INI_WHERE = 4200 };
const char *ini_where(const struct ini_line *l, char where[INI_WHERE]);

#endif
