/*
 * Rounds a matrix to blocks of ggml's types with feedback (feedback.h). blocks_row
 * chooses the scales of a block, as for rounding to nearest, with the weight of each column; then
 * the codes are chosen with the errors of the columns before ("static groups" of GPTQ's code).
 */
#ifndef QUANTIZE_ROUND_GRID_H
#define QUANTIZE_ROUND_GRID_H

#include "file/file.h"
#include "tools/quantize/round/metric.h"

struct grid_how {
    const struct metric *metric; /* in groups of GRID_GROUP */
    const struct tft_kernels *kern;
    int n_threads;
    /* NULL, or called with the share done; false: stop */
    bool (*progress)(void *user, double done);
    void *user;
};

enum { GRID_GROUP = 64 };

/* to: the blocks of w: [rows, metric->n], finite, a type with blocks_levels; w becomes the numbers
   of the blocks. The result does not depend on kern or n_threads. False if memory is short, or if
   it was stopped. */
bool grid_round(unsigned char *to, enum tft_dtype type, float *w, size_t rows,
                const struct grid_how *how);

#endif
