/*
 * Tuning of a prefix: its keys and values, and nothing else, learn from text to serve a W8A8 model
 * better. Quantization-aware prefix tuning (CushionCache, section 4.2) or the calibration of
 * IntactKV (section 3.2): see sequence.h for their losses.
 *
 * Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2), a step for each window
 * of text; the rate rises over the first tenth of the steps and then falls to 0 in a straight line.
 * One window in five is not learned from: the prefix that is kept is the one that does best there,
 * the one that tuning began with included. The same bits on every machine and with any threads.
 */
#ifndef QUANTIZE_TUNE_TUNE_H
#define QUANTIZE_TUNE_TUNE_H

#include "model/model.h"

/* What tuning is told. */
struct tune_opts {
    const int32_t *text; /* [n_windows, window] */
    uint32_t n_windows, window; /* at least 2 and 2 */
    const uint16_t *wanted; /* [n_windows, n_layer, window, D] f16: what the blocks of the model of
                               floats leave; NULL: learn to predict */
    uint32_t epochs;
    float rate;
    float lambda; /* of the quantization error; not for wanted */
    int n_threads; /* 0: all CPUs */
    bool (*progress)(void *user, double done); /* false: stop */
    void *user;
};

struct tune_result {
    uint16_t *k, *v;   /* [n_layer, n_prefix, G, E] f16 each, in one piece of memory; to be freed by
                          tune_free */
    float *validation; /* [n_validation] mean loss of the windows that were held out, first before
                          any step */
    uint32_t n_validation, kept; /* which of these k and v are from */
};

/* m: an open W8A8 model with a prefix. TFT_OK, and nothing in *r, if *stopped. */
enum tft_status tune(const struct tft_model *m, const struct tune_opts *o, struct tune_result *r,
                     bool *stopped, struct tft_error *err);

/* All zero is fine. */
void tune_free(struct tune_result *r);

#endif
