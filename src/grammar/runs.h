/* What whole kinds of characters lead to, so that a walk need not look at each character. */
#ifndef TFT_RUNS_H
#define TFT_RUNS_H

#include "automaton.h"

/* Fills in the states' kinds and run. False: out of memory. */
bool tft_runs_find(struct tft_grammar *g, const struct tft_allocator *a);

#endif
