/*
 * Measures the activations of a model while it reads a text: the magnitudes of the inputs of its
 * blocks and linear layers, the tokens and channels with outliers, and the attention that the first
 * positions receive. CushionCache, section 6; IntactKV, section 2.2.
 *
 * The measurement reads the session's buffers after each layer, so that the runtime needs no code
 * for it. The residual stream is floats in every model. In a W8A8 model, the inputs of linear
 * layers are bytes; they are measured dequantized: clipped to their range, and rotated if the model
 * rotates them.
 */
#ifndef INSPECT_ACTIVATIONS_H
#define INSPECT_ACTIVATIONS_H

#include "cache_cost.h"
#include "magnitudes.h"
#include "model/model.h"

struct activations_opts {
    const int32_t *text; /* [n_text] without BOS, which each window gets unless the model's prefix
                            contains it */
    size_t n_text;
    uint32_t window;     /* tokens of text in a window; the rest after the last whole window is not
                            used */
    const char *kv;      /* "f16" or "f32"; NULL: f16 */
    int n_threads;
    bool (*progress)(void *user, double done); /* returns false to stop */
    void *user;
};

/* One input over all windows. */
struct activations_input {
    /* averages over the windows: CushionCache, table 5 */
    double top[MAGNITUDES_TOP], tenth, median;
    /* the largest magnitude of all windows, and its place. position: among the tokens of the
       window; the prefix is not counted */
    float largest;
    uint32_t window, position, channel;
    /* sums over the windows: its numbers, and how many of them are the bytes 0 and 255 at the ends
       of its static range. Both are 0 in `stream`, and if the range is not static */
    uint64_t numbers, at_ends;
};

struct activations {
    uint32_t n_layer, n_head, n_prefix;
    uint32_t n_window, window;        /* how many windows, and their tokens, BOS included */
    int32_t *tokens;                  /* [n_window, window] */
    struct activations_input *stream; /* [n_layer + 1] the input of each block, then of the last
                                         norm */
    struct activations_input *linear; /* [n_layer * TFT_LAYER_INPUTS + 1] by the index of struct
                                         tft_input */
    float *token_top;                 /* [n_layer + 1, window] of the first window: the largest
                                         magnitude of each token in `stream` */
    double *sink;                     /* [n_layer, n_head] the share of attention that the prefix
                                         receives, or else the first token: the average over the
                                         tokens after it. NaN in layers without attention */
    struct cache_cost_found *cost; /* [n_layer, n_head] sums over all windows; zeros likewise */
};

/* Whether a text begins with BOS for this model: it was trained with BOS, and its prefix does not
   contain BOS. */
bool activations_bos(const struct tft_model *m);

/* Measures. The text has at least one window, and a window at least two tokens. *stopped: whether
   o->progress stopped the run. The caller closes *a, also on failure. */
enum tft_status activations_run(struct activations *a, const struct tft_model *m,
                                const struct activations_opts *o, bool *stopped,
                                struct tft_error *err);
void activations_close(struct activations *a);

/*
 * Makes *bare the same model without its prefix. It shares everything but the blocks, which the
 * caller frees. Static ranges become per-token ranges: the static ones were chosen for text after
 * the prefix, and would clip the outliers that the prefix takes away. Returns false if out of
 * memory.
 */
bool activations_bare(struct tft_model *bare, const struct tft_model *m);

/* The block with the largest outliers at its input: the largest sum of the three top magnitudes. */
uint32_t activations_worst(const struct activations *a);

/* The tokens of the first window that stand out at the input of block `layer`: a token's largest
   magnitude is more than ACTIVATIONS_PIVOT times the median token's. IntactKV calls them pivot
   tokens. pivot: [window] */
#define ACTIVATIONS_PIVOT 5
void activations_pivots(const struct activations *a, uint32_t layer, bool *pivot);

/* The share of the numbers of n inputs at the ends of static ranges, 0..1; NaN if no input has a
   static range. */
double activations_ends(const struct activations_input *in, uint32_t n);

/* The average of `sink` over the heads of a layer; NaN: it has no attention. */
double activations_sink(const struct activations *a, uint32_t layer);

#endif
