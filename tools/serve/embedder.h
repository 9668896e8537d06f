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

/* If no text is under way, begins with the next one. Call it with the engine's lock, which it
   releases for a while. Returns whether a text is under way. */
bool embedder_begin(struct engine *e);

/* Ends the jobs that are cancelled. */
void embedder_end_cancelled(struct engine *e);

/* Call it after a pass that has fed the embedder's session. */
void embedder_go_on(struct engine *e, const struct step *t);

#endif
