/*
 * What goes through a model while it reads a text: how large the inputs of its blocks and linear
 * layers are, which tokens and channels have the outliers, and how much attention falls on what
 * comes first. CushionCache, section 6; IntactKV, section 2.2.
 *
 * It looks at what a layer leaves in the session's buffers, so that the runtime knows nothing of
 * it. The residual stream is floats in every model; what linear layers take is bytes in a W8A8
 * model, and seen here as the numbers that those stand for: within their range, and transformed
 * where the model rotates.
 */
#ifndef INSPECT_ACTIVATIONS_H
#define INSPECT_ACTIVATIONS_H

#include "magnitudes.h"
#include "model/model.h"

struct activations_opts {
    const int32_t *text; /* [n_text] without BOS: each window gets its own, unless the model's
                            prefix has it */
    size_t n_text;
    uint32_t window;     /* tokens of text in a window; those left after the last whole one do not
                            count */
    const char *kv; /* f16 or f32 */
    int n_threads;
    bool (*progress)(void *user, double done); /* false: stop */
    void *user;
};

/* One input over all windows. */
struct activations_input {
    double top[MAGNITUDES_TOP], tenth, median; /* averages of what the windows have: CushionCache,
                                                  table 5 */
    float largest;                     /* of all windows, and where: */
    uint32_t window, position, channel; /* position: among the tokens of the window, the prefix not
                                           counted */
};

struct activations {
    uint32_t n_layer, n_head, n_prefix;
    uint32_t n_window, window;        /* how many, and of how many tokens, BOS included */
    int32_t *tokens;                  /* [n_window, window] */
    struct activations_input *stream; /* [n_layer + 1] what goes into each block, then into the last
                                         norm */
    struct activations_input *linear; /* [n_layer * TFT_LAYER_INPUTS + 1] by the index of struct
                                         tft_input */
    float *token_top; /* [n_layer + 1, window] of the first window: the largest magnitude of each
                         token in `stream` */
    double *sink;     /* [n_layer, n_head] the share of attention that the prefix gets, or without
                         one the first token; averaged over the tokens after it */
};

/* Whether a text for the model begins with BOS, which is not in its prefix. */
bool activations_bos(const struct tft_model *m);

/* o->text has a window at least, of two tokens or more. To be closed, whatever is returned;
   *stopped if o->progress said so. */
enum tft_status activations_run(struct activations *a, const struct tft_model *m,
                                const struct activations_opts *o, bool *stopped,
                                struct tft_error *err);
void activations_close(struct activations *a);

/*
 * Makes *bare the same model without its prefix: it shares everything else but its blocks, which
 * are to be freed. Where ranges were static they are each token's own: static ones were chosen for
 * what comes after the prefix, and would cut off the outliers that it took away. False without
 * memory.
 */
bool activations_bare(struct tft_model *bare, const struct tft_model *m);

/* The block whose input has the largest outliers: the three largest numbers together. */
uint32_t activations_worst(const struct activations *a);

/* Which tokens of the first window stand out at the input of block `layer`: their largest
   magnitudes are more than ACTIVATIONS_PIVOT times that of the middling token. Such are the pivot
   tokens of IntactKV. */
#define ACTIVATIONS_PIVOT 5
void activations_pivots(const struct activations *a, uint32_t layer, bool *pivot);

/* Averages of a layer's heads, of all. */
double activations_sink(const struct activations *a, uint32_t layer);

#endif
