/* The inside of the embedder (embedder.h), a part of the engine. */
#ifndef SERVE_EMBEDDER_STATE_H
#define SERVE_EMBEDDER_STATE_H

#include "pooling.h"
#include "slot.h"

struct embedder {
    enum tft_pooling pooling;
    struct slot
        slot;      /* its session, and the job of the current text; not one of the engine's slots */
    double *sum;   /* [n_embd] of the tokens so far */
    float *vector; /* [n_embd] */
    uint32_t n_embd;
    struct packed *packed; /* in place of the session: whole texts of several jobs in a pass */
    uint64_t turn, client; /* number of texts so far, and the client of the last one */
    struct job *jobs;      /* in their order; protected, like the next two, by the engine's lock */
    size_t n_jobs;
};

#endif
