/* What tuffet quantize does with text that it keeps out of calibration: it chooses among prefixes,
   and says what the new model loses. */
#ifndef QUANTIZE_COMMAND_CHECK_H
#define QUANTIZE_COMMAND_CHECK_H

#include "tools/quantize/check.h"
#include "tools/quantize/search/cushion.h"

struct command_check {
    int32_t *ids;           /* of the text */
    struct check_text text; /* no windows: there is too little text to keep any out */
    double floats, file;    /* -ln p of a token, for the model of floats and the new one */
    bool measured;
};

/* Moves some windows of the text ids: [*n] into c; c: all zeros. `wanted` tokens are asked for as
   calibration text; windows that it does not need are kept out first. n is lowered, but to no less
   than a window. Returns CLI_OK, or CLI_FAILED after a message. */
int command_check_keep_out(struct command_check *c, int32_t *ids, size_t *n, uint32_t window,
                           size_t wanted);
void command_check_free(struct command_check *c);

/* Windows of c's text begin with BOS in place of their first token. */
void command_check_begin_windows(struct command_check *c, int32_t bos);

/* A prefix to choose from. */
struct check_prefix {
    int32_t token[CUSHION_MAX];
    uint32_t n;
    double nats; /* result: -ln p of a token of c's text, behind it, with static ranges */
};

/* Makes a W8A8 model beside the file `path` with each of the prefixes, from little text, measures
   it, and removes it. *best = the one under which the kept-out text is most likely. o: as for
   quantize(); its prefix, bits, cache and progress do not matter. Returns CLI_OK, or the exit
   status after a message. */
int command_check_choose(struct command_check *c, struct tft_model *m,
                         const struct quantize_opts *o, const char *path,
                         struct check_prefix *prefix, uint32_t n, uint32_t *best);

/* Measures the finished file `path` and m behind `start`: [n_start], and stores both in the file,
   for tuffet inspect. Returns as above. */
int command_check_finish(struct command_check *c, struct tft_model *m, const int32_t *start,
                         uint32_t n_start, const char *path, int n_threads);

/* Prints the result: check_print on standard error; a JSON object, or null, on standard output. */
void command_check_report(const struct command_check *c);
void command_check_json(const struct command_check *c);

#endif
