/*
 * The products of packed_x86.h without dot products of bytes. A product of a narrow number, at most
 * 63, and a byte of a token, at most 127, is at most 8001: an int16 holds the sum of four. With
 * numbers up to 31 it is at most 3937: the sum of eight. A product of a wide number is at most
 * 128 * 127: the sum of two. The factors of a wide product are the magnitude of the number, and the
 * byte with the sign of the number.
 *
 * Parameters, besides packed_x86.h's: i_magnitude(w) = |w|, and i_signed(x, w) = x, or -x where
 * w < 0, of bytes.
 */
#define PACKED_SIGNED 1
#define PACKED_RUNS 1

static inline ireg i_pair(ireg acc, ireg w0, ireg x0, ireg w1, ireg x1, bool wide)
{
    const ireg ones = i_set(0x00010001);
    if (wide) {
        ireg first = i_maddubs(i_magnitude(w0), i_signed(x0, w0)),
             second = i_maddubs(i_magnitude(w1), i_signed(x1, w1));
        return i_add(acc, i_add(i_madd(first, ones), i_madd(second, ones)));
    }
    return i_add(acc, i_madd(i_add16(i_maddubs(w0, x0), i_maddubs(w1, x1)), ones));
}

/* A code is at most 12 where it stands, so an int16 holds eight sums of two products. */
#define NARROW_BITS 4
static inline ireg i_narrow(ireg acc, ireg c, ireg x) { return i_add16(acc, i_maddubs(c, x)); }
static inline ireg i_narrow_sums(ireg acc) { return i_madd(acc, i_set(0x00010001)); }

#include "packed_x86.h"
