/* The chat template of a run: the model's own, or the built-in one that the options name. */
#ifndef QUANTIZE_JOB_FORMAT_H
#define QUANTIZE_JOB_FORMAT_H

#include "tools/quantize/job/job.h"

/* Checks the name in the options. */
enum tft_status job_format_check(struct job *j);

/* Opens the template: j->format, or the reason in j->formatless. close accepts all zeros. */
void job_format_open(struct job *j);
void job_format_close(struct job *j);

/* Fails if there is no template. */
enum tft_status job_format_need(struct job *j);

/* *ids: the tokens of a conversation, [*n], which the caller frees. */
enum tft_status job_format_tokenize(struct job *j, int32_t **ids, size_t *n,
                                    const struct tft_chat_text *text);

/* The same: the tokens with which a conversation with this system message begins, for any message
   of the user. */
enum tft_status job_format_system(struct job *j, int32_t **ids, size_t *n, const char *system);

#endif
