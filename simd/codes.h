/*
 * How the codes of a quantized KV cache lie in memory. A panel is 16 rows, as in panel.h, and a
 * quad 4 consecutive columns of them: 64 codes, number 4 * row + column, which when unpacked are
 * the 64 bytes that a dot product of bytes wants. Each quad is packed by itself, whatever its
 * neighbours have, so that a panel may mix quads of several widths:
 *
 *      1 bit     8 bytes: bit l of byte b is code 8 l + b
 *      2 bits    16 bytes: bits 2 l, 2 l + 1 of byte b are code 16 l + b
 *      3 bits    a 2-bit quad with the low bits, then a 1-bit quad with the high ones
 *      4 bits    32 bytes: the low half of byte b is code b, the high one code 32 + b
 *      8 bits    64 bytes
 *      3 levels  five quads in 64 bytes, byte b has code b of each: as a fraction in base 3, the
 *                first quad's digit first, rounded up to 256ths, so that the next digit is the
 *                overflow of a multiplication by 3. Quads that do not make five are 2-bit quads.
 *                1.6 bits a code (log2 3 is 1.58).
 *
 * The rows of a panel of keys are tokens and its columns channels; of values the other way round.
 */
#ifndef TFT_CODES_H
#define TFT_CODES_H

#include <stddef.h>
#include <stdint.h>

#include "inline.h"
#include "panel.h"

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

TFT_INLINE unsigned tft_bits_levels(enum tft_bits b)
{
    static const uint16_t levels[TFT_BITS_COUNT] = {2, 3, 4, 8, 16, 256};
    return levels[b];
}

/* Bytes of `quads` quads of a panel. */
TFT_INLINE size_t tft_codes_bytes(enum tft_bits b, size_t quads)
{
    static const uint8_t quad[TFT_BITS_COUNT] = {8, 16, 16, 24, 32, 64};
    size_t fives = b == TFT_BITS_3_LEVELS ? quads / TFT_TRIT_QUADS : 0;
    return fives * 64 + (quads - fives * TFT_TRIT_QUADS) * quad[b];
}

/* to: [tft_codes_bytes], codes: [quads, 64], each below the number of levels */
void tft_codes_pack(uint8_t *to, const uint8_t *codes, enum tft_bits b, size_t quads);
void tft_codes_unpack(uint8_t *codes, const uint8_t *from, enum tft_bits b, size_t quads);

#endif
