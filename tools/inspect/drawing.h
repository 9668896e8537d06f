/* The file of a drawing, which gets its name when it is complete. */
#ifndef INSPECT_DRAWING_H
#define INSPECT_DRAWING_H

#include <stdio.h>

#include "port/port.h"

struct drawing {
    char *path; /* with room for temp.name after it; NULL: not begun */
    struct tft_temp temp;
    FILE *file; /* NULL: not begun, or finished */
};

/* Creates the file of the path `prefix` and `suffix`. Returns CLI_OK or CLI_FAILED, as the next. */
int drawing_begin(struct drawing *d, const char *prefix, const char *suffix);

/* Gives the file its name. */
int drawing_finish(struct drawing *d);

/* Removes the file if it is not finished. Accepts all zeros. */
void drawing_end(struct drawing *d);

/* The path without its folders. */
const char *drawing_file_name(const char *path);

#endif
