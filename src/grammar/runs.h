/* Runs of characters that a state allows whatever they are, so that a walk need not look at
   each. */
#ifndef TFT_RUNS_H
#define TFT_RUNS_H

#include "automaton.h"

/* Fills in top, kinds, run, exits and after of all states. False: out of memory. */
bool tft_runs_find(struct tft_grammar *g, const struct tft_allocator *a);

#endif
