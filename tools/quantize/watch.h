/* What comes by at the inputs of linear layers while the calibration text runs: statistics of the
   layer in hand, and the scale and zero-point that follow from them. */
#ifndef QUANTIZE_WATCH_H
#define QUANTIZE_WATCH_H

#include "quantize.h"

struct watch {
    const struct tft_model *m;
    const struct quantize_opts *o;
    int n_threads;
    const float *smooth[2]; /* [D] what the inputs of attention and of the FFN are divided by */
    bool plain;             /* they are counted as they are, untransformed */
    struct stats *stats;    /* [TFT_LAYER_INPUTS, threads] of the layer in hand; the head's are at
                               TFT_IN_ATTN */
    size_t widest;          /* input, */
    float *row;             /* [threads, widest] room for one */
};

/* False if there is no memory. All zero is fine to close, and a failed open. */
bool watch_open(struct watch *w, const struct tft_model *m, const struct quantize_opts *o,
                int n_threads, float *const smooth[2]);
void watch_close(struct watch *w);

/* A tft_tap_fn; user: struct watch */
void watch_input(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                 const float *rows, size_t stride);

/* What all threads have seen of an input. */
const struct stats *watch_seen(const struct watch *w, uint32_t which);

/* Before the next layer. */
void watch_forget(const struct watch *w);

/* Scale and zero-point of input `index` from what was seen of it. r: all zero */
void watch_settle(const struct watch *w, uint32_t index, struct quantize_input *r,
                  struct tft_error *err);

#endif
