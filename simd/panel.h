/*
 * Panels: the layout of int8 weights in a file and in memory (docs/file-format.md, "Panels"). All
 * kernels read this order, so a mapped file is used in place.
 *
 * W is [N, K], a row per output. 16 rows make a panel. In a panel, 4 consecutive columns make a
 * quad: the 4 bytes of row 0, then the 4 bytes of row 1, and so on, 64 bytes in all:
 *
 *   [N / 16 panels][K / 4 quads][16 rows][4 columns]
 *
 * N and K are padded to multiples of 16 with zeros. So a panel is a multiple of 256 bytes, and a
 * loop over quads may take four at a time.
 *
 * Weights are in -127 .. 127, not -128: a kernel without dot-product instructions adds two products
 * in 16 bits, and 2 * (-128)^2 would overflow. Opening a file refuses -128 (tft_format.flaw).
 */
#ifndef TFT_PANEL_H
#define TFT_PANEL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "inline.h"

enum { TFT_PANEL = 16, TFT_QUAD = 4, TFT_K_PAD = 16 };

/* The longest row: an int32 holds every sum of 255 * 128 * K exactly. */
enum { TFT_PANEL_MAX_K = 65536 };

static_assert(TFT_K_PAD % TFT_QUAD == 0, "a padded row is a whole number of quads");
static_assert(255LL * 128 * TFT_PANEL_MAX_K <= INT32_MAX, "an int32 holds every sum");

/* n rounded up to whole panels. */
TFT_INLINE size_t tft_panel_rows(size_t n)
{
    return (n + TFT_PANEL - 1) / TFT_PANEL * TFT_PANEL;
}

/* k rounded up to the padding of a row. */
TFT_INLINE size_t tft_panel_cols(size_t k)
{
    return (k + TFT_K_PAD - 1) / TFT_K_PAD * TFT_K_PAD;
}

/* The index of w[n][k] in the panels; cols is K with its padding. */
TFT_INLINE size_t tft_panel_at(size_t n, size_t k, size_t cols)
{
    return n / TFT_PANEL * TFT_PANEL * cols + k / TFT_QUAD * TFT_QUAD * TFT_PANEL +
           n % TFT_PANEL * TFT_QUAD + k % TFT_QUAD;
}

#endif
