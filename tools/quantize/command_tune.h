/* How the prefix of a model that tuffet quantize makes learns from the calibration text: its
   options, and what they take. */
#ifndef QUANTIZE_COMMAND_TUNE_H
#define QUANTIZE_COMMAND_TUNE_H

#include "tools/cli/cli.h"
#include "tools/quantize/options.h"
#include "tools/quantize/tune/tune.h"

struct command_tune {
    char *untuned; /* the model before that, in a file beside the one that is wanted */
    uint16_t *float_outputs;
    const struct tft_model *m;
    const struct quantize_opts *o;
    enum tft_dtype type; /* how the prefix is to be held; it learns as f16 */
    bool too_large; /* something that blocks leave is too large for f16 */
    struct tune_result result;
};

extern const struct cli_option command_tune_option_list[];

/* What these options may not be together: CLI_OK or CLI_USAGE. */
int command_tune_check(void);

/* t: all zero. What is to be made first goes to *path then, which is `path` where nothing is to be
   tuned; and *o, which has to stay, is told what else is wanted of it. CLI_OK, or what the program
   ends with after a line on standard error; so does the next. */
int command_tune_begin(struct command_tune *t, const struct tft_model *m, struct quantize_opts *o,
                        const char **path);

/* From there to `path`. */
int command_tune_finish(struct command_tune *t, const char *path);

/* All zero is fine. */
void command_tune_free(struct command_tune *t);

/* A line on standard error if something was tuned; an object, or null, on standard output. */
void command_tune_report(const struct command_tune *t);
void command_tune_json(const struct command_tune *t);

#endif
