/*
 * The engine: a thread that computes the answers of several jobs at once. Each job has a slot, a
 * session of its own. One pass feeds all slots, prompts in chunks, so that a long prompt delays
 * other jobs by at most a chunk. A session keeps its tokens when its job ends: the next job gets
 * the free slot that shares most with its prompt, and computes only the rest. An answer depends
 * neither on other jobs nor on earlier tokens of its slot: its bits are the same as in a new
 * session.
 */
#ifndef SERVE_ENGINE_H
#define SERVE_ENGINE_H

#include "chore.h"
#include "engine_types.h"
#include "job.h"

struct engine;

/* Opens the first session by the program's options, and starts the thread. Returns CLI_OK, or
   CLI_FAILED after an error message. */
int engine_open(struct engine **out, const struct engine_options *o);

/* Cancels the remaining jobs and takes their items, ends the thread and closes the sessions. e may
   be NULL. */
void engine_close(struct engine *e);

size_t engine_capacity(const struct engine *e); /* tokens of a prompt and its answer */

size_t engine_width(const struct engine *e); /* numbers of a vector */

/* Bytes of the sessions that the engine may open: of all slots, and one for embeddings. */
uint64_t engine_bytes(const struct engine *e);

/* Whether all jobs and chores have ended, by engine_take; of the clients' thread. */
bool engine_is_idle(const struct engine *e);

/* Gives jobs[n] to the engine; false: too many would wait, and none is taken. */
bool engine_put(struct engine *e, struct job **jobs, size_t n);

/* Gives the engine a job that has texts; false if too many wait. */
bool engine_put_texts(struct engine *e, struct job *j);

/* Makes a job end soon, by ITEM_END as always. */
void engine_cancel(struct engine *e, struct job *j);

/* Runs a chore between two passes, once its slot has no job. engine_take calls c->done. */
void engine_do(struct engine *e, struct chore *c);

/* Gives all pending items to their jobs' take. Items of a job come in order, and its end last. The
   job may be freed then. */
void engine_take(struct engine *e);

struct engine_counts engine_counts(struct engine *e);
struct store_counts engine_stored(struct engine *e);

#endif
