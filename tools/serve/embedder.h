/*
 * The part of the engine that computes embeddings. It has a session of its own, so the slots keep
 * their tokens, and takes one text at a time, from the clients in turn. Its chunks alternate with
 * the chunks of prompts, and have the same largest size. An encoder has no session: there, a pass
 * takes whole texts of several requests (tft_embed). The vector of a text, or the score of a pair,
 * goes to its job as ITEM_VECTOR, and depends on the text alone. Only the engine's thread calls
 * these functions.
 */
#ifndef SERVE_EMBEDDER_H
#define SERVE_EMBEDDER_H

#include "embedder_state.h"

struct engine;
struct engine_options;
struct step;

/* False: out of memory. The first text opens the session. */
bool embedder_open(struct embedder *m, const struct tft_model *model, enum tft_pooling pooling);
void embedder_close(struct embedder *m); /* m may be all zero */

/* For a model without sessions (pooling_is_all), after embedder_open. Returns CLI_OK, or CLI_FAILED
   after an error message. *capacity: the most tokens of a text. */
int embedder_pack(struct embedder *m, const struct engine_options *of, size_t *capacity);

/* Then, in place of a pass: computes waiting texts, of the clients in turn, as many as fit. */
void embedder_pass(struct engine *e);

/* If no text is in progress, begins the next one. Call it with the engine's lock, which this
   function releases for a while. Returns whether a text is in progress. */
bool embedder_begin(struct engine *e);

/* Ends the cancelled jobs. */
void embedder_end_cancelled(struct engine *e);

/* Call after a pass that has fed the embedder's session. */
void embedder_go_on(struct engine *e, const struct step *t);

#endif
