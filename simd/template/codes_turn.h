/* turn_keys of kernels.h. Parameters: codes_attention.h, load_i8.h. */
#ifndef TFT_TEMPLATE_CODES_TURN_H
#define TFT_TEMPLATE_CODES_TURN_H

#include "load_i8.h"
#include "quad.h"

/* Places p and p + 1 of 16 tokens, from token t on; x, y: their numbers without gain. */
FORCE_INLINE void turn_pair(const struct tft_turn_keys *a, size_t p, size_t t, v16 x, v16 y,
                            v16 gain, bool turned)
{
    size_t panel = t * a->dim, one = panel + (size_t)a->channel[p] * TFT_PANEL,
           other = panel + (size_t)a->channel[p + 1] * TFT_PANEL;
    if (turned) {
        size_t at = (size_t)a->pair[p / 2] * TFT_WIDTHS_TOKENS + t;
        v16 c = v_load(a->cos + at), s = v_load(a->sin + at),
            first = v_sub(v_mul(x, c), v_mul(y, s));
        y = v_add(v_mul(y, c), v_mul(x, s));
        x = first;
    }
    v_store(a->k + one, v_fma(gain, x, v_load(a->mean + one)));
    v_store(a->k + other, v_fma(gain, y, v_load(a->mean + other)));
}

/* The quads of one width, from place *place on. Returns the end of the bytes read. */
FORCE_INLINE const uint8_t *turn_width(const struct tft_turn_keys *a, const uint8_t *from,
                                       enum tft_bits bits, size_t *place, size_t t, v16 gain,
                                       bool turned)
{
    size_t size = tft_codes_bytes(bits, 1);
    /* a code of 8 bits is unpacked as c - 128 */
    v16 half = v_set(bits == TFT_BITS_8 ? -0.5f : (float)(tft_bits_levels(bits) - 1) / 2);
    for (size_t q = 0; q < a->quads[bits]; q++, from += size, *place += TFT_QUAD) {
        breg code[QUAD_REGS];
        int8_t column[TFT_QUAD_CODES];
        v16 x[TFT_QUAD];
        unpack_quad(code, from, bits);
        memcpy(column, code, sizeof column);
        UNROLL for (size_t i = 0; i < TFT_QUAD; i++)
            x[i] = v_mul(v_set(a->step[*place + i]),
                         v_sub(v_load_i8(column + i * TFT_PANEL), half));
        turn_pair(a, *place, t, x[0], x[1], gain, turned);
        turn_pair(a, *place + 2, t, x[2], x[3], gain, turned);
    }
    return from;
}

FORCE_INLINE void turn_all(const struct tft_turn_keys *a, bool turned)
{
    const uint8_t *from = a->codes;
    for (size_t t = 0; t < TFT_WIDTHS_TOKENS; t += TFT_PANEL) {
        v16 gain = v_load(a->gain + t);
        size_t place = a->first;
        from = turn_width(a, from, TFT_BITS_1, &place, t, gain, turned);
        from = turn_width(a, from, TFT_BITS_2, &place, t, gain, turned);
        from = turn_width(a, from, TFT_BITS_3, &place, t, gain, turned);
        from = turn_width(a, from, TFT_BITS_4, &place, t, gain, turned);
        from = turn_width(a, from, TFT_BITS_8, &place, t, gain, turned);
    }
}

static void ISA(turn_keys)(const struct tft_turn_keys *a)
{
    if (a->cos)
        turn_all(a, true);
    else
        turn_all(a, false);
}

#endif
