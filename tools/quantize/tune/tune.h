/*
 * Tunes a prefix: trains its keys and values, and nothing else, on text, so that a W8A8 model works
 * better after it. Either quantization-aware prefix tuning (CushionCache, section 4.2) or the
 * calibration of IntactKV (section 3.2); sequence_loss.h has their losses.
 *
 * Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2), one step for each
 * window of text. The rate rises linearly over the first tenth of the steps and then falls linearly
 * to 0. One window in five is held out. The result is the prefix with the least loss on the
 * held-out windows, which may be the initial prefix. It has the same bits on every machine and for
 * any number of threads.
 */
#ifndef QUANTIZE_TUNE_TUNE_H
#define QUANTIZE_TUNE_TUNE_H

#include "model/model.h"

struct tune_opts {
    const int32_t *text;           /* [n_windows, window] */
    uint32_t n_windows, window;    /* at least 2 each */
    const uint16_t *float_outputs; /* [n_windows, n_layer, window, D] f16: outputs of the float
                                      model's blocks, for IntactKV's loss; NULL: CushionCache's */
    uint32_t epochs;
    float rate;
    float lambda;  /* weight of the quantization error; unused with float_outputs */
    int n_threads; /* 0: tft_cpu_threads() */
    bool (*progress)(void *user, double done); /* false: stop */
    void *user;
};

struct tune_result {
    uint16_t *k, *v;   /* [n_layer, n_prefix, G, E] f16 each, in one block of memory; tune_free
                          frees it */
    float *validation; /* [n_validation] mean loss of the held-out windows: before the first step,
                          then twice per epoch */
    uint32_t n_validation;
    uint32_t kept; /* index of the validation with k and v */
};

/* Fails if the formula of the model has a piece that tuning does not support. */
enum tft_status tune_check(const struct tft_model *m, struct tft_error *err);

/* m: an open W8A8 model with a prefix. If its default cache is quantized, tuning runs through this
   cache: it improves predictions from codes. If *stopped: TFT_OK, and *r is all zeros. */
enum tft_status tune(const struct tft_model *m, const struct tune_opts *o, struct tune_result *r,
                     bool *stopped, struct tft_error *err);

/* Accepts all zeros. */
void tune_free(struct tune_result *r);

#endif
