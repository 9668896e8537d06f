/*
 * Weights as symmetric int8 in panels (panel.h): w stands for q * scale, q = rint(w / scale) in
 * -127 .. 127, ties to even; the division is a float's. A scale is max / 127 of the channel, or of
 * the whole tensor. It is a positive normal number whatever the weights: 1 for a channel of zeros
 * and for the padding, so that a reader can refuse all others.
 *
 * A panel at a time, so that a tensor need not be in memory as floats: pack_max and pack_scale for
 * 16 rows, then pack_panel; for one scale per tensor first pack_max of everything.
 */
#ifndef QUANTIZE_ROUND_PACK_H
#define QUANTIZE_ROUND_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd/panel.h"

/* w: [rows, cols], rows `stride` apart; max: [rows] = the largest |w| of each row. Returns rows, or
   the first row in which there is a NaN or an infinity, and max is filled up to there. */
size_t pack_max(float *max, const float *w, size_t stride, size_t rows, size_t cols);

/* max: finite */
float pack_scale(float max);

/* w: [rows, cols], rows `stride` apart, rows <= 16, cols <= TFT_PANEL_MAX_K, finite; data: [16 *
   tft_panel_cols(cols)]; rowsum: [16]; scale: [rows], pack_scale of a max that is no less than the
   row's. The rows that are not there, and the columns, are zeros. */
void pack_panel(int8_t *data, int32_t *rowsum, const float *scale, const float *w, size_t stride,
                size_t rows, size_t cols);

/* All of that for a tensor, or a piece of one that ends with a panel: data: [tft_panel_rows(rows) *
   tft_panel_cols(cols)], rowsum, scale: [tft_panel_rows(rows)]. One scale for all of it if `same`.
   Returns as pack_max does, and where that is not `rows` the result is void. */
size_t pack_matrix(int8_t *data, int32_t *rowsum, float *scale, const float *w, size_t stride,
                   size_t rows, size_t cols, bool same);

#endif
