/* Products for coded_x86.h without dot products of bytes. Two of a code of at most 15 and 127 are
   3810: 16 bits hold 8 such pairs, which is what 32 factors make. */
static inline ireg i_dot8(ireg acc, ireg c, ireg x) { return i_add16(acc, i_maddubs(c, x)); }
static inline ireg i_dot16(ireg acc, ireg c, ireg x) { return i_add(acc, i_madd(c, x)); }
static inline ireg i_total8(ireg acc) { return i_madd(acc, i_set(0x00010001)); }

#define CODED_RUN 2
#include "coded_x86.h"
