/* Prefixes for system messages: computes the KV cache of each and stores it in the file under its
   name (tft_quantize_opts.system). */
#ifndef QUANTIZE_JOB_SYSTEM_H
#define QUANTIZE_JOB_SYSTEM_H

#include "tools/quantize/job/made.h"
#include "tools/quantize/job/prefix.h"
#include "tools/quantize/named_rows.h"

struct job_system {
    struct named_prefix *prefix; /* [n] */
    int32_t **ids;               /* [n] their tokens, with BOS */
    uint32_t n;
    struct quantize_values values;
    struct job *j;
    const struct quantize_opts *o;
    enum tft_dtype type; /* of the rows in the file */
};

/* Checks the options. */
enum tft_status job_system_check(struct job *j);

/* choose: makes the tokens by the chat format of the model; prefix: after job_prefix_choose; c: all
   zeros. fit: refuses a message if its rows exceed f16 (job_prefix_check_fit). begin: call before
   quantize_temp(), when o has the prefix. finish: call after tuning; adds the prefixes to the
   model. They do nothing without a system message. */
enum tft_status job_system_choose(struct job_system *c, struct job *j,
                                  const struct job_prefix *prefix);
enum tft_status job_system_fit(const struct job_system *c);
enum tft_status job_system_begin(struct job_system *c, struct quantize_opts *o);
enum tft_status job_system_finish(struct job_system *c, struct job_made *made);

/* Accepts all zeros. */
void job_system_free(struct job_system *c);

#endif
