/* Second moments of the inputs of a layer's linear layers: sums of x x^T over the calibration text,
   for metric.h; and how they change with the errors of earlier layers, for correct.h. */
#ifndef QUANTIZE_MEASURE_MOMENTS_H
#define QUANTIZE_MEASURE_MOMENTS_H

#include "model/model.h"

struct moments {
    const struct tft_model *m;
    const struct tft_layer *layer; /* the current layer */
    int n_threads;
    uint32_t window;
    uint32_t inputs;            /* bits (1 << which) of the sums of this run */
    bool correlated;            /* all pairs of channels; else each with itself */
    float *x[TFT_INPUT_KINDS]; /* [rows, width] inputs of the current window */
    float *columns;             /* [widest, rows] scratch */
    float *away;                /* likewise; NULL if not correlated */
    float *h[TFT_INPUT_KINDS]; /* [width, width] sums at and below the diagonal; or [width] */
    /* If correlated, else NULL: */
    float *exact[TFT_INPUT_KINDS]; /* [rows, width] the inputs that the float model has */
    float *gap[TFT_INPUT_KINDS];   /* [width, width] sums of x (exact - x)^T */
    /* If correlated, for TFT_IN_O and TFT_IN_DOWN, else NULL: */
    float *missing[TFT_INPUT_KINDS]; /* [D, window] what the residual stream lacks */
    float *stream[TFT_INPUT_KINDS];  /* [D, width] sums of that times x^T */
};

/* wanted: whether input i is. False if memory is short. close accepts all zeros, and a failed open.
 */
bool moments_open(struct moments *s, const struct tft_model *m, uint32_t window, bool correlated,
                  const bool wanted[TFT_INPUT_KINDS], int n_threads);
void moments_close(struct moments *s);

/* Call before each run of a layer. inputs: bits (1 << which) of the inputs to sum. */
void moments_begin(struct moments *s, const struct tft_layer *layer, uint32_t inputs);

/* Takes row i of the window of input `which`; threads may call it for different rows. */
void moments_put(const struct moments *s, uint32_t which, size_t i, const float *x);

/* Takes the same row as the float model has it. */
void moments_put_exact(const struct moments *s, uint32_t which, size_t i, const float *x);

/* Whether the run sums input `which` times what the residual stream lacks. */
bool moments_has_stream(const struct moments *s, uint32_t which);

/* Take the residual stream of the window, [window, D] with rows `stride` apart, that the matrix of
   input `which` adds to: the float model's, then the other. For inputs with a stream. */
void moments_put_exact_stream(const struct moments *s, uint32_t which, const float *x,
                              size_t stride);
void moments_put_stream(const struct moments *s, uint32_t which, const float *x, size_t stride);

/* Adds the window to the sums, after all its rows were taken. The result does not depend on the
   number of threads. */
void moments_add(const struct moments *s);

#endif
