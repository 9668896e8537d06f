/* peak_fma and read of kernels.h. Parameters: ISA(name) and lanes.h. */
#ifndef TFT_TEMPLATE_LIMITS_H
#define TFT_TEMPLATE_LIMITS_H

#include "lanes.h"

/* The sum is the accumulator: NEON's fma overwrites that operand, and another would need moves. */
TFT_PEAK(ISA(peak_fma), reg, r_set(1), r_fma(a, a, acc[i]), 2 * LANES)

static float ISA(read)(const float *x, size_t n)
{
    v16 max[4];
    UNROLL for (int i = 0; i < 4; i++)
        max[i] = v_set(0);
    for (size_t k = 0; k < n; k += 64)
        UNROLL for (int i = 0; i < 4; i++)
            max[i] = v_max(max[i], v_load(x + k + i * 16));
    return v_hmax(v_max(v_max(max[0], max[1]), v_max(max[2], max[3])));
}

#endif
