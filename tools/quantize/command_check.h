/* What tuffet quantize does with text that it keeps out of calibration: it chooses among prefixes
   and ranges, and says what the new model loses. */
#ifndef QUANTIZE_COMMAND_CHECK_H
#define QUANTIZE_COMMAND_CHECK_H

#include "tools/quantize/command_text.h"
#include "tools/quantize/search/cushion.h"

struct command_check {
    struct check floats; /* the model of floats on the text that is kept out */
    bool open;
    int32_t *ids[CHECK_GROUPS], *start[CHECK_GROUPS]; /* of that text */
    struct check_loss loss[CHECK_GROUPS]; /* of the file that was measured last */
};

/* Runs the model of floats over the text that is kept out, unless that was done for the same text.
   All that return an int: CLI_OK, or the exit status after a message. */
int command_check_open(struct command_check *c, struct tft_model *m, const struct command_text *t);
void command_check_free(struct command_check *c);

/* Whether any text is kept out. */
bool command_check_has_text(const struct command_text *t);

/* A prefix to choose from. */
struct check_prefix {
    int32_t token[CUSHION_MAX];
    uint32_t n;
    double nats; /* result: the mean over the groups of the divergence from the model of floats */
};

/* Makes a W8A8 model with the prefix, from little text, and measures it. path: of that model, which
   the caller removes. o: as for quantize(); its text, prefix, bits, cache and progress do not
   matter. n_start: the tokens of all prefixes that the model of floats gets, too. title: of the
   progress */
int command_check_try(struct command_check *c, struct tft_model *m, struct command_text *t,
                      const struct quantize_opts *o, const char *path,
                      const struct check_prefix *prefix, uint32_t n_start, const char *title);

/* Measures the file `path`. */
int command_check_file(struct command_check *c, const char *path, const char *title, int n_threads);

/* The mean divergence of the groups that were measured last; infinite if it is no number. */
double command_check_divergence(const struct command_check *c);

/* Stores in the finished file, for tuffet inspect, what was measured. */
int command_check_store(const struct command_check *c, const char *path);

#endif
