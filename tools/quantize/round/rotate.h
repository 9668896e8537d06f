/*
 * Rotations that are fused into weights (QuaRot: Ashkboos et al. 2024, section 4). H is the
 * Walsh-Hadamard matrix of `block` rows in natural order, tft_hadamard_fn's: its elements are 1 and
 * -1, it is symmetric, and H H = block * I, so that H / sqrt(block) is its own inverse. It spreads
 * a channel that stands out over all channels of its block.
 *
 * Computed in double precision and rounded once.
 */
#ifndef QUANTIZE_ROUND_ROTATE_H
#define QUANTIZE_ROUND_ROTATE_H

#include <stddef.h>

enum { ROTATE_MAX = 256 }; /* largest block: that of the kernel */

/* The largest block that divides n > 0: a power of two, up to ROTATE_MAX. */
size_t rotate_block(size_t n);

/* w: [rows, cols], rows `stride` apart; cols a multiple of block. Each block of each row is
   multiplied by
   H / block:        for the weights of a layer whose input the kernel transforms, which leaves the
                     factor out: ffn_down. w' (H x) = w x. */
void rotate_columns_online(float *w, size_t stride, size_t rows, size_t cols, size_t block);
/* H / sqrt(block):  for a bias of rotated rows, and for the columns of the layer that follows them:
                     the output of attention. */
void rotate_columns(float *w, size_t stride, size_t rows, size_t cols, size_t block);

/* w: [rows, cols], rows `stride` apart; rows a multiple of block. H / sqrt(block) times each block
   of rows: for the values of attention, where block divides the size of a head. Then
   rotate_columns(output) undoes it, for attention mixes values of the same channel only. */
void rotate_rows(float *w, size_t stride, size_t rows, size_t cols, size_t block);

#endif
