/* Trains the prefix of the new model on the calibration text: tft_quantize_opts.tune. Then a model
   with weights of 8 bits is made again: after other keys and values, inputs have other ranges. */
#ifndef QUANTIZE_JOB_TUNE_H
#define QUANTIZE_JOB_TUNE_H

#include "tools/quantize/job/job.h"
#include "tools/quantize/options.h"
#include "tools/quantize/tune/tune.h"

struct job_tune {
    char *untuned; /* path of the model before tuning, beside the output file; NULL: no tuning */
    uint16_t *float_outputs; /* for tune_opts, or NULL */
    struct quantize_values values;
    struct job *j;
    struct tft_model *made; /* the untuned model, or the model made again; NULL: none is open */
    const struct quantize_opts *o;
    enum tft_dtype type; /* of the prefix in the output file; it is trained as f16 */
    bool too_large;      /* an output of a block exceeds f16 */
    struct tune_result result;
};

/* Call before long work: fails if tuning is wanted and the model has a piece that tuning does not
   support. */
enum tft_status job_tune_look(struct job *j);

/* Call before quantize(). t: all zeros. With tuning: sets *path to a file for the untuned model,
   and *o to collect the inputs of tuning; *o must stay valid. */
enum tft_status job_tune_begin(struct job_tune *t, struct job *j, struct quantize_opts *o,
                               const char **path);

/* Call after quantize(): tunes the model. If *again is set, call quantize() once more: *o has
   changed. */
enum tft_status job_tune_run(struct job_tune *t, struct quantize_opts *o, bool *again);

/* Call at the end: writes the tuned model to `path`. */
enum tft_status job_tune_finish(struct job_tune *t, const char *path);

/* Removes the untuned file. Accepts all zeros. */
void job_tune_free(struct job_tune *t);

/* The loss that training lowers: "prediction", "layer outputs". */
const char *job_tune_loss(const struct tft_quantize_opts *o);

#endif
