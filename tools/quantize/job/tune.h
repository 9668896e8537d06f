/* Trains the prefix of the new model on the calibration text: tft_quantize_opts.tune. Then a model
   with weights of 8 bits is made again: after other keys and values, inputs have other ranges. */
#ifndef QUANTIZE_JOB_TUNE_H
#define QUANTIZE_JOB_TUNE_H

#include "tools/quantize/job/made.h"
#include "tools/quantize/options.h"
#include "tools/quantize/tune/tune.h"

struct job_tune {
    uint16_t *float_outputs; /* for tune_opts, or NULL */
    struct quantize_values values;
    struct job *j; /* NULL: no tuning */
    const struct quantize_opts *o;
    enum tft_dtype type; /* of the prefix in the output file; it is trained as f16 */
    bool too_large;      /* an output of a block exceeds f16 */
    struct tune_result result;
};

/* Call before long work: fails if tuning is wanted and the model has a piece that tuning does not
   support. */
enum tft_status job_tune_look(struct job *j);

/* Call before quantize_temp(). t: all zeros. With tuning: sets *o to collect the inputs of tuning;
   *o must stay valid. */
enum tft_status job_tune_begin(struct job_tune *t, struct job *j, struct quantize_opts *o);

/* Call after quantize_temp(): tunes the model. If *again is set, the temporary file is discarded:
   call quantize_temp() once more, as *o has changed. */
enum tft_status job_tune_run(struct job_tune *t, struct quantize_opts *o, struct job_made *made,
                             bool *again);

/* Call then: gives the model the tuned prefix. */
enum tft_status job_tune_finish(struct job_tune *t, struct job_made *made);

/* Accepts all zeros. */
void job_tune_free(struct job_tune *t);

/* The loss that training lowers: "prediction", "layer outputs". */
const char *job_tune_loss(const struct tft_quantize_opts *o);

#endif
