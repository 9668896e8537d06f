/*
 * Low-bit panels: weights of int8 as codes of 4, 3 or 2 bits.
 *
 * W is [N, K] of int8, as in panel.h. `group` consecutive columns of a row share two small integers
 * s and z. A code c of `bits` bits means the weight
 *
 *   w = s * (c - z)      s in 1 .. 15, z in 0 .. 15, w in -127 .. 127
 *
 * So the weights are a W8A8 matrix, and its products are the same integers: the idea of QServe (Lin
 * et al. 2024, section 4.1).
 *
 * As in panel.h, 16 rows make a panel, and 4 consecutive columns a quad:
 *
 *   [N / 16 panels][K / group groups]
 *     [16]          bytes: s of a row in the low half, z in the high half
 *     [group / 4]   quads of codes, as codes.h packs them
 *
 * N is padded to a multiple of 16, and K to a multiple of `group`. Codes of the padding are
 * arbitrary and do not count.
 */
#ifndef TFT_LOW_PANEL_H
#define TFT_LOW_PANEL_H

#include <stddef.h>
#include <stdint.h>

#include "codes.h"

struct tft_low {
    enum tft_bits bits; /* TFT_BITS_4, TFT_BITS_3 or TFT_BITS_2 */
    uint8_t group;      /* 32, 64 or 128 */
};

enum { TFT_LOW_GROUP = 32, TFT_LOW_MAX_GROUP = 128, TFT_LOW_MAX_SCALE = 15, TFT_LOW_MAX_ZERO = 15 };

/* The number of groups of a row of K columns. */
TFT_INLINE size_t tft_low_groups(const struct tft_low *low, size_t K)
{
    return (K + low->group - 1) / low->group;
}

/* The size of a group of 16 rows. */
TFT_INLINE size_t tft_low_group_bytes(const struct tft_low *low)
{
    return TFT_PANEL + tft_codes_bytes(low->bits, low->group / TFT_QUAD);
}

/* The size of a panel of K columns. */
TFT_INLINE size_t tft_low_panel(const struct tft_low *low, size_t K)
{
    return tft_low_groups(low, K) * tft_low_group_bytes(low);
}

/* Code i of a quad at `quad`. */
TFT_INLINE int tft_low_code(const uint8_t *quad, enum tft_bits bits, size_t i)
{
    if (bits == TFT_BITS_4)
        return quad[i % 32] >> 4 * (i / 32) & 15;
    int low = quad[i % 16] >> 2 * (i / 16) & 3;
    return bits == TFT_BITS_3 ? low | (quad[16 + i % 8] >> i / 8 & 1) << 2 : low;
}

/* w[n][k] of the panels `data` of K columns. */
TFT_INLINE int tft_low_at(const uint8_t *data, const struct tft_low *low, size_t n, size_t k,
                          size_t K)
{
    const uint8_t *group = data + n / TFT_PANEL * tft_low_panel(low, K) +
                           k / low->group * tft_low_group_bytes(low);
    const uint8_t *quad =
        group + TFT_PANEL + k % low->group / TFT_QUAD * tft_codes_bytes(low->bits, 1);
    int s = group[n % TFT_PANEL] & 15, z = group[n % TFT_PANEL] >> 4;
    return s * (tft_low_code(quad, low->bits, n % TFT_PANEL * TFT_QUAD + k % TFT_QUAD) - z);
}

#endif
