/* Uses held-out text in a run: chooses among prefixes and ranges, and reports the loss of
   the new model. */
#ifndef QUANTIZE_JOB_CHECK_H
#define QUANTIZE_JOB_CHECK_H

#include "tools/quantize/job/made.h"
#include "tools/quantize/job/text.h"
#include "tools/quantize/search/cushion.h"

struct job_check {
    struct job *j;       /* of job_check_open */
    struct check floats; /* the float model on held-out text */
    bool open;
    int32_t *ids[CHECK_GROUPS], *start[CHECK_GROUPS]; /* of held-out text */
    struct check_loss loss[CHECK_GROUPS];             /* of the file that was measured last */
};

/* Runs the float model over held-out text, unless it ran over the same text before. */
enum tft_status job_check_open(struct job_check *c, const struct job_text *t);
void job_check_free(struct job_check *c);

/* Whether any text is held out. */
bool job_check_has_text(const struct job_text *t);

/* A prefix to choose from. */
struct check_prefix {
    int32_t token[CUSHION_MAX];
    uint32_t n;
    double nats; /* result: the mean over the groups of the divergence from the float model */
};

/* Makes a W8A8 model with the prefix, from little text, and measures it. trial: has no temporary
   file, and gets this one. o: as for quantize(), with its progress; its text, prefix, bits and
   cache are ignored. n_start: tokens of the prefix that all candidates share; the float model gets
   them too. step: its name */
enum tft_status job_check_try(struct job_check *c, struct job_text *t,
                              const struct quantize_opts *o, struct job_made *trial,
                              const struct check_prefix *prefix, uint32_t n_start,
                              const char *step);

/* Measures the model, in a step with this share. */
enum tft_status job_check_made(struct job_check *c, const struct job_made *made, const char *step,
                               double share);

/* The mean divergence of the groups measured last; infinity instead of NaN. */
double job_check_divergence(const struct job_check *c);

#endif
