/* What comes by at the inputs of linear layers while the calibration text runs: statistics of the
   layer in hand, and the scale and zero-point that follow from them. */
#ifndef QUANTIZE_MEASURE_INPUT_STATS_H
#define QUANTIZE_MEASURE_INPUT_STATS_H

#include "tools/quantize/inputs.h"
#include "tools/quantize/options.h"

struct input_stats {
    const struct tft_model *m;
    const struct quantize_opts *o;
    int n_threads;
    const float *smooth[2]; /* [D] what the inputs of attention and of the FFN are divided by */
    bool plain;             /* they are counted as they are, untransformed */
    struct histogram *stats;    /* [TFT_LAYER_INPUTS, threads] of the layer in hand; the head's are at
                               TFT_IN_ATTN */
    size_t widest;          /* input, */
    float *row;             /* [threads, widest] room for one */
};

/* False if there is no memory. All zero is fine to close, and a failed open. */
bool input_stats_open(struct input_stats *w, const struct tft_model *m,
                      const struct quantize_opts *o, int n_threads, float *const smooth[2]);
void input_stats_close(struct input_stats *w);

/* A tft_tap_fn; user: struct input_stats */
void input_stats_tap(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                 const float *rows, size_t stride);

/* What all threads have seen of an input. */
const struct histogram *input_stats_of(const struct input_stats *w, uint32_t which);

/* Before the next layer. */
void input_stats_clear(const struct input_stats *w);

/* Scale and zero-point of input `index` from what was seen of it. r: all zero */
void input_stats_finish(const struct input_stats *w, uint32_t index, struct quantize_input *r,
                  struct tft_error *err);

#endif
