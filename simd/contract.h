/* The numerics contract's (kernels.h) requirements on a compiler and CPU. A build that cannot keep
   the contract stops here: its program would return other bits. */
#ifndef TFT_CONTRACT_H
#define TFT_CONTRACT_H

#include <float.h>
#include <stdbool.h>

#if defined __FAST_MATH__ || defined __ASSOCIATIVE_MATH__ || defined __RECIPROCAL_MATH__ ||        \
    (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error "-ffast-math and -Ofast change results: remove them from CFLAGS."
#endif

#if FLT_EVAL_METHOD != 0
#error "Floats are computed with extra bits (x87): compile with -msse2 -mfpmath=sse."
#endif

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Model files are little-endian, and are used where they lie: this CPU is not."
#endif

/* Whether the compiler made an fma of a product and a sum, as gcc does without -ffp-contract=off
   where there is such an instruction. The square lies between two floats. */
static inline bool tft_contracts(void)
{
    volatile float read = 1 + 1.0f / 4096;
    float x = read;
    return x * x - (1 + 1.0f / 2048) != 0;
}

#endif
