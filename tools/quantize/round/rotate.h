/*
 * Hadamard rotations that are fused into weights (QuaRot: Ashkboos et al. 2024, section 4). They
 * spread an outlier channel over all channels of its block.
 *
 * H is the Walsh-Hadamard matrix of `block` rows in natural order, as in tft_hadamard_fn. Its
 * elements are 1 and -1, it is symmetric, and H H = block * I: H / sqrt(block) is its own inverse.
 *
 * Computed in double precision and rounded once.
 */
#ifndef QUANTIZE_ROUND_ROTATE_H
#define QUANTIZE_ROUND_ROTATE_H

#include <stddef.h>

enum { ROTATE_MAX = 256 }; /* largest block: the kernel's limit */

/* The largest power of two up to ROTATE_MAX that divides n > 0. */
size_t rotate_block(size_t n);

/* Each block of each row is multiplied by the matrix named below; w: [rows, cols], rows `stride`
   apart, cols a multiple of block.
   online: H / block, for a layer whose input x the kernel transforms to H x at run time, without
   the factor (ffn_down): w' (H x) = w x.
   rotate_columns: H / sqrt(block), for the layer that reads rotated rows (the output of attention),
   and for the bias of rotated rows. */
void rotate_columns_online(float *w, size_t stride, size_t rows, size_t cols, size_t block);
void rotate_columns(float *w, size_t stride, size_t rows, size_t cols, size_t block);

/* Each block of rows is multiplied by H / sqrt(block); w: [rows, cols], rows `stride` apart, rows a
   multiple of block. For the values of attention, where block divides the head size:
   rotate_columns of the output matrix undoes it, as attention mixes values channel by channel. */
void rotate_rows(float *w, size_t stride, size_t rows, size_t cols, size_t block);

#endif
