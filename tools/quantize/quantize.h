/*
 * A model of floats to one of W8A8: weights int8, and for every linear layer's input a scale and a
 * zero-point fixed from text (CushionCache, section 3; DESIGN 3). The conversion goes through the
 * model once, a layer at a time, with the whole calibration text:
 *
 *      x = embed(text)
 *      for each layer:   expand its weights to f32;  x = layer(x), watching what each linear layer
 *                        takes;
 *                        scales from what was seen;  fold, rotate, quantize and write the weights
 *
 * (where the residual stream is rotated, x is from the start, and so are the weights as soon as
 * they are expanded: all that follows sees another model of the same outputs) so that what is in
 * memory is a layer's weights, x, and the statistics of one layer.
 */
#ifndef QUANTIZE_H
#define QUANTIZE_H

#include "model/model.h"
#include "stats.h"

/* Each what the one before it is, and more: heads of attention's output; ffn_down's input, online;
   the residual stream (residual.h) */
enum quantize_rotate {
    QUANTIZE_ROTATE_NONE,
    QUANTIZE_ROTATE_O,
    QUANTIZE_ROTATE_O_DOWN,
    QUANTIZE_ROTATE_ALL
};

/* The most that costs a model nothing: all of it, but not where norms are LayerNorm, nor where a
   tied head would need its own. */
enum quantize_rotate quantize_rotate_auto(const struct tft_model *m);

struct cushion;

struct quantize_opts {
    const int32_t *text; /* [n_text] calibration tokens, without BOS */
    size_t n_text;
    uint32_t window; /* tokens that are computed as one sequence; at most n_text */
    enum stats_method method;
    double param;  /* of the method */
    float smooth;  /* SmoothQuant's alpha; 0: none */
    enum quantize_rotate rotate;
    bool per_tensor;       /* one scale for all rows of a matrix */
    const int32_t *prefix; /* [n_prefix] tokens whose keys and values come before every sequence:
                              IntactKV, section 4.1 */
    uint32_t n_prefix;
    enum tft_dtype prefix_type; /* how these are held, TFT_Q8_0 or TFT_Q4_1; 0: TFT_F16 */
    const struct cushion *cushion; /* how they were found; NULL if they were given */
    const enum tft_range *range; /* [inputs] STATIC, or what is to stay dynamic */
    const char *kv;                /* the cache that the file is to name; NULL: none */
    int n_threads;
    bool (*progress)(void *user, double done); /* false: stop, and leave nothing */
    void *user;
    /* NULL, or is shown what each layer leaves of the text in the residual stream of floats: x:
       [n_text in whole windows], D numbers each, `stride` apart */
    void (*outputs)(void *user, uint32_t layer, const float *x, size_t stride);
    void *outputs_user;
};

/* What became of an input. */
struct quantize_input {
    struct tft_affine affine;
    double error; /* |x - q(x)|^2 / |x|^2 over the calibration text */
    float min, max; /* what was seen */
};

/* Inputs of a model: enum in model.h for each layer, then the head. */
static inline uint32_t quantize_inputs(const struct tft_model *m)
{
    return m->n_layer * TFT_LAYER_INPUTS + 1;
}

/* Blocks of the transforms that are wanted, as large as the model's shapes allow: of a head, and of
   ffn_down's input. 0: none */
uint32_t quantize_head_block(const struct tft_model *m, const struct quantize_opts *o);
uint32_t quantize_down_block(const struct tft_model *m, const struct quantize_opts *o);

/* What a layer's input is called by the linear layer, or the first of those, that takes it:
   "ffn_down" */
const char *quantize_part_name(uint32_t which);

/* "blk.3.ffn_down", and "output" for the input after those of n_layer layers. */
const char *quantize_input_name(uint32_t n_layer, uint32_t index, char name[64]);

/* m: opened by tft_model_open_unexpanded, and afterwards as it was. result: [inputs]. On failure
   there is no file, and err says why; TFT_OK without a file if *stopped. */
enum tft_status quantize(struct tft_model *m, const char *path, const struct quantize_opts *o,
                         struct quantize_input *result, bool *stopped, struct tft_error *err);

#endif
