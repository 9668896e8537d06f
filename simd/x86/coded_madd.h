/* The products of coded_x86.h without dot products of bytes. A pair of products of a code of at
   most 15 and a factor of at most 127 is at most 3810. An int16 holds the sum of 8 such pairs, from
   32 factors: so CODED_RUN is 2. */
static inline ireg i_dot8(ireg acc, ireg c, ireg x) { return i_add16(acc, i_maddubs(c, x)); }
static inline ireg i_dot16(ireg acc, ireg c, ireg x) { return i_add(acc, i_madd(c, x)); }
static inline ireg i_total8(ireg acc) { return i_madd(acc, i_set(0x00010001)); }

#define CODED_RUN 2
#include "coded_x86.h"
