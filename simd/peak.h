/* Defines the tft_peak_fn of a rung: a loop of one instruction over registers. */
#ifndef TFT_PEAK_H
#define TFT_PEAK_H

#include <stddef.h>

#include "hints.h"

/* Defines tft_peak_fn `name`. It updates 12 accumulators of `type`: enough to hide a latency of 6
   cycles on two units, and few enough for 16 registers. `step` is the next value of acc[i]; it may
   use `a`, which equals `init` in a way that the compiler cannot see. One step is `ops` operations.
 */
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
