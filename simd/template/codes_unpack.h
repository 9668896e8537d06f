/* Unpacks codes of a panel (codes.h) to a byte per code. Parameters: codes_attention.h. */
#ifndef TFT_TEMPLATE_CODES_UNPACK_H
#define TFT_TEMPLATE_CODES_UNPACK_H

#include "codes_batch.h"
#include "quad.h"

/* Five quads of 3 levels. */
FORCE_INLINE void unpack_five(uint8_t *to, const uint8_t *from)
{
    breg v[QUAD_REGS], digit[QUAD_REGS];
    UNROLL for (int r = 0; r < QUAD_REGS; r++)
        v[r] = b_repeat(from, r, 64);
    UNROLL for (int i = 0; i < TFT_TRIT_QUADS; i++) {
        quad_digit(digit, v);
        c_put(to + i * CODED_QUAD, digit);
    }
}

/* Returns the end of the bytes read. */
FORCE_INLINE const uint8_t *unpack_quads(uint8_t *to, const uint8_t *from, enum tft_bits bits,
                                         size_t quads)
{
    size_t size = tft_codes_bytes(bits, 1);
    for (; quads; quads--, to += CODED_QUAD, from += size) {
        breg a[QUAD_REGS];
        unpack_quad(a, from, bits);
        c_put(to, a);
    }
    return from;
}

FORCE_INLINE const uint8_t *unpack_trits(uint8_t *to, const uint8_t *from, size_t quads)
{
    for (; quads >= TFT_TRIT_QUADS;
         quads -= TFT_TRIT_QUADS, to += TFT_TRIT_QUADS * CODED_QUAD, from += 64)
        unpack_five(to, from);
    return unpack_quads(to, from, TFT_BITS_3_LEVELS, quads);
}

FORCE_INLINE size_t coded_panel_bytes(const struct tft_coded *b)
{
    size_t bytes = 0;
    for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++)
        bytes += tft_codes_bytes(bits, b->quads[bits]);
    return bytes;
}

/* Unpacks a whole panel of b at `from`. */
static void ISA(unpack_panel)(uint8_t *to, const uint8_t *from, const struct tft_coded *b)
{
    for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++) {
        size_t quads = b->quads[bits];
        switch (bits) {
        case TFT_BITS_1: from = unpack_quads(to, from, TFT_BITS_1, quads); break;
        case TFT_BITS_3_LEVELS: from = unpack_trits(to, from, quads); break;
        case TFT_BITS_3: from = unpack_quads(to, from, TFT_BITS_3, quads); break;
        case TFT_BITS_4: from = unpack_quads(to, from, TFT_BITS_4, quads); break;
        case TFT_BITS_8: from = unpack_quads(to, from, TFT_BITS_8, quads); break;
        default: from = unpack_quads(to, from, TFT_BITS_2, quads);
        }
        to += quads * CODED_QUAD;
    }
}

/* Prepares a batch for adjacent panels of n_blocks blocks like b: the weights of their columns, and
   zeros for the codes that pad the columns to a multiple of 16. */
static void ISA(coded_columns)(struct coded_batch *batch, const struct tft_coded *b,
                               size_t n_blocks)
{
    size_t n = 0;
    for (; n_blocks; n_blocks--)
        for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++) {
            float w = bits == TFT_BITS_8 ? -1.0f : (float)(tft_bits_levels(bits) - 1),
                  quad[TFT_QUAD] = {w, w, w, w};
            for (size_t end = n + (size_t)b->quads[bits] * TFT_QUAD; n < end; n += TFT_QUAD)
                memcpy(batch->weight + n, quad, sizeof quad);
        }
    for (; n % 16; n += TFT_QUAD) {
        memset(batch->weight + n, 0, TFT_QUAD * sizeof *batch->weight);
        memset(batch->codes + n / TFT_QUAD * CODED_QUAD, 0, CODED_QUAD);
    }
}

#endif
