/* hadamard of kernels.h. Parameters: ISA(name) and lanes.h. */
#ifndef TFT_TEMPLATE_HADAMARD_H
#define TFT_TEMPLATE_HADAMARD_H

#include "lanes.h"

/* Stages h = 1 .. block / 2 inside 16 numbers. A lane becomes its partner plus itself, or its
   partner minus itself if the lane's index has bit h. The product with 1 or -1 is exact, so the fma
   rounds like an addition. */
FORCE_INLINE v16 hadamard_lanes(v16 a, int block)
{
    static const float sign[4][16] = {{1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
                                      {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
                                      {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
                                      {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1}};
    if (block > 1)
        a = v_fma(a, v_load(sign[0]), v_swap(a, 1));
    if (block > 2)
        a = v_fma(a, v_load(sign[1]), v_swap(a, 2));
    if (block > 4)
        a = v_fma(a, v_load(sign[2]), v_swap(a, 4));
    if (block > 8)
        a = v_fma(a, v_load(sign[3]), v_swap(a, 8));
    return a;
}

FORCE_INLINE void butterfly(v16 *a, v16 *b)
{
    v16 sum = v_add(*a, *b);
    *b = v_sub(*a, *b);
    *a = sum;
}

/* The one or two stages among n = 2 or 4 vectors, `stride` numbers apart. If `lanes`, the four
   stages inside each vector come first; n = 1 has only these. */
FORCE_INLINE void hadamard_vectors(float *x, size_t stride, int n, bool lanes)
{
    v16 a[4];
    UNROLL for (int v = 0; v < n; v++) {
        a[v] = v_load(x + v * stride);
        if (lanes)
            a[v] = hadamard_lanes(a[v], 16);
    }
    if (n > 1)
        butterfly(&a[0], &a[1]);
    if (n > 2) {
        butterfly(&a[2], &a[3]);
        butterfly(&a[0], &a[2]);
        butterfly(&a[1], &a[3]);
    }
    UNROLL for (int v = 0; v < n; v++)
        v_store(x + v * stride, a[v]);
}

FORCE_INLINE void hadamard_n_vectors(float *x, size_t stride, size_t n, bool lanes)
{
    switch (n) {
    case 4: hadamard_vectors(x, stride, 4, lanes); break;
    case 2: hadamard_vectors(x, stride, 2, lanes); break;
    default: hadamard_vectors(x, stride, 1, lanes);
    }
}

/* A run of up to 64 numbers is four vectors. A block of 256 is four runs, so at most two stages
   remain after the stages inside runs. */
static void ISA(hadamard)(float *x, size_t n, size_t block)
{
    if (block < 16) {
        for (size_t i = 0; i < n; i += 16)
            v_store_n(x + i, hadamard_lanes(v_load_n(x + i, n - i), (int)block), n - i);
        return;
    }
    for (size_t run = min_size(block, 64); n; n -= block, x += block) {
        for (size_t i = 0; i < block; i += run)
            hadamard_n_vectors(x + i, 16, run / 16, true);
        if (block > run)
            for (size_t i = 0; i < run; i += 16)
                hadamard_n_vectors(x + i, run, block / run, false);
    }
}

#endif
