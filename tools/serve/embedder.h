/*
 * The part of the engine that computes embeddings. It has a session of its own, so the slots keep
 * their tokens, and takes one text at a time, from the clients in turn. Its chunks take turns with
 * those of prompts, and are no longer. The vector of a text goes to its job as ITEM_VECTOR. It
 * depends on the text alone. The engine's thread alone calls these functions.
 */
#ifndef SERVE_EMBEDDER_H
#define SERVE_EMBEDDER_H

#include "embedder_state.h"

struct engine;
struct step;

/* False: out of memory. The session is opened by the first text. */
bool embedder_open(struct embedder *m, const struct tft_model *model, enum pooling pooling);
void embedder_close(struct embedder *m); /* m may be all zero */

/* Takes the next text, if it has none and there is one. Under the lock, which it leaves for a
   while. Returns whether it has one. */
bool embedder_begin(struct engine *e);

/* Ends the jobs that are cancelled. */
void embedder_end_cancelled(struct engine *e);

/* Behind a pass that has fed its session. */
void embedder_go_on(struct engine *e, const struct step *t);

#endif
