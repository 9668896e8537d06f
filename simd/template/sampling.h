/*
 * sum_exp and tops of kernels.h: a sampler's passes over all logits.
 *
 * Parameters, besides lanes.h:
 *
 *   ISA(name)             the name of a function of this ISA level
 *   r_add_doubles(p, a)   p[i] += (double)a[i] for LANES doubles
 */
#ifndef TFT_TEMPLATE_SAMPLING_H
#define TFT_TEMPLATE_SAMPLING_H

#include "lanes.h"

/* Adds the 64 numbers of a group to the doubles. */
FORCE_INLINE void add_exp(double lane[16], const float *x, v16 max, v16 inverse)
{
    v16 w[4];
    UNROLL for (int k = 0; k < 4; k++) {
        v16 d = v_mul(v_sub(v_load(x + k * 16), max), inverse);
        w[k] = v_exp(v_max(d, v_set(-200)));
    }
    v16 sum = v_add(v_add(w[0], w[1]), v_add(w[2], w[3]));
    UNROLL for (int p = 0; p < PARTS; p++)
        r_add_doubles(lane + p * LANES, sum.r[p]);
}

static double ISA(sum_exp)(const float *x, size_t n, float max, float inverse)
{
    enum { GROUP = 64 };
    double lane[16] = {0};
    v16 m = v_set(max), f = v_set(inverse);
    for (; n >= GROUP; n -= GROUP, x += GROUP)
        add_exp(lane, x, m, f);
    if (n) {
        float last[GROUP];
        for (size_t i = 0; i < GROUP; i++)
            last[i] = i < n ? x[i] : -INFINITY;
        add_exp(lane, last, m, f);
    }
    for (size_t half = 8; half; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static void ISA(tops)(float *top, const float *x, size_t n)
{
    enum { RUN = 64 };
    _Static_assert(TFT_TOPS % RUN == 0, "a block is whole runs");
    for (; n >= TFT_TOPS; n -= TFT_TOPS, x += TFT_TOPS) {
        v16 max[4];
        UNROLL for (int k = 0; k < 4; k++)
            max[k] = v_set(-INFINITY);
        for (size_t i = 0; i < TFT_TOPS; i += RUN)
            UNROLL for (int k = 0; k < 4; k++)
                max[k] = v_max(v_load(x + i + k * 16), max[k]);
        *top++ = v_hmax(v_max(v_max(max[0], max[1]), v_max(max[2], max[3])));
    }
    if (n) {
        float max = -INFINITY;
        for (size_t i = 0; i < n; i++)
            max = x[i] > max ? x[i] : max;
        *top = max;
    }
}

#endif
