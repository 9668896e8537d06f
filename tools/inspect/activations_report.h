/* What tuffet inspect --activations says, for people and for programs, and draws. */
#ifndef INSPECT_ACTIVATIONS_REPORT_H
#define INSPECT_ACTIVATIONS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct activations_report_opts {
    const char *text; /* file */
    const char *svg;  /* what the names of the drawings begin with, or NULL */
    uint32_t tokens;  /* of text, at most */
    bool json;
};

/* The command's exit status. Model, session and threads are those of the command line: cli.h. */
int activations_report(const char *model, const struct activations_report_opts *o);

#endif
