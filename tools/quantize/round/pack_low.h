/*
 * Lays codes of 4, 3 or 2 bits out as panels (simd/low_panel.h), and sums the rows of the int8
 * numbers that they stand for. The caller chooses the codes.
 *
 * A matrix of a file is written a panel at a time: NAME.weight is I8 [panels, tft_low_panel(low,
 * tft_panel_cols(cols))], and its element of TFT_KEY_WEIGHT_CODES is pack_low_key(low).
 */
#ifndef QUANTIZE_ROUND_PACK_LOW_H
#define QUANTIZE_ROUND_PACK_LOW_H

#include <stddef.h>
#include <stdint.h>

#include "simd/low_panel.h"

/* s in 1 .. 15, z in 0 .. 15, as a byte of a group. */
static inline uint8_t pack_low_factors(int s, int z)
{
    return (uint8_t)(s | z << 4);
}

static inline int pack_low_scale(uint8_t factors)
{
    return factors & 15;
}

static inline int pack_low_zero(uint8_t factors)
{
    return factors >> 4;
}

/* bits + 256 * group */
int32_t pack_low_key(const struct tft_low *low);

/* Packs one panel. to: [tft_low_panel(low, tft_panel_cols(cols))]; rowsum: [16]; code: [rows,
   cols], rows `stride` apart, each less than 2^bits; factors: [rows, tft_low_groups(low, cols)],
   from pack_low_factors; rows <= 16, cols <= TFT_PANEL_MAX_K. Every s * (c - z) must be in
   -127 .. 127.
   Codes of missing rows and columns become 0, and do not count in rowsum. */
void pack_low_panel(uint8_t *to, int32_t *rowsum, const struct tft_low *low, const uint8_t *code,
                    size_t stride, const uint8_t *factors, size_t rows, size_t cols);

#endif
