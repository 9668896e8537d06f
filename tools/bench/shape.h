/* Writes models with the shapes of well-known models and random weights, so that speed can be
   measured without a model: W8A8 models, and GGUF files of the type that a model comes in. */
#ifndef SHAPE_H
#define SHAPE_H

#include <stdbool.h>

#include "tuffet.h"

#define SHAPE_NAMES                                                                                \
    "smollm2-135m, qwen2.5-0.5b, llama-3.2-1b, qwen3-0.6b, smollm3-3b, phi-4-mini, gemma-3-1b, "   \
    "gemma-2-2b, gemma-4-e2b, gemma-4-e4b, granite-3-1b-a400m, granite-4-h-1b, qwen3-30b-a3b, "    \
    "lfm2-1.2b, qwen3.5-0.8b, qwen3.5-2b, bonsai-1.7b"

/* The columns of a group of codes. */
enum { SHAPE_GROUP = 64 };

/* How a model measures the ranges of activations. */
enum shape_range {
    SHAPE_STATIC, /* they are fixed in the file */
    SHAPE_TOKEN,  /* for each token */
};

struct shape_opts {
    const char *name;              /* one of SHAPE_NAMES */
    uint32_t layers;               /* only the first ones; 0: all */
    unsigned bits;                 /* of a weight: 8, 4, 3 or 2 */
    enum shape_range range;        /* of activations */
    bool (*progress)(double done); /* NULL, or called from time to time with done = 0 .. 1; false
                                      stops the writing */
};

/* Whether this is one of SHAPE_NAMES. */
bool shape_is_known(const char *name);

/* Whether the weights have a type of GGUF files: bits are then 8, and the range SHAPE_STATIC. */
bool shape_has_type(const char *name);

/* The least number of layers of this shape with which a model can be opened: the last of them is
   the first with attention. */
uint32_t shape_least_layers(const char *name);

/* Writes such a model to a file. TFT_OK without a file if `progress` stopped it. TFT_ERR_ARG:
   unknown name or bits, or not those of a type. */
enum tft_status shape_write(const struct shape_opts *o, const char *path, struct tft_error *err);

#endif
