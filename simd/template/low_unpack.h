/*
 * Unpacks a panel of codes (simd/low_panel.h) to int8 quads. Parameters: ISA(name), quad.h, and
 *
 *   b_store(p, a)              BYTES bytes
 *   l_factors(s, sz, bytes)    from the 16 bytes of a group: s, and s * z, of the row of each byte
 *                              of a quad, in the layout of l_weights; s, sz: [QUAD_REGS]
 *   l_weights(a, s, sz)        s * a - sz in every byte; a is a code, s * a is at most 225. With
 *                              LOW_TILE, sz is z, and the byte is a - z (x86/low_runs.h)
 */
#ifndef TFT_TEMPLATE_LOW_UNPACK_H
#define TFT_TEMPLATE_LOW_UNPACK_H

#include "quad.h"

/* Bytes between a prefetch and the use: two pages, as in gemm_i8.h. */
enum { LOW_AHEAD = 8192, LOW_LINE = 64, LOW_STEP = TFT_LOW_GROUP / TFT_QUAD };

/* Prefetches the bytes two pages after LOW_STEP quads at `from`. The caller prefetches the 16 bytes
   of a group before its quads. */
FORCE_INLINE void low_prefetch(const uint8_t *from, enum tft_bits bits)
{
    UNROLL for (size_t line = 0; line < tft_codes_bytes(bits, LOW_STEP); line += LOW_LINE)
        __builtin_prefetch(from + line + LOW_AHEAD);
}

/* bits is a constant after inlining. */
FORCE_INLINE void low_unpack_bits(int8_t *to, const uint8_t *from, const struct tft_low *how,
                                  size_t columns, enum tft_bits bits)
{
    const size_t size = tft_codes_bytes(bits, 1), group = how->group / TFT_QUAD;
    for (size_t quads = columns / TFT_QUAD; quads;) {
        breg s[QUAD_REGS], sz[QUAD_REGS];
        size_t n = min_size(quads, group);
        l_factors(s, sz, from);
        __builtin_prefetch(from + LOW_AHEAD);
        from += TFT_PANEL;
        for (size_t q = 0; q < n; q++, from += size, to += TFT_QUAD_CODES) {
            breg a[QUAD_REGS];
            if (q % LOW_STEP == 0)
                low_prefetch(from, bits);
            unpack_quad(a, from, bits);
            UNROLL for (int r = 0; r < QUAD_REGS; r++)
                b_store((uint8_t *)to + r * BYTES, l_weights(a[r], s[r], sz[r]));
        }
        quads -= n;
    }
}

/* Unpacks columns k .. k + columns - 1 of the panel of row n; k is a multiple of the group. Columns
   of padding become 0. */
static __attribute__((noinline)) void ISA(low_unpack)(int8_t *to, const struct tft_low_panels *w,
                                                      size_t n, size_t k, size_t columns)
{
    const uint8_t *from = w->codes + n / TFT_PANEL * tft_low_panel(&w->how, w->cols) +
                          k / w->how.group * tft_low_group_bytes(&w->how);
    switch (w->how.bits) {
    case TFT_BITS_4: low_unpack_bits(to, from, &w->how, columns, TFT_BITS_4); break;
    case TFT_BITS_3: low_unpack_bits(to, from, &w->how, columns, TFT_BITS_3); break;
    default: low_unpack_bits(to, from, &w->how, columns, TFT_BITS_2);
    }
    for (size_t i = w->cols; i < k + columns; i++)
        for (size_t r = 0; r < TFT_PANEL; r++)
            to[tft_panel_at(r, i - k, columns)] = 0;
}

#endif
