/* Runs of characters of some kinds: a state allows every character of the kinds, so a walk need not
   test each. */
#ifndef TFT_RUNS_H
#define TFT_RUNS_H

#include "automaton.h"

/* Fills in top, kinds, run, exits and after of all states. False: out of memory. */
bool tft_runs_find(struct tft_grammar *g, const struct tft_allocator *a);

#endif
