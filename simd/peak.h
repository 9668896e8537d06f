/* Loops of nothing but one instruction over registers: what a machine can do at most. */
#ifndef TFT_PEAK_H
#define TFT_PEAK_H

#include <stddef.h>

/* each compiler has its word for it; unrolled, an array of accumulators becomes registers */
#if defined __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* A tft_peak_fn that updates 12 accumulators: enough to cover a latency of 6 cycles on two units,
   and few enough for 16 registers. `step` is the next value of acc[i], which may use `a`, a value
   equal to `init` that the compiler cannot see; one step is `ops` operations. */
#define TFT_PEAK(name, type, init, step, ops)                                                      \
    static double name(size_t rounds)                                                              \
    {                                                                                              \
        enum { CHAINS = 12 };                                                                      \
        volatile type hidden = (init);                                                             \
        type a = hidden, acc[CHAINS];                                                              \
        UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = hidden;                                   \
        for (size_t r = 0; r < rounds; r++)                                                        \
            UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = (step);                               \
        UNROLL for (int i = 0; i < CHAINS; i++) hidden = acc[i];                                   \
        return (double)(ops)*CHAINS * (double)rounds;                                              \
    }

#endif
