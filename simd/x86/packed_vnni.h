/* The products of packed_x86.h with dot products of bytes: i_dot8 of coded_x86.h. */
#define PACKED_SIGNED 0

static inline ireg i_pair(ireg acc, ireg w0, ireg x0, ireg w1, ireg x1, bool wide)
{
    (void)wide;
    return i_dot8(i_dot8(acc, w0, x0), w1, x1);
}

#define NARROW_BITS 8
static inline ireg i_narrow(ireg acc, ireg c, ireg x) { return i_dot8(acc, c, x); }
static inline ireg i_narrow_sums(ireg acc) { return acc; }

#define PACKED_RUNS 0
#include "packed_x86.h"
