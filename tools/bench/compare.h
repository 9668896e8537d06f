/* Two programs measure the same model in turn: tuffet bench --compare. */
#ifndef COMPARE_H
#define COMPARE_H

#include <stdbool.h>
#include <stdint.h>

/* Fewer pairs give no verdict: with five, chance alone puts all on one side in one row of 16. */
enum { COMPARE_FEWEST = 5, COMPARE_ARGS = 64 };

struct compare {
    const char *own, *other;        /* the programs */
    const char *args[COMPARE_ARGS]; /* [n_args] of "bench", for both: the model, then options */
    int n_args;
    uint32_t pairs; /* at most RUNS_MOST */
    bool json;
};

/* Runs both programs in turn, the other one first in every second pair, and prints a row for each
   measurement. Returns a status of tools/cli/cli.h. */
int compare_programs(const struct compare *c);

#endif
