/*
 * The codes of a quad (codes.h) in registers of bytes. Parameters, besides lanes.h:
 *
 *   breg, BYTES            a register of 16, 32 or 64 bytes
 *   b_set, b_and, b_add    in every byte; b_subs(a, b): the larger of a - b and 0; b_min
 *   b_lookup(table, a)     table[a[i]] for each byte a[i] < 16; table: [16]
 *   b_shift(a, n)          64-bit lane i shifted right by n[i]
 *   b_repeat(p, r, period) register r of `period` repeated bytes
 *
 * With HAVE_ROTATE: b_rotate(a, n), 64-bit lane i rotated right by n[i] bits of 64.
 *
 * An ISA level with a faster way defines HAVE_UNPACK_BITS, unpack_bits and unpack_above, and needs
 * no b_shift.
 */
#ifndef TFT_TEMPLATE_QUAD_H
#define TFT_TEMPLATE_QUAD_H

#include "lanes.h"

enum { QUAD_REGS = TFT_QUAD_CODES / BYTES };

_Static_assert(QUAD_REGS * BYTES == TFT_QUAD_CODES, "a quad is a whole number of registers");

#ifndef HAVE_UNPACK_BITS
/* A quad of 1, 2, 4 or 8 bits. */
FORCE_INLINE void unpack_bits(breg *a, const uint8_t *from, int bits)
{
    static const uint64_t shift[4][8] = {
        {0, 1, 2, 3, 4, 5, 6, 7}, {0, 0, 2, 2, 4, 4, 6, 6}, {0, 0, 0, 0, 4, 4, 4, 4}, {0}};
    const uint64_t *n = shift[bits == 1 ? 0 : bits == 2 ? 1 : bits == 4 ? 2 : 3];
    UNROLL for (int r = 0; r < QUAD_REGS; r++)
        a[r] = b_and(b_shift(b_repeat(from, r, 8 * bits), n + r * BYTES / 8),
                     b_set((uint8_t)((1 << bits) - 1)));
}

/* Adds the codes of a quad of 1 or 2 bits, times 2^n, to a. above: [16] c << n of each code c. */
FORCE_INLINE void unpack_above(breg *a, const uint8_t *from, int bits, int n, const uint8_t *above)
{
#ifdef HAVE_ROTATE
    uint64_t turn[8];
    (void)above;
    UNROLL for (int i = 0; i < 8; i++)
        turn[i] = (uint64_t)(i / bits * bits + 64 - n) % 64;
    UNROLL for (int r = 0; r < QUAD_REGS; r++)
        a[r] = b_add(a[r], b_and(b_rotate(b_repeat(from, r, 8 * bits), turn + r * BYTES / 8),
                                 b_set((uint8_t)(((1 << bits) - 1) << n))));
#else
    breg b[QUAD_REGS];
    (void)n;
    unpack_bits(b, from, bits);
    UNROLL for (int r = 0; r < QUAD_REGS; r++)
        a[r] = b_add(a[r], b_lookup(above, b[r]));
#endif
}
#endif

/* A quad of any width, a: [QUAD_REGS]; 3 levels as a 2-bit quad. */
FORCE_INLINE void unpack_quad(breg *a, const uint8_t *from, enum tft_bits bits)
{
    static const uint8_t high[16] = {0, 4};
    switch (bits) {
    case TFT_BITS_1: unpack_bits(a, from, 1); break;
    case TFT_BITS_4: unpack_bits(a, from, 4); break;
    case TFT_BITS_8:
        UNROLL for (int r = 0; r < QUAD_REGS; r++)
            a[r] = b_add(b_repeat(from, r, 64), b_set(128));
        break;
    case TFT_BITS_3:
        unpack_bits(a, from, 2);
        unpack_above(a, from + 16, 1, 2, high);
        break;
    default: unpack_bits(a, from, 2);
    }
}

/* Takes the first remaining digit of base 3 out of v. The digit is the overflow of 3 v: 1 from
   v = 86 on, 2 from 171 on. */
FORCE_INLINE void quad_digit(breg *digit, breg *v)
{
    UNROLL for (int r = 0; r < QUAD_REGS; r++) {
        digit[r] = b_add(b_min(b_subs(v[r], b_set(85)), b_set(1)),
                         b_min(b_subs(v[r], b_set(170)), b_set(1)));
        v[r] = b_add(v[r], b_add(v[r], v[r]));
    }
}

#endif
