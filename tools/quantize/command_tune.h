/* --tune and --calibrate of tuffet quantize: train the prefix of the new model on the calibration
   text. Then a model with weights of 8 bits is made again: after other keys and values, inputs have
   other ranges. */
#ifndef QUANTIZE_COMMAND_TUNE_H
#define QUANTIZE_COMMAND_TUNE_H

#include "tools/cli/cli.h"
#include "tools/quantize/options.h"
#include "tools/quantize/tune/tune.h"

struct command_tune {
    char *untuned; /* path of the model before tuning, beside the output file; NULL: no tuning */
    uint16_t *float_outputs; /* for tune_opts, or NULL */
    struct quantize_values values;
    const struct tft_model *m;
    struct tft_model *made; /* the untuned model, or the model made again; NULL: none is open */
    const struct quantize_opts *o;
    enum tft_dtype type; /* of the prefix in the output file; it is trained as f16 */
    bool too_large;      /* an output of a block exceeds f16 */
    struct tune_result result;
};

extern const struct cli_option command_tune_option_list[];

/* Checks the options: CLI_OK or CLI_USAGE. */
int command_tune_check(void);

/* Call before long work: fails with a message if tuning is wanted and the model has a piece that
   tuning does not support. Returns CLI_OK or an exit status. */
int command_tune_look(const struct tft_model *m);

/* Call before quantize(). t: all zeros. With tuning: sets *path to a file for the untuned model,
   and *o to collect the inputs of tuning; *o must stay valid. Returns CLI_OK, or the exit status
   after a message on standard error, as do run and finish. */
int command_tune_begin(struct command_tune *t, const struct tft_model *m, struct quantize_opts *o,
                        const char **path);

/* Call after quantize(): tunes the model. If *again is set, call quantize() once more: *o has
   changed. */
int command_tune_run(struct command_tune *t, struct quantize_opts *o, bool *again);

/* Call at the end: writes the tuned model to `path`. */
int command_tune_finish(struct command_tune *t, const char *path);

/* Removes the untuned file. Accepts all zeros. */
void command_tune_free(struct command_tune *t);

/* Prints the result: a line on standard error, or nothing; a JSON object, or null, on standard
   output. */
void command_tune_report(const struct command_tune *t);
void command_tune_json(const struct command_tune *t);

#endif
