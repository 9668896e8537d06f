/*
 * How int8 weights lie in a file and in memory (DESIGN 3.1): the order in which every kernel reads
 * them, so that a file is mapped and run. W is [N, K], a row per output. 16 rows are a panel; in
 * it, for each quad of 4 consecutive k, the 16 rows' 4 bytes:
 *
 *      [N / 16][K / 4][16 rows][4 k]
 *
 * N is padded to 16 and K to 16 with zeros, so a panel is a multiple of 256 bytes and a loop over
 * quads can take four at a time. Weights are in -127 .. 127: a kernel without dot-product
 * instructions adds two products in 16 bits, which (-128)^2 twice would overflow.
 */
#ifndef TFT_PANEL_H
#define TFT_PANEL_H

#include <stddef.h>
#include <stdint.h>

#include "inline.h"

enum { TFT_PANEL = 16, TFT_QUAD = 4, TFT_K_PAD = 16 };

/* Longest row: 255 * 128 * K stays below 2^31, so that int32 holds every sum exactly. */
enum { TFT_PANEL_MAX_K = 65536 };

TFT_INLINE size_t tft_panel_rows(size_t n)
{
    return (n + TFT_PANEL - 1) / TFT_PANEL * TFT_PANEL;
}

TFT_INLINE size_t tft_panel_cols(size_t k)
{
    return (k + TFT_K_PAD - 1) / TFT_K_PAD * TFT_K_PAD;
}

/* Where w[n][k] lies; cols is K with its padding. */
TFT_INLINE size_t tft_panel_at(size_t n, size_t k, size_t cols)
{
    return n / TFT_PANEL * TFT_PANEL * cols + k / TFT_QUAD * TFT_QUAD * TFT_PANEL +
           n % TFT_PANEL * TFT_QUAD + k % TFT_QUAD;
}

#endif
