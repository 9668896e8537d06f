/* The cost of a run of tuffet quantize, printed before it begins. */
#ifndef COMMAND_QUANTIZE_PLAN_H
#define COMMAND_QUANTIZE_PLAN_H

#include "tools/cli/cli.h"
#include "tools/quantize/tuffet_quantize.h"

/* Checks that the disk has room for the file `out` and for temporary ones beside it. Prints time,
   disk and memory: if it takes long, or at a terminal. threads: 0: tft_cpu_threads(). Returns
   CLI_OK, or CLI_FAILED after an error message. */
int quantize_plan(const struct tft_quantize_plan *p, const char *out, int threads, bool quiet);

#endif
