/*
 * Turns the tokens of an answer into items: the text, without the space that a template puts before
 * it; thoughts, apart from the text; calls of tools; and the end at a text of job->stop.
 */
#ifndef SERVE_ANSWER_H
#define SERVE_ANSWER_H

#include "job.h"

/* Call before the first token; items go to put. Returns false if memory is short. */
bool answer_begin(struct job *j, job_put *put, void *user);

/* The next token. Returns false if the answer must end: the reason is j->answer.stopped or
   j->answer.failed (out of memory). */
bool answer_token(struct job *j, int32_t id);

/* After the last token: puts the text that was held back. Returns false if memory is short. */
bool answer_end(struct job *j);

#endif
