/*
 * What a W8A8 file loses on text that nothing was fitted to: the mean of -ln p of its tokens,
 * beside that of the model of floats. Ranges that are fixed from text may serve only that text, and
 * so may prefixes that were searched or tuned. A user has one text: this is the second opinion.
 */
#ifndef QUANTIZE_CHECK_H
#define QUANTIZE_CHECK_H

#include <stdio.h>

#include "tools/quantize/options.h"

/* Text that is kept out: [n_windows, window], each window a sequence of its own. */
struct check_text {
    const int32_t *ids;
    uint32_t n_windows, window;
};

struct check_how {
    int n_threads;                             /* 0: all CPUs */
    bool (*progress)(void *user, double done); /* NULL, or told 0..1; false: stop */
    void *user;
};

/* *nats = the mean over all tokens but the first of each window. If *stopped: TFT_OK, and *nats is
   of no use.

   floats: the model of floats behind prefix: [n_prefix]; m: opened by tft_model_open_unexpanded.
   file: a model that tuffet quantize wrote, behind the prefix in it. */
enum tft_status check_floats(struct tft_model *m, const int32_t *prefix, uint32_t n_prefix,
                             const struct check_text *text, const struct check_how *how,
                             double *nats, bool *stopped, struct tft_error *err);
enum tft_status check_file(const char *path, const struct check_text *text,
                           const struct check_how *how, double *nats, bool *stopped,
                           struct tft_error *err);

/* By how many percent the perplexity exp(file) is above exp(floats). */
double check_percent(double floats, double file);

/* Prints both in a line, and a warning where the difference is large. Zeros: that nothing could be
   measured. */
void check_print(FILE *to, double floats, double file);

#endif
