/* Compiler hints for kernels, beyond C11. */
#ifndef TFT_HINTS_H
#define TFT_HINTS_H

/* A function that is always inlined: constant arguments are constants inside, and arrays of
   accumulators become registers. */
#define FORCE_INLINE static inline __attribute__((always_inline))

/* Before a loop: unroll it completely. */
#if defined __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
