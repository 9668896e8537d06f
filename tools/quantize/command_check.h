/* Uses held-out text in tuffet quantize: chooses among prefixes and ranges, and reports the loss of
   the new model. */
#ifndef QUANTIZE_COMMAND_CHECK_H
#define QUANTIZE_COMMAND_CHECK_H

#include "tools/quantize/command_text.h"
#include "tools/quantize/search/cushion.h"

struct command_check {
    struct check floats; /* the float model on held-out text */
    bool open;
    int32_t *ids[CHECK_GROUPS], *start[CHECK_GROUPS]; /* of held-out text */
    struct check_loss loss[CHECK_GROUPS]; /* of the file that was measured last */
};

/* Runs the float model over held-out text, unless it ran over the same text before. Functions that
   return an int return CLI_OK, or the exit status after a message. */
int command_check_open(struct command_check *c, struct tft_model *m, const struct command_text *t);
void command_check_free(struct command_check *c);

/* Whether any text is held out. */
bool command_check_has_text(const struct command_text *t);

/* A prefix to choose from. */
struct check_prefix {
    int32_t token[CUSHION_MAX];
    uint32_t n;
    double nats; /* result: the mean over the groups of the divergence from the float model */
};

/* Makes a W8A8 model with the prefix, from little text, and measures it. path: of this model; the
   caller removes it. o: as for quantize(); its text, prefix, bits, cache and progress are ignored.
   n_start: tokens of the prefix that all candidates share; the float model gets them too. title: of
   the progress bar */
int command_check_try(struct command_check *c, struct tft_model *m, struct command_text *t,
                      const struct quantize_opts *o, const char *path,
                      const struct check_prefix *prefix, uint32_t n_start, const char *title);

/* Measures the file `path`. */
int command_check_file(struct command_check *c, const char *path, const char *title, int n_threads);

/* The mean divergence of the groups measured last; infinity instead of NaN. */
double command_check_divergence(const struct command_check *c);

/* Stores the measurements in the finished file, for tuffet inspect. */
int command_check_store(const struct command_check *c, const char *path);

#endif
