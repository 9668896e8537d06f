/*
 * Packed weights: the memory layout of codes of 1 to 8 bits, for the types of GGUF files. The
 * packing is lossless: codes, scales, minima and factors are the file's, in about as many bytes.
 *
 * W is [N, K]. As in panel.h, 16 rows make a panel. `block` columns of a panel are a record: 16
 * blocks of the file, interleaved. K is a multiple of `block`; N is padded to 16 with zeros.
 *
 *   [N / 16 panels][K / block records]
 *
 * A record has these parts, without gaps; row r of the panel has element r of each [16]:
 *
 *   factor    [16]     f16, or a byte e, which means 2^(e - 128) (OCP's E8M0, halved as in ggml);
 *                      with scales F8 nothing, which means 1
 *   minimum   [16]     f16, if has_min
 *   scales             by `scales`; a group is `group` consecutive columns, G = block / group
 *     NONE               nothing: s = 1, t = -1
 *     BYTES              s: [G][16] int8, then t: [G][16] int8 if has_min
 *     NIBBLES            [G][16] bytes: s in the low half, t in the high half
 *     ODD                [G / 2][16] bytes: n of an even group in the low half, of the next odd
 *                        group in the high half; s = 2 n + 1
 *     F8                 s: [G][16] bytes, E4M3
 *   codes              without a book: a quad (4 columns, 64 codes) is packed as in codes.h, all
 *                      quads of the bits `low` first, then all quads of the bits `high` above
 *                      with a book:
 *                        [block / book][16] bytes: low 8 bits of an index
 *                        index_high times [block / book] u16: a further bit of all 16 indices
 *                        quads of 1 bit: 1 makes the number negative
 *                      with a book and a `shift`:
 *                        [block / book][16] bytes: low 8 bits of an index
 *                        [block / book / 2][16] bytes: 4 further bits, of an even index in the low
 *                        half, of the next odd index in the high half
 *
 * A code c means
 *
 *   factor * unit * s * (number(c) - zero) - minimum * t
 *
 * number(c) is c itself, or levels[c], or zero +- a byte of the book: an index selects the numbers
 * of `book` consecutive columns (ggml's "grids"; the idea of Tseng et al. 2024, QuIP#, section
 * 4.2). With a `shift`, number(c) is a byte of the book, plus `shift` if the highest bit of the
 * index is 1; the other 11 bits select.
 */
#ifndef TFT_PACKED_H
#define TFT_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codes.h"
#include "panel.h"

enum tft_packed_scales {
    TFT_SCALES_NONE,
    TFT_SCALES_BYTES,
    TFT_SCALES_NIBBLES,
    TFT_SCALES_ODD,
    TFT_SCALES_F8
};

/* The most columns of a record, and the fewest of a group. */
enum { TFT_PACKED_BLOCK = 256, TFT_PACKED_GROUP = 16 };

/* The entries of a book with a shift. */
enum { TFT_SHIFT_BOOK = 2048 };

struct tft_packing {
    uint16_t block; /* 32, 64, 128 or 256 */
    uint8_t group;  /* 16 or 32 */
    uint8_t zero;   /* 0, as with has_min, or a power of two */
    uint8_t bits;   /* numbers are below 2^bits: 4, 5, 6 or 8 */
    bool exponent;  /* factors are bytes */
    bool has_min;
    enum tft_packed_scales scales;
    float unit; /* a power of two */

    enum tft_bits low, high;  /* high: 1 or 2 bits, or TFT_BITS_COUNT: no high bits */
    const uint8_t *levels;    /* [16] or NULL */
    uint8_t book, index_high; /* columns of an index: 4, 8, or 0 without a book; 0 to 2 bits */
    uint8_t shift;            /* with a book of 8 columns; 0: the numbers have signs */
    const uint32_t *book4;    /* [2^(8 + index_high)] the byte of the first column is lowest */
    const uint64_t *book8;    /* likewise; [TFT_SHIFT_BOOK] with a shift */
};

TFT_INLINE size_t tft_packed_factor_bytes(const struct tft_packing *p)
{
    if (p->scales == TFT_SCALES_F8)
        return 0;
    return TFT_PANEL * ((p->exponent ? 1 : 2) + (p->has_min ? 2 : 0));
}

TFT_INLINE size_t tft_packed_scale_bytes(const struct tft_packing *p)
{
    size_t groups = p->block / p->group;
    switch (p->scales) {
    case TFT_SCALES_BYTES: return groups * TFT_PANEL * (p->has_min ? 2 : 1);
    case TFT_SCALES_NIBBLES:
    case TFT_SCALES_F8: return groups * TFT_PANEL;
    case TFT_SCALES_ODD: return groups / 2 * TFT_PANEL;
    default: return 0;
    }
}

TFT_INLINE size_t tft_packed_code_bytes(const struct tft_packing *p)
{
    size_t quads = p->block / TFT_QUAD;
    if (p->shift)
        return p->block / p->book * (TFT_PANEL + TFT_PANEL / 2);
    if (p->book)
        return p->block / p->book * (TFT_PANEL + 2 * (size_t)p->index_high) +
               tft_codes_bytes(TFT_BITS_1, quads);
    return tft_codes_bytes(p->low, quads) +
           (p->high == TFT_BITS_COUNT ? 0 : tft_codes_bytes(p->high, quads));
}

/* The size of a record. */
TFT_INLINE size_t tft_packed_record(const struct tft_packing *p)
{
    return tft_packed_factor_bytes(p) + tft_packed_scale_bytes(p) + tft_packed_code_bytes(p);
}

/* The size of a panel of K columns. */
TFT_INLINE size_t tft_packed_panel(const struct tft_packing *p, size_t K)
{
    return K / p->block * tft_packed_record(p);
}

/*
 * Activations for products with packed weights: a row of K floats, K a multiple of 32, as
 *
 *   q:        [K] int8
 *   step:     [K / 32] f32: the float is q[k] * step[k / 32]
 *   minus32:  [K / 32] int32: the sum of 32 q, negated
 *   minus16:  [K / 16] int32: the sum of 16 q, negated
 *   fall32:   [K / 32] f32: minus32 * step
 *   fall16:   [K / 16] f32: minus16 * step
 */
enum { TFT_STEP_GROUP = 32 };

TFT_INLINE size_t tft_groups_bytes(size_t K)
{
    return K + K / TFT_STEP_GROUP * 28;
}

TFT_INLINE const float *tft_groups_step(const uint8_t *row, size_t K)
{
    return (const float *)(const void *)(row + K);
}

/* minus16 or minus32 of a row, by `group`. */
TFT_INLINE const int32_t *tft_groups_minus(const uint8_t *row, size_t K, size_t group)
{
    return (const int32_t *)(const void *)(row + K + K / TFT_STEP_GROUP * (group == 16 ? 8 : 4));
}

/* fall16 or fall32 of a row, by `group`. */
TFT_INLINE const float *tft_groups_fall(const uint8_t *row, size_t K, size_t group)
{
    return (const float *)(const void *)(row + K + K / TFT_STEP_GROUP * (group == 16 ? 20 : 16));
}

#endif
