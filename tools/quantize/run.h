/* A run of tft_quantize, from the path of a float model to the new file. */
#ifndef QUANTIZE_RUN_H
#define QUANTIZE_RUN_H

#include "tools/quantize/job/bits.h"
#include "tools/quantize/job/check.h"
#include "tools/quantize/job/fisher.h"
#include "tools/quantize/job/kv.h"
#include "tools/quantize/job/made.h"
#include "tools/quantize/job/plain.h"
#include "tools/quantize/job/prefix.h"
#include "tools/quantize/job/ranges.h"
#include "tools/quantize/job/system.h"
#include "tools/quantize/job/text.h"
#include "tools/quantize/job/tune.h"
#include "tools/quantize/job/vectors.h"

/* The state of a run, and its results. */
struct quantize_run {
    struct tft_quantize_opts given; /* complete */
    struct job job;
    struct tft_model *m;    /* job.m, the float model; NULL: it could not be opened */
    struct tft_model *runs; /* opened for computing, until the calibration text is made; or NULL */
    struct quantize_opts o;
    struct quantize_input *result; /* [inputs] */
    enum tft_range *range;         /* [inputs] o.range */
    struct job_bits matrix_bits;   /* of o */
    struct job_text text;
    struct job_prefix prefix;
    struct job_system system;
    struct job_check check;
    struct job_ranges ranges;
    struct job_vectors vectors; /* in place of check and ranges, if the model is an encoder */
    struct job_tune tune;
    struct job_kv kv;
    struct job_fisher fisher;
    struct job_plain plain; /* instead of all after `text`, but `check` and `made` */
    struct job_made made; /* the new model, until it is finished */
    struct bits_search bits;
    uint32_t n_start; /* first tokens of the prefix that the float model has in the check */
    double seconds;   /* from the calibration text to the finished file */
    enum tft_status status;
};

/* begin opens the model and applies the options, make makes the new file, and keep gives the file
   its name: call each if the one before succeeded. All return run->status. Strings of `given`, and
   err, must outlive the run. quantize_run_free must follow, also on failure; until then the run has
   the results of the steps that are done. */
enum tft_status quantize_run_begin(struct quantize_run *run, const char *model, const char *out,
                                   const struct tft_quantize_opts *given,
                                   const struct quantize_lab *lab, struct tft_error *err);
enum tft_status quantize_run_make(struct quantize_run *run);
enum tft_status quantize_run_keep(struct quantize_run *run);
void quantize_run_free(struct quantize_run *run);

/* tft_quantize with the settings of the laboratory. */
enum tft_status quantize_with(const char *model, const char *out,
                              const struct tft_quantize_opts *opts, const struct quantize_lab *lab,
                              struct tft_quantize_result **result, struct tft_error *err);

#endif
