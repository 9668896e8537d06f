/* Defines the tft_peak_fn of an ISA level: a loop of one instruction over registers. */
#ifndef TFT_PEAK_H
#define TFT_PEAK_H

#include <stddef.h>

#include "hints.h"

/* Defines tft_peak_fn `name`, with 12 accumulators of `type`: enough to hide a latency of 6 cycles
   on two units, and few enough for 16 registers. step: the next value of acc[i], an expression that
   may use `a`, a copy of `init` that the compiler cannot see through. ops: operations of a step. */
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
