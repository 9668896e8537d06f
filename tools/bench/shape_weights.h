/* Writes tensors of random weights: matrices of int8 numbers or of codes, with their scales and row
   sums, or of blocks; and vectors of equal floats. */
#ifndef SHAPE_WEIGHTS_H
#define SHAPE_WEIGHTS_H

#include "inside.h"

struct shape_matrix {
    const char *format; /* format of its name, with %u for the layer */
    uint32_t rows, cols;
    bool bias;
    uint32_t experts; /* how many matrices of `rows` rows; 0: one, not of experts */
    char name[64];
    int32_t *sum; /* [all rows] the sum of each row's weights */
};

enum { SHAPE_TENSORS = 2048 };

/* Three runs over all tensors: the first counts them, the second writes their descriptions, the
   third their data. */
struct shape_weights {
    const struct tft_low *low; /* the codes of the weights; NULL: int8 */
    enum tft_dtype type;       /* Q1_0: blocks as in an ordinary GGUF file; 0: a W8A8 file */
    struct tft_gguf_writer *gguf;
    bool counted; /* in the second run and the third */
    bool data;    /* in the third run */
    size_t n_tensor;
    int32_t codes[SHAPE_TENSORS];  /* [n_tensor] TFT_KEY_WEIGHT_CODES */
    bool (*progress)(double done); /* as in struct shape_opts */
    bool stopped;
    uint64_t random;
    double done, all; /* bytes of weights written, and of all */
    int8_t *panel;    /* [TFT_PANEL, the longest row] scratch */
};

struct tft_str shape_str(const char *s);

/* Counts or describes the tensor NAME SUFFIX, in the first two runs. */
void shape_describe(struct shape_weights *w, const char *name, const char *suffix,
                    enum tft_dtype type, uint32_t n_dims, const uint64_t *ne);

/* Fills w->panel with random numbers of -127 .. 127. bytes: a multiple of 8. */
void shape_fill(struct shape_weights *w, size_t bytes);

/* Puts a matrix of blocks of a type, in any file; a row is at most a panel. */
void shape_blocks(struct shape_weights *w, const char *name, enum tft_dtype type, uint32_t rows,
                  uint32_t cols);

/* Puts `rows` vectors of n equal numbers; one vector. */
void shape_vectors(struct shape_weights *w, const char *name, const char *suffix, uint32_t rows,
                   uint32_t n, float value);
void shape_vector(struct shape_weights *w, const char *name, const char *suffix, uint32_t n,
                  float value);

/* Puts the matrices x[n] of a layer: first their weights, then their scales. */
void shape_matrices(struct shape_weights *w, unsigned layer, struct shape_matrix *x, size_t n);

#endif
