/* Statistics of the inputs of linear layers while the calibration text runs through a layer, and
   the scales and zero-points that follow from the statistics. */
#ifndef QUANTIZE_MEASURE_INPUT_STATS_H
#define QUANTIZE_MEASURE_INPUT_STATS_H

#include "tools/quantize/inputs.h"
#include "tools/quantize/measure/moments.h"
#include "tools/quantize/options.h"

struct input_stats {
    const struct tft_model *m;
    const struct quantize_opts *o;
    int n_threads;
    float *const *factor; /* [TFT_INPUT_KINDS][width] divisors of each input */
    bool untransformed;   /* count the original inputs: neither divided nor rotated */
    struct moments *moments;     /* gets the rows too; NULL: none wanted */
    bool exact;                  /* the rows are the float model's, and are not counted */
    struct histogram *histogram; /* [TFT_INPUT_KINDS, threads] of the current layer; the head's are
                                    at TFT_IN_ATTN */
    size_t widest;               /* numbers of the widest input */
    float *row;                  /* [threads, widest] scratch */
};

/* factor: must stay valid. False if memory is short. close accepts all zeros, and a failed open. */
bool input_stats_open(struct input_stats *st, const struct tft_model *m,
                      const struct quantize_opts *o, int n_threads,
                      float *const factor[TFT_INPUT_KINDS]);
void input_stats_close(struct input_stats *st);

/* Counts rows of an input: a tft_tap_fn with the struct input_stats as its `user`. */
void input_stats_tap(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                     const float *rows, size_t stride);

/* The histogram of input `which` over all threads. */
const struct histogram *input_stats_of(const struct input_stats *st, uint32_t which);

/* Call before each layer; the inputs of this layer are then counted. */
void input_stats_begin(const struct input_stats *st, const struct tft_layer *layer);

/* Call after each layer. */
void input_stats_clear(const struct input_stats *st);

/* Chooses scale and zero-point of input `index` from its histogram. r: all zeros on entry. Fails if
   there was a NaN or an infinity, or a number too large for the scales of a file. */
void input_stats_finish(const struct input_stats *st, uint32_t index, struct quantize_input *r,
                        struct tft_error *err);

#endif
