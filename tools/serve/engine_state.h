/* The inside of the engine, shared by engine.c and pass.c. */
#ifndef SERVE_ENGINE_STATE_H
#define SERVE_ENGINE_STATE_H

#include <pthread.h>

#include "baton.h"
#include "embedder_state.h"
#include "engine_types.h"
#include "pace.h"
#include "slot.h"

enum { N_BATCH = 256 }; /* most tokens of a pass */

/* The share of a slot in a pass. */
struct step {
    struct slot *slot;
    size_t n, before; /* tokens to feed; tokens of its session before */
    enum tft_status status;
};

struct engine {
    struct engine_options o;
    struct slot *slots;     /* [o.n_slots] */
    struct embedder embedder;
    struct step *steps;     /* [o.n_slots + 1] of a pass */
    struct tft_step *feeds; /* [o.n_slots + 1] the same for the batch */
    struct tft_batch *batch;
    struct store *store; /* NULL: sessions that lose their slot are dropped */
    size_t capacity, session_bytes; /* of a slot */
    struct tft_ends closed; /* of sessions that are closed; of the engine's thread */
    struct baton_turn turn;
    struct pace pace;
    size_t n_open; /* jobs and chores that have not ended; of the clients' thread */
    pthread_t thread, shaper;
    bool started, shapes;
    struct tft_lexicon *lexicon; /* the shaper's, opened by the first grammar */

    pthread_mutex_t lock; /* of all fields below */
    pthread_cond_t work;
    struct job *waiting, **last;
    struct job *shaping, **last_shaping; /* jobs whose form is not compiled yet */
    pthread_cond_t shape;                /* there is one */
    struct chore *chores, *done; /* waiting, in their order; done, newest first */
    struct item *items, **last_item;
    size_t n_off; /* slots that are off */
    bool closing;
    struct engine_counts counts;
};

/* Queues an item; user: the engine. A job_put. */
bool engine_item(void *user, struct job *j, enum item_kind kind, size_t index, const char *p,
                 size_t n);

/* Ends a job, which the clients' thread may then free. finish: or NULL after an error in
   j->error. */
void engine_end(struct engine *e, struct job *j, const char *finish);
void engine_fail(struct engine *e, struct job *j, const char *why);

/* The answer is complete: by the model, by the number of its tokens, or by a stop. */
void engine_complete(struct engine *e, struct job *j, const char *finish);

/* Closes the session of a slot, which may be NULL. */
void engine_close_slot(struct engine *e, struct slot *s);

/* One pass over all slots that have jobs, and the embedder. */
void engine_pass(struct engine *e);

#endif
