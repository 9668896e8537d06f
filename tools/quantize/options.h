/* Options of quantize(). */
#ifndef QUANTIZE_OPTIONS_H
#define QUANTIZE_OPTIONS_H

#include "model/model.h"
#include "tools/quantize/inputs.h"
#include "tools/quantize/measure/histogram.h"

/* Rotations. Each value includes the ones before it: of attention's output, a head at a time
   (rotate.h); of ffn_down's input, by a transform at run time (rotate.h); of the residual stream
   (rotate_residual.h). */
enum quantize_rotate {
    QUANTIZE_ROTATE_NONE,
    QUANTIZE_ROTATE_O,
    QUANTIZE_ROTATE_O_DOWN,
    QUANTIZE_ROTATE_ALL
};

/* How weights of few bits are rounded: with feedback (low_bits.h); to nearest; to nearest, with
   inputs scaled by AWQ (awq.h). */
enum quantize_rounding { QUANTIZE_GPTQ, QUANTIZE_NEAREST, QUANTIZE_AWQ };

struct cushion;

/* A plain GGUF file's matrices, rounded with feedback (round/grid.h). */
struct quantize_blocks {
    const struct mix *mix; /* the types of the file */
    unsigned char **of;    /* [source's tensors] the blocks of a matrix, which the caller frees;
                              NULL: it was not rounded */
};

/* Transforms of the rows of attn_v, beside rotation (fold.h), for values computed later. */
struct quantize_values {
    float *factor;  /* [n_layer, G, E] divisors */
    int32_t *order; /* [n_layer, G, E] the head's channel at each place */
};

/* False if memory is short. close accepts all zeros. */
bool quantize_values_open(struct quantize_values *v, const struct tft_model *m);
void quantize_values_close(struct quantize_values *v);

struct quantize_opts {
    const int32_t *text; /* [n_text] calibration tokens, without BOS */
    size_t n_text;
    uint32_t window; /* tokens computed as one sequence; at most n_text */
    enum range_method method; /* how the static range of an input is chosen */
    double param;             /* parameter of the method: percent for RANGE_PERCENTILE */
    float smooth;             /* SmoothQuant's alpha; 0: no smoothing, which AWQ needs */
    enum quantize_rotate rotate;
    bool per_tensor;       /* one scale for a whole weight matrix, not one for each row */
    const uint8_t *bits;   /* [n_layer, LAYER_MATS] bits of a weight of each matrix: 2, 3 or 4
                              (low_bits.h), or 8; NULL: all have 8 */
    uint32_t group;        /* 2 to 4 bits: weights that share a scale and a zero; */
    const uint8_t *groups; /* [n_layer, LAYER_MATS] those of each matrix; NULL: `group` for all */
    const float *nats;     /* [n_layer, LAYER_MATS] loss of rounding each matrix that the search for
                              bits expects, for the file; NULL: unknown */
    enum quantize_rounding rounding; /* of weights of 2 to 4 bits */
    struct quantize_blocks *blocks;  /* of quantize_to_blocks; NULL: weights become panels */
    const int32_t *prefix; /* [n_prefix] tokens whose keys and values precede every sequence:
                              IntactKV, section 4.1 */
    uint32_t n_prefix, n_prefix_text; /* the last n_prefix_text tokens are text */
    const uint16_t *rows_k, *rows_v; /* [n_layer, n_prefix, G, E] f16: the prefix's keys and values
                                        after tuning, values as the float model has them. The text
                                        attends to them, and the file gets them. NULL: the rows that
                                        the float model computes */
    enum tft_dtype prefix_type; /* type of the prefix in the file: TFT_Q8_0 or TFT_Q4_1;
                                   0: TFT_F16 */
    const struct cushion *cushion; /* the search that found the prefix; NULL: there was none */
    bool pivots;                   /* the prefix takes outliers that were found in the text
                                      (pivots.h) */
    const enum tft_range *range;   /* [inputs] STATIC, or how the range is measured at run time */
    const char *kv;                /* KV cache policy to store as the file's default; NULL: none */
    struct quantize_values *values; /* filled; or NULL */
    int n_threads;
    bool (*progress)(void *user, double done); /* false: stop and write nothing */
    void *user;
    /* Called after each layer with the float model's residual stream over the text; or NULL. x:
       [n_text, rounded down to whole windows] rows of D numbers, `stride` apart. */
    void (*outputs)(void *user, uint32_t layer, const float *x, size_t stride);
    void *outputs_user;
};

/* The cache that float passes compute with, if the new file's default is `kv`: "f32" if that is it,
   as the keys or values of such a model may exceed f16; else "f16". */
const char *quantize_float_cache(const char *kv);

/* The strongest rotation that costs nothing at run time: ALL; or O_DOWN if the stream cannot be
   rotated, or if a tied head would need weights of its own. */
enum quantize_rotate quantize_rotate_auto(const struct tft_model *m);

/* Bits of a weight: 8, or 2 to 4; then the weights that share a scale and a zero. */
uint32_t quantize_bits(const struct quantize_opts *o, uint32_t layer, int matrix);
uint32_t quantize_group(const struct quantize_opts *o, uint32_t layer, int matrix);

/* Whether any of layers first .. end - 1 has a matrix of few bits. */
bool quantize_low_bits(const struct quantize_opts *o, uint32_t first, uint32_t end);

/* Whether the residual stream can be rotated: all norms are RMSNorm, and none follows attention or
   feed-forward, where its gain cannot move into a matrix. */
bool quantize_rotate_all_possible(const struct tft_model *m);

/* Whether heads of attention's output can be rotated. They cannot if a gate or a norm lies between
   attention, or a mixer with a state, and the matrix, or if the matrix of values makes keys, too. A
   norm of values has no gain, so values may turn before it. */
bool quantize_rotate_o_possible(const struct tft_model *m);

/* Sizes of the Hadamard blocks that `o` asks for, as large as the model's shapes allow: for a head
   of attention's output, if it can be rotated; for ffn_down's input. 0: no rotation. */
uint32_t quantize_head_block(const struct tft_model *m, const struct quantize_opts *o);
uint32_t quantize_down_block(const struct tft_model *m, const struct quantize_opts *o);

#endif
