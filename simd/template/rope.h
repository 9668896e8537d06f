/* rope_pairs and rope_halves of kernels.h. Parameters: ISA(name) and lanes.h. */
#ifndef TFT_TEMPLATE_ROPE_H
#define TFT_TEMPLATE_ROPE_H

#include "lanes.h"

/* 16 elements, or the last n: a * c + partner * s */
FORCE_INLINE v16 rotate(v16 a, v16 partner, const float *c, const float *s, size_t n)
{
    return v_fma(a, v_load_n(c, n), v_mul(partner, v_load_n(s, n)));
}

static void ISA(rope_pairs)(float *x, const float *c, const float *s, size_t n_head,
                            size_t head_dim, size_t n_rot)
{
    for (size_t h = 0; h < n_head; h++, x += head_dim)
        for (size_t i = 0; i < n_rot; i += 16) {
            size_t n = n_rot - i;
            v16 a = v_load_n(x + i, n);
            v_store_n(x + i, rotate(a, v_swap(a, 1), c + i, s + i, n), n);
        }
}

static void ISA(rope_halves)(float *x, const float *c, const float *s, size_t n_head,
                             size_t head_dim, size_t n_rot)
{
    size_t half = n_rot / 2;
    for (size_t h = 0; h < n_head; h++, x += head_dim)
        for (size_t i = 0; i < half; i += 16) {
            size_t n = half - i, j = half + i;
            v16 a = v_load_n(x + i, n), b = v_load_n(x + j, n);
            v_store_n(x + i, rotate(a, b, c + i, s + i, n), n);
            v_store_n(x + j, rotate(b, a, c + j, s + j, n), n);
        }
}

#endif
