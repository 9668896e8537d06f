/* Options and counters of an engine (engine.h). */
#ifndef SERVE_ENGINE_TYPES_H
#define SERVE_ENGINE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "baton.h"
#include "pooling.h"
#include "store.h"

/* Since the model was opened for the first time; `running` and `waiting` are of now. */
struct engine_counts {
    uint64_t prompt_tokens, cached_tokens, tokens, passes, steps; /* steps: slots fed by passes */
    double prompt_seconds, seconds;
    uint64_t hits[STORE_DISK + 1];        /* prompts that began in a slot, in memory, on disk */
    uint64_t saved;                       /* sessions, in memory */
    size_t running, waiting, most_tokens; /* most_tokens: of a session */
    struct tft_ends ends; /* of all sessions */
    double calibrated_ends; /* tft_calibrated_ends */
};

struct engine_options {
    const struct tft_model *m;
    uint32_t n_slots, n_queue; /* jobs at once; jobs that wait */
    uint32_t ctx;              /* of a slot; 0: the program's option */
    const char *kv;            /* likewise, or NULL */
    enum tft_pooling pooling;
    struct store_options store;
    struct baton *baton;      /* of the engines of all models; NULL: there is one */
    void (*wake)(void *user); /* called by the engine's thread: items are ready */
    void *user;
    struct engine_counts past; /* of the model's engines before, none of which is open */
};

#endif
