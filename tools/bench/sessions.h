/* Several sessions that generate at the same time, timed: tuffet bench --sessions. */
#ifndef SESSIONS_H
#define SESSIONS_H

#include <stddef.h>

#include "samples.h"
#include "tuffet.h"

struct sessions_opts {
    const struct tft_model *m;
    uint32_t n, depth, tokens; /* sessions; tokens of each before, and generated */
    int threads;
    const int32_t *ids; /* [depth + tokens] input of each session; the tokens of the others do not
                           matter to its speed, except in a mixture of experts */
    struct samples *limits; /* measured between the runs */
};

/* seconds[runs]: each for n * tokens tokens, one of each session in a pass. *bytes: the memory of
   the sessions and the batch. Returns a status of tools/cli/cli.h. */
int time_sessions(double *seconds, size_t *bytes, uint32_t runs, const struct sessions_opts *o);

#endif
