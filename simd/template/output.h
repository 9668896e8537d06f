/*
 * The output of a kernel on rows: floats, or bytes by a struct tft_affine. So a norm and its _u8
 * twin are one function. Parameters: lanes.h.
 */
#ifndef TFT_TEMPLATE_OUTPUT_H
#define TFT_TEMPLATE_OUTPUT_H

#include "lanes.h"

/* `bytes` is a constant once the kernel is inlined. */
typedef struct {
    void *y;
    bool bytes;
    v16 inverse, low, high;
    int32_t zero;
} output;

FORCE_INLINE output output_floats(float *y)
{
    return (output){.y = y};
}

FORCE_INLINE output output_bytes(uint8_t *y, const struct tft_affine *q)
{
    return (output){
        y, true, v_set(q->inverse), v_set((float)-q->zero), v_set((float)(255 - q->zero)), q->zero};
}

FORCE_INLINE void output_quantized(const output *o, size_t i, v16 a, size_t n)
{
    v16 t = v_min(v_max(v_mul(a, o->inverse), o->low), o->high); /* NaN becomes low */
    uint8_t part[16], *y = n >= 16 ? (uint8_t *)o->y + i : part;
    UNROLL for (int p = 0; p < PARTS; p++)
        r_store_bytes(y + p * LANES, t.r[p], o->zero);
    if (n < 16)
        memcpy((uint8_t *)o->y + i, part, n);
}

/* Stores results i .. i + 15 of a row with n remaining results, or the last n. */
FORCE_INLINE void output_store(const output *o, size_t i, v16 a, size_t n)
{
    if (o->bytes)
        output_quantized(o, i, a, n);
    else
        v_store_n((float *)o->y + i, a, n);
}

#endif
