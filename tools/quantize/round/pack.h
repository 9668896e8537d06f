/*
 * Rounds weights to symmetric int8 in panels (panel.h): w becomes q * scale, with q = rint(w /
 * scale) in -127 .. 127, ties to even; the division is in float. scale = max |w| / 127 of the row,
 * or of the whole matrix. A scale is always a positive normal number, so that a reader can refuse
 * all others: it is 1 for a row of zeros and for padding.
 *
 * Works a panel at a time, so that a matrix need not be in memory as floats: pack_max, pack_scale
 * and pack_panel for 16 rows. For one scale per matrix, first call pack_max for all rows.
 */
#ifndef QUANTIZE_ROUND_PACK_H
#define QUANTIZE_ROUND_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd/panel.h"

/* max: [rows] = the largest |w| of each row; w: [rows, cols], rows `stride` apart. Returns rows, or
   the first row with a NaN or an infinity; max is then filled up to that row. */
size_t pack_max(float *max, const float *w, size_t stride, size_t rows, size_t cols);

/* max: finite */
float pack_scale(float max);

/* Packs one panel; w: [rows, cols], rows `stride` apart, rows <= 16, cols <= TFT_PANEL_MAX_K, all
   finite; data: [16 * tft_panel_cols(cols)]; rowsum: [16]; scale: [rows], pack_scale of a max that
   is at least the row's. Missing rows and columns become zeros. */
void pack_panel(int8_t *data, int32_t *rowsum, const float *scale, const float *w, size_t stride,
                size_t rows, size_t cols);

/* All three steps for a matrix, or for a piece of one that ends with a panel; data:
   [tft_panel_rows(rows) * tft_panel_cols(cols)], rowsum, scale: [tft_panel_rows(rows)]. same: one
   scale for all rows. Returns like pack_max; the output is void if that is not `rows`. */
size_t pack_matrix(int8_t *data, int32_t *rowsum, float *scale, const float *w, size_t stride,
                   size_t rows, size_t cols, bool same);

#endif
