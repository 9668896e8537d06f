/*
 * Codes: the memory layout of quantized keys and values of a KV cache.
 *
 * As in panel.h, 16 rows make a panel, and 4 consecutive columns of a panel a quad. A quad is 64
 * codes; unpacked code number 4 * row + column is the byte at that index in a weight panel's quad.
 * In a panel of keys, rows are tokens and columns are channels; in a panel of values, rows are
 * channels and columns are tokens.
 *
 * Each quad is packed separately, so a panel may mix quads of several widths:
 *
 *   1 bit      8 bytes    bit l of byte b is code 8 l + b
 *   2 bits     16 bytes   bits 2 l and 2 l + 1 of byte b are code 16 l + b
 *   3 bits     24 bytes   a 2-bit quad of the low bits, then a 1-bit quad of the high bits
 *   4 bits     32 bytes   the low half of byte b is code b, the high half is code 32 + b
 *   8 bits     64 bytes   byte b is code b
 *   3 levels   64 bytes   five quads together: byte b holds code b of each quad
 *
 * The byte of five 3-level codes is a fraction in base 3, the digit of the first quad first,
 * rounded up to a multiple of 1 / 256: multiplied by 3, the byte overflows by the next digit. A
 * code takes 1.6 bits (log2 3 is 1.58). Up to four remaining quads are stored as 2-bit quads.
 */
#ifndef TFT_CODES_H
#define TFT_CODES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "inline.h"
#include "panel.h"

/* Widths of a code, in the order of their quads in a panel. */
enum tft_bits {
    TFT_BITS_1,
    TFT_BITS_3_LEVELS,
    TFT_BITS_2,
    TFT_BITS_3,
    TFT_BITS_4,
    TFT_BITS_8,
    TFT_BITS_COUNT
};

enum { TFT_QUAD_CODES = TFT_PANEL * TFT_QUAD, TFT_TRIT_QUADS = 5 };

static_assert(TFT_QUAD_CODES == 64, "the layouts above are of quads of 64 codes");

/* The number of values of a code. */
TFT_INLINE unsigned tft_bits_levels(enum tft_bits b)
{
    static const uint16_t levels[] = {2, 3, 4, 8, 16, 256};
    static_assert(sizeof levels / sizeof *levels == TFT_BITS_COUNT, "one for each enum tft_bits");
    return levels[b];
}

/* The size in bytes of `quads` quads of a panel. */
TFT_INLINE size_t tft_codes_bytes(enum tft_bits b, size_t quads)
{
    static const uint8_t quad[] = {8, 16, 16, 24, 32, 64};
    static_assert(sizeof quad / sizeof *quad == TFT_BITS_COUNT, "one for each enum tft_bits");
    size_t fives = b == TFT_BITS_3_LEVELS ? quads / TFT_TRIT_QUADS : 0;
    return fives * TFT_QUAD_CODES + (quads - fives * TFT_TRIT_QUADS) * quad[b];
}

/* to: [tft_codes_bytes(b, quads)], codes: [quads, 64], each less than tft_bits_levels(b). */
void tft_codes_pack(uint8_t *to, const uint8_t *codes, enum tft_bits b, size_t quads);
void tft_codes_unpack(uint8_t *codes, const uint8_t *from, enum tft_bits b, size_t quads);

#endif
