/*
 * Recurrent states: the memory that a layer without attention keeps of earlier tokens, of a size
 * that does not grow. A copy is the states of all layers, one after the other (tft_layer.state).
 *
 * A state cannot be rewound. So the session keeps copies, checkpoints: a rewind takes the newest
 * one up to its position, and computes the tokens from there again. A pass with draft tokens writes
 * the states after each of them to a copy of its own, so rejected ones leave no trace.
 */
#ifndef TFT_STATES_H
#define TFT_STATES_H

#include "base/arena.h"
#include "model/model.h"

/* A checkpoint is due once this many tokens have come since the last one. */
enum { TFT_CHECKPOINT_EACH = 512 };

struct tft_checkpoint {
    uint32_t pos; /* tokens before the state, without the prefix */
    float *state;
};

struct tft_states {
    size_t size;        /* floats of a copy; 0: the model has no states, and nothing is allocated */
    float *now;         /* [size] after the tokens of the cache */
    float *undo;        /* [size] before the pass that runs, if that may be stopped */
    const float *first; /* [size] after the prefix; NULL: all zero */
    float **draft;      /* [n_draft][size] after draft tokens 1, 2, ... of the last pass. As long as
                           the session may use them, they begin with the next token */
    uint32_t n_draft;
    struct tft_checkpoint *checkpoint; /* [most] the n first are in use, the oldest first */
    uint32_t n, most;
};

/* Takes the memory of `most` checkpoints, of n_draft draft tokens and of two more copies, or counts
   it. */
void tft_states_layout(struct tft_states *s, struct tft_arena *a, size_t size, uint32_t most,
                       uint32_t n_draft);

/* Goes back to the prefix, and forgets all checkpoints. */
void tft_states_reset(struct tft_states *s);

/* Before and after a pass that may be stopped. */
void tft_states_begin(struct tft_states *s);
void tft_states_undo(struct tft_states *s);

/* The copy that a pass moves on: that of draft token `draft`, or `now` if that is 0. */
static inline float *tft_states_at(const struct tft_states *s, uint32_t draft)
{
    return draft ? s->draft[draft - 1] : s->now;
}

/* The next token equals the first draft token: goes on to the states after it. */
void tft_states_accept(struct tft_states *s);

/* Make a checkpoint at pos, the session's position; tft_states_step only if one is due. If all are
   in use, the one with the closest neighbours is dropped. */
void tft_states_keep(struct tft_states *s, uint32_t pos);
void tft_states_step(struct tft_states *s, uint32_t pos);

/* Forgets the oldest checkpoint. There must be one. */
void tft_states_drop_oldest(struct tft_states *s);

/* The position of the newest checkpoint up to pos; 0: there is none. */
uint32_t tft_states_before(const struct tft_states *s, uint32_t pos);

/* Goes back to the checkpoint at pos, which tft_states_before has named, or to the prefix if pos is
   0, and forgets later checkpoints. */
void tft_states_back(struct tft_states *s, uint32_t pos);

/* Forgets the checkpoints after a slide, which moves positions. */
void tft_states_forget(struct tft_states *s);

#endif
