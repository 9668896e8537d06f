/*
 * turn_keys of kernels.h. Parameters: codes_attention.h, load_i8.h.
 *
 * The keys of a panel are rebuilt in a->k, which stays in the L1 cache, and turned there: the two
 * channels of a pair may be anywhere in the order of the codes.
 */
#ifndef TFT_TEMPLATE_CODES_TURN_H
#define TFT_TEMPLATE_CODES_TURN_H

#include "load_i8.h"
#include "quad.h"

/* The channels of a quad, from place `place` on, of the tokens with these gains. k: a panel */
FORCE_INLINE void rebuild_quad(float *k, const struct tft_turn_keys *a, const uint8_t *from,
                               enum tft_bits bits, size_t place, v16 gain)
{
    breg code[QUAD_REGS];
    int8_t column[TFT_QUAD_CODES];
    v16 half = v_set((float)(tft_bits_levels(bits) - 1) / 2);
    unpack_quad(code, from, bits);
    memcpy(column, code, sizeof column);
    for (size_t p = place < a->pad ? a->pad : place; p < place + TFT_QUAD; p++) {
        v16 c = v_sub(v_load_i8(column + (p - place) * TFT_PANEL), half);
        v_store(k + (size_t)a->channel[p - a->pad] * TFT_PANEL,
                v_fma(c, v_mul(v_set(a->step[p]), gain), v_set(a->mean[p])));
    }
}

/* Returns the end of the bytes read. */
FORCE_INLINE const uint8_t *rebuild_width(float *k, const struct tft_turn_keys *a,
                                          const uint8_t *from, enum tft_bits bits, size_t *place,
                                          v16 gain)
{
    size_t size = tft_codes_bytes(bits, 1);
    for (size_t q = 0; q < a->quads[bits]; q++, from += size, *place += TFT_QUAD)
        rebuild_quad(k, a, from, bits, *place, gain);
    return from;
}

/* The turn of 16 tokens: channels x and y of a pair. */
FORCE_INLINE void turn_pair(float *x, float *y, const float *cos, const float *sin)
{
    v16 a = v_load(x), b = v_load(y), c = v_load(cos), s = v_load(sin);
    v_store(x, v_sub(v_mul(a, c), v_mul(b, s)));
    v_store(y, v_add(v_mul(b, c), v_mul(a, s)));
}

static void ISA(turn_keys)(const struct tft_turn_keys *a)
{
    const uint8_t *from = a->codes;
    float *k = a->k;
    for (size_t t = 0; t < TFT_WIDTHS_TOKENS; t += TFT_PANEL, k += a->dim * TFT_PANEL) {
        v16 gain = v_load(a->gain + t);
        size_t place = a->first;
        for (size_t p = a->pad; p < a->first; p++)
            v_store(k + (size_t)a->channel[p - a->pad] * TFT_PANEL, v_set(a->mean[p]));
        from = rebuild_width(k, a, from, TFT_BITS_1, &place, gain);
        from = rebuild_width(k, a, from, TFT_BITS_2, &place, gain);
        from = rebuild_width(k, a, from, TFT_BITS_3, &place, gain);
        from = rebuild_width(k, a, from, TFT_BITS_4, &place, gain);
        for (size_t i = 0; i < a->n_rot / 2; i++) {
            size_t x = a->halves ? i : 2 * i, y = a->halves ? i + a->n_rot / 2 : 2 * i + 1;
            turn_pair(k + x * TFT_PANEL, k + y * TFT_PANEL, a->cos + i * TFT_WIDTHS_TOKENS + t,
                      a->sin + i * TFT_WIDTHS_TOKENS + t);
        }
    }
}

#endif
