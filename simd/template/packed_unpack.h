/*
 * Unpacks a panel of packed weights (simd/packed.h) to a byte for each number and floats for each
 * group. Parameters: ISA(name), quad.h, and
 *
 *   b_store(p, a)          BYTES bytes
 *   r_load_i8 or v_load_i8 of load_i8.h
 */
#ifndef TFT_TEMPLATE_PACKED_UNPACK_H
#define TFT_TEMPLATE_PACKED_UNPACK_H

#include "load_i8.h"
#include "quad.h"

/* ---- numbers; widths and pointers that may be NULL are constants after inlining */

FORCE_INLINE void packed_store(uint8_t *to, const breg *a)
{
    UNROLL for (int r = 0; r < QUAD_REGS; r++)
        b_store(to + r * BYTES, a[r]);
}

FORCE_INLINE int packed_width(enum tft_bits bits)
{
    return bits == TFT_BITS_1 ? 1 : bits == TFT_BITS_2 ? 2 : 4;
}

/* The values of the bits above `low`, for b_lookup. */
FORCE_INLINE void packed_above(uint8_t above[16], enum tft_bits low)
{
    memset(above, 0, 16);
    for (unsigned c = 0; c < 4; c++)
        above[c] = (uint8_t)(c << packed_width(low));
}

/* The numbers of one quad, with bits at `from` and, if high is not TFT_BITS_COUNT, at `rest`.
   levels: [16], or NULL. */
FORCE_INLINE void packed_quad(breg *a, const uint8_t *from, const uint8_t *rest, enum tft_bits low,
                              enum tft_bits high, const uint8_t *above, const uint8_t *levels)
{
    unpack_bits(a, from, low == TFT_BITS_8 ? 8 : packed_width(low));
    if (high != TFT_BITS_COUNT)
        unpack_above(a, rest, packed_width(high), packed_width(low), above);
    if (levels)
        UNROLL for (int r = 0; r < QUAD_REGS; r++)
            a[r] = b_lookup(levels, a[r]);
}

/* to: [quads, 64] */
FORCE_INLINE void packed_bits(uint8_t *to, const uint8_t *from, size_t quads, enum tft_bits low,
                              enum tft_bits high, const uint8_t *levels)
{
    uint8_t above[16];
    size_t low_bytes = tft_codes_bytes(low, 1),
           high_bytes = high == TFT_BITS_COUNT ? 0 : tft_codes_bytes(high, 1);
    const uint8_t *rest = from + quads * low_bytes;
    packed_above(above, low);
    for (size_t q = 0; q < quads; q++, from += low_bytes, rest += high_bytes, to += 64) {
        breg a[QUAD_REGS];
        packed_quad(a, from, rest, low, high, above, levels);
        packed_store(to, a);
    }
}

FORCE_INLINE void packed_trits(uint8_t *to, const uint8_t *from, size_t quads)
{
    for (; quads >= TFT_TRIT_QUADS; quads -= TFT_TRIT_QUADS, from += 64) {
        breg v[QUAD_REGS], digit[QUAD_REGS];
        unpack_bits(v, from, 8);
        UNROLL for (int i = 0; i < TFT_TRIT_QUADS; i++, to += 64) {
            quad_digit(digit, v);
            packed_store(to, digit);
        }
    }
    packed_bits(to, from, quads, TFT_BITS_2, TFT_BITS_COUNT, NULL);
}

/* The 8 + index_high bits of index i of each row. */
FORCE_INLINE void packed_indices(uint16_t *index, const uint8_t *from, size_t i, size_t n,
                                 unsigned index_high)
{
    for (size_t r = 0; r < TFT_PANEL; r++)
        index[r] = from[i * TFT_PANEL + r];
    for (unsigned b = 0; b < index_high; b++) {
        uint16_t bit;
        memcpy(&bit, from + n * TFT_PANEL + 2 * (b * n + i), sizeof bit);
        for (size_t r = 0; r < TFT_PANEL; r++)
            index[r] = (uint16_t)(index[r] | (bit >> r & 1) << (8 + b));
    }
}

/* zero - a for a 1-bit code of 1, zero + a for a code of 0. */
FORCE_INLINE void packed_signs(uint8_t *numbers, const uint8_t *signs, size_t quads, uint8_t zero)
{
    static const uint8_t all[16] = {0, 255};
    for (size_t q = 0; q < quads; q++, numbers += 64, signs += 8) {
        breg s[QUAD_REGS], a[QUAD_REGS];
        unpack_bits(s, signs, 1);
        UNROLL for (int r = 0; r < QUAD_REGS; r++) {
            a[r] = b_repeat(numbers, r, 64);
            a[r] = b_subs(b_add(a[r], b_set(zero)), b_and(b_add(a[r], a[r]), b_lookup(all, s[r])));
        }
        packed_store(numbers, a);
    }
}

/* Entries of two adjacent rows: few stores, since each takes a cycle. */
FORCE_INLINE void packed_two_fours(uint8_t *quad, uint32_t a, uint32_t b)
{
    memcpy(quad, &(uint64_t){a | (uint64_t)b << 32}, 8);
}

FORCE_INLINE void packed_two_eights(uint8_t *quad, uint64_t a, uint64_t b)
{
    packed_two_fours(quad, (uint32_t)a, (uint32_t)b);
    packed_two_fours(quad + TFT_QUAD_CODES, (uint32_t)(a >> 32), (uint32_t)(b >> 32));
}

/* Numbers from a book of four or eight columns. */
FORCE_INLINE void packed_book(uint8_t *to, const uint8_t *from, const struct tft_packing *p,
                              size_t book)
{
    size_t n = p->block / book, quads = p->block / TFT_QUAD;
    for (size_t i = 0; i < n; i++) {
        uint16_t index[TFT_PANEL];
        uint8_t *quad = to + i * book * TFT_PANEL;
        packed_indices(index, from, i, n, p->index_high);
        for (size_t r = 0; r < TFT_PANEL; r += 2, quad += 2 * TFT_QUAD)
            if (book == 4)
                packed_two_fours(quad, p->book4[index[r]], p->book4[index[r + 1]]);
            else
                packed_two_eights(quad, p->book8[index[r]], p->book8[index[r + 1]]);
    }
    packed_signs(to, from + n * (TFT_PANEL + 2 * (size_t)p->index_high), quads, p->zero);
}

/* Eight numbers, whose sums fit a byte. */
FORCE_INLINE uint64_t packed_eight(const struct tft_packing *p, uint32_t index, uint64_t shift)
{
    return p->book8[index % TFT_SHIFT_BOOK] + (index & TFT_SHIFT_BOOK ? shift : 0);
}

/* Numbers from a book of eight columns with a shift. */
FORCE_INLINE void packed_shifted(uint8_t *to, const uint8_t *from, const struct tft_packing *p)
{
    const uint64_t shift = p->shift * UINT64_C(0x0101010101010101);
    const size_t n = p->block / 8;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *low = from + i * TFT_PANEL, *high = from + (n + i / 2) * TFT_PANEL;
        uint8_t *quad = to + i * 8 * TFT_PANEL;
        uint16_t index[TFT_PANEL];
        for (size_t r = 0; r < TFT_PANEL; r++)
            index[r] = (uint16_t)(low[r] | (i % 2 ? high[r] >> 4 : high[r] & 15) << 8);
        for (size_t r = 0; r < TFT_PANEL; r += 2, quad += 2 * TFT_QUAD)
            packed_two_eights(quad, packed_eight(p, index[r], shift),
                              packed_eight(p, index[r + 1], shift));
    }
}

/* The numbers of one record with codes at `from`. The book is little-endian, like memory on all ISA
   levels except the reference. */
FORCE_INLINE void packed_numbers(uint8_t *to, const uint8_t *from, const struct tft_packing *p)
{
    size_t quads = p->block / TFT_QUAD;
    if (p->shift)
        packed_shifted(to, from, p);
    else if (p->book == 4)
        packed_book(to, from, p, 4);
    else if (p->book)
        packed_book(to, from, p, 8);
    else if (p->low == TFT_BITS_8)
        packed_bits(to, from, quads, TFT_BITS_8, TFT_BITS_COUNT, NULL);
    else if (p->low == TFT_BITS_3_LEVELS)
        packed_trits(to, from, quads);
    else if (p->low == TFT_BITS_4 && p->levels)
        packed_bits(to, from, quads, TFT_BITS_4, TFT_BITS_COUNT, p->levels);
    else if (p->low == TFT_BITS_4 && p->high == TFT_BITS_1)
        packed_bits(to, from, quads, TFT_BITS_4, TFT_BITS_1, NULL);
    else if (p->low == TFT_BITS_4 && p->high == TFT_BITS_2)
        packed_bits(to, from, quads, TFT_BITS_4, TFT_BITS_2, NULL);
    else if (p->low == TFT_BITS_4)
        packed_bits(to, from, quads, TFT_BITS_4, TFT_BITS_COUNT, NULL);
    else if (p->low == TFT_BITS_1)
        packed_bits(to, from, quads, TFT_BITS_1, TFT_BITS_COUNT, p->levels);
    else if (p->high == TFT_BITS_1)
        packed_bits(to, from, quads, TFT_BITS_2, TFT_BITS_1, NULL);
    else
        packed_bits(to, from, quads, TFT_BITS_2, TFT_BITS_COUNT, NULL);
}

/* ---- scales and minima */

/* factor * unit of each row. */
FORCE_INLINE v16 packed_factor(const uint8_t *record, const struct tft_packing *p)
{
    float f[TFT_PANEL];
    if (p->scales == TFT_SCALES_F8)
        return v_set(p->unit);
    if (!p->exponent)
        return v_mul(v_load_num(record, 0, TFT_NUM_F16), v_set(p->unit));
    for (size_t r = 0; r < TFT_PANEL; r++) /* below 2^-126 subnormal */
        f[r] = tft_f32_of_bits(record[r] < 2 ? 0x00200000u << record[r]
                                             : (uint32_t)(record[r] - 1) << 23);
    return v_mul(v_load(f), v_set(p->unit));
}

/* Two groups of 16 nibbles: the low halves of the bytes are `even`, the high halves `odd`. */
FORCE_INLINE void packed_nibbles(int8_t *low, int8_t *high, const uint8_t *from)
{
    for (size_t r = 0; r < TFT_PANEL; r++) {
        low[r] = from[r] & 15;
        high[r] = (int8_t)(from[r] >> 4);
    }
}

/* The minimum of each row of a record; the packing has minima. */
FORCE_INLINE v16 packed_minimum(const uint8_t *record, const struct tft_packing *p)
{
    return p->has_min ? v_load_num(record + TFT_PANEL * (p->exponent ? 1 : 2), 0, TFT_NUM_F16)
                      : v_set(0);
}

/* Scale and minimum of group g; `from`: the scales of its record. */
FORCE_INLINE void packed_scale(v16 *scale, v16 *min, const uint8_t *from, size_t g, v16 factor,
                               v16 minimum, const struct tft_packing *p)
{
    int8_t low[TFT_PANEL], high[TFT_PANEL];
    const int8_t *at = (const int8_t *)from + g * TFT_PANEL;
    switch (p->scales) {
    case TFT_SCALES_BYTES:
        *scale = v_mul(factor, v_load_i8(at));
        if (p->has_min)
            *min = v_mul(minimum, v_load_i8(at + p->block / p->group * TFT_PANEL));
        break;
    case TFT_SCALES_NIBBLES:
        packed_nibbles(low, high, (const uint8_t *)at);
        *scale = v_mul(factor, v_load_i8(low));
        *min = v_mul(minimum, v_load_i8(high));
        break;
    case TFT_SCALES_ODD: /* 2 n + 1 is exact */
        packed_nibbles(low, high, from + g / 2 * TFT_PANEL);
        *scale = v_mul(factor, v_fma(v_set(2), v_load_i8(g % 2 ? high : low), v_set(1)));
        break;
    case TFT_SCALES_F8: *scale = v_mul(factor, v_load_f8((const uint8_t *)at)); break;
    default:
        *scale = factor;
        *min = v_sub(v_set(-0.0f), minimum);
    }
}

/* scale, min: [block / group, 16] of one record. */
FORCE_INLINE void packed_scales(float *scale, float *min, const uint8_t *record,
                                const struct tft_packing *p)
{
    const uint8_t *from = record + tft_packed_factor_bytes(p);
    v16 factor = packed_factor(record, p), minimum = packed_minimum(record, p), s, t = v_set(0);
    for (size_t g = 0; g < p->block / p->group; g++) {
        packed_scale(&s, &t, from, g, factor, minimum, p);
        v_store(scale + g * TFT_PANEL, s);
        if (p->has_min)
            v_store(min + g * TFT_PANEL, t);
    }
}

/* Blocks of 32 codes with a factor and perhaps a minimum. `low` and `min` are constants after
   inlining: to find them out for each block would take most of the time. */
FORCE_INLINE void packed_blocks(const struct tft_unpack *u, enum tft_bits low, bool min)
{
    const struct tft_packing p = {
        .block = 32,
        .group = 32,
        .has_min = min,
        .unit = u->how->unit,
        .low = low,
        .high = TFT_BITS_COUNT,
    };
    const size_t codes = tft_packed_factor_bytes(&p), size = tft_packed_record(&p);
    const uint8_t *record = u->w;
    float *scale = u->scale, *least = u->min;
    for (size_t k = 0; k < u->K; k += 32, record += size, scale += TFT_PANEL, least += TFT_PANEL) {
        packed_scales(scale, least, record, &p);
        packed_bits(u->number + k * TFT_PANEL, record + codes, 32 / TFT_QUAD, low, TFT_BITS_COUNT,
                    NULL);
    }
}

static void ISA(unpack_records)(const struct tft_unpack *u)
{
    const struct tft_packing *p = u->how;
    size_t codes = tft_packed_factor_bytes(p) + tft_packed_scale_bytes(p),
           size = codes + tft_packed_code_bytes(p);
    const uint8_t *record = u->w;
    for (size_t k = 0; k < u->K; k += p->block, record += size) {
        size_t g = k / p->group * TFT_PANEL;
        packed_scales(u->scale + g, u->min + g, record, p);
        packed_numbers(u->number + k * TFT_PANEL, record + codes, p);
    }
}

static void ISA(unpack)(const struct tft_unpack *u)
{
    const struct tft_packing *p = u->how;
    bool plain = p->block == 32 && p->scales == TFT_SCALES_NONE && !p->exponent && !p->levels &&
                 p->high == TFT_BITS_COUNT;
    if (plain && p->low == TFT_BITS_8 && !p->has_min)
        packed_blocks(u, TFT_BITS_8, false);
    else if (plain && p->low == TFT_BITS_4 && p->has_min)
        packed_blocks(u, TFT_BITS_4, true);
    else if (plain && p->low == TFT_BITS_4)
        packed_blocks(u, TFT_BITS_4, false);
    else
        ISA(unpack_records)(u);
}

#endif
