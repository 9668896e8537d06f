/* The cost of a run of tuffet quantize, printed before it begins. */
#ifndef QUANTIZE_PLAN_H
#define QUANTIZE_PLAN_H

#include "tools/cli/cli.h"
#include "tools/quantize/inside.h"

/* Checks that the disk has room for the file `out` and the copies of it that steps make, and prints
   time, disk and memory: if it takes long, or at a terminal. o: with bits, n_threads and rotate.
   tokens: of the calibration text. Returns CLI_OK, or CLI_FAILED after an error message. */
int quantize_plan(const struct tft_model *m, const struct quantize_opts *o, const char *out,
                  uint32_t tokens, bool quiet);

#endif
