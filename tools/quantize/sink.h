/* Where a report goes: to a stream, or into memory. */
#ifndef QUANTIZE_SINK_H
#define QUANTIZE_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* A stream, and zeros; or all zeros, for memory. */
struct sink {
    FILE *f;
    char *text; /* [n], and a NUL; to be freed; NULL: nothing was printed */
    size_t n, room;
    bool failed; /* memory was short: something is missing */
};

void sink_print(struct sink *to, const char *fmt, ...) TFT_PRINTF(2, 3);

/* As tft_utf8_escape does. */
void sink_escaped(struct sink *to, const char *p, size_t n);

/* ,"name":x of JSON; null if x is not finite, which JSON cannot express. */
void sink_number(struct sink *to, const char *name, double x);

#endif
