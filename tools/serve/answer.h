/*
 * From tokens of an answer to its items: the text, without the space that a template puts before
 * it; thoughts, apart from the text; calls of tools; and the end at a text of job->stop.
 */
#ifndef SERVE_ANSWER_H
#define SERVE_ANSWER_H

#include "job.h"

/* Before the first token; items go to put. Returns false if memory is short. */
bool answer_begin(struct job *j, job_put *put, void *user);

/* The next token. Returns false if the answer is to end: j->answer.stopped or j->answer.failed (out
   of memory) says why. */
bool answer_token(struct job *j, int32_t id);

/* Behind the last token: puts what was held back. Returns false if memory is short. */
bool answer_end(struct job *j);

#endif
