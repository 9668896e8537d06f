/* The calibration text and the held-out text of a run: text that the model writes
   (text/own_text.h) with prose of the library, or the text of the options. */
#ifndef QUANTIZE_JOB_TEXT_H
#define QUANTIZE_JOB_TEXT_H

#include "tools/quantize/check.h"
#include "tools/quantize/job/job.h"
#include "tools/quantize/text/talks.h"

struct job_text {
    struct job *j;
    struct talks talks; /* conversations, or texts that the model wrote; may be empty */
    bool conversations; /* the file has conversations, or the model wrote some */
    struct talks first; /* otherwise a few short ones, if there is a template: how all begin */
    int32_t *prose, *kept_prose; /* [n_prose] whole windows for calibration; held-out ones */
    size_t n_prose, n_kept_prose;
    uint32_t window;

    /* for the prefix that job_text_begin was given last: */
    int32_t *ids; /* [n] windows, first the windows of `talks`: all of them, until
                     job_text_spread */
    size_t n_own, n;
    int32_t *kept[CHECK_GROUPS], *start;
    struct check_text group[CHECK_GROUPS];
    uint32_t n_prefix_text; /* the last tokens of the prefix, which texts continue after */
};

/* Checks the options. */
enum tft_status job_text_check(struct job *j);

/* Tokenizes the text, chooses the window, and holds text out; t: all zeros. runs: the float model,
   opened for computing; NULL if the options have the text. most_prefix: the most tokens that the
   prefix may have. free accepts all zeros. */
enum tft_status job_text_make(struct job_text *t, struct job *j, const struct tft_model *runs,
                              uint32_t most_prefix);
void job_text_free(struct job_text *t);

/* The tokens that all conversations of the text begin with, *n of them, without BOS. *n is 0 if
   there are no conversations, or no such tokens. */
const int32_t *job_text_first(const struct job_text *t, size_t *n);

/* Makes the windows that follow this prefix; the float model gets its first n_start tokens too.
   Sets t->n_prefix_text: n_text, the last tokens, which are a text of the options; if n_text
   is 0, all tokens but BOS, if all conversations begin with them. */
enum tft_status job_text_begin(struct job_text *t, const int32_t *prefix, uint32_t n_prefix,
                               uint32_t n_text, uint32_t n_start);

/* Reduces the windows of t->ids to --calib-tokens, or to about `tokens`, if `tokens` is not 0. */
void job_text_spread(struct job_text *t, uint32_t tokens);

#endif
