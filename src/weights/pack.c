/* Packs a tensor of a GGUF file: 16 blocks become a record (simd/packed.h). */
#include <string.h>

#include "base/bytes.h"
#include "weights/packed.h"

uint64_t tft_packed_bytes(const struct tft_format *f, uint32_t rows, uint32_t cols)
{
    return tft_panel_rows(rows) / TFT_PANEL * (uint64_t)tft_packed_panel(f->packing, cols);
}

/* The parts of the 16 blocks of a record, and the blocks' codes by quads. */
struct record {
    struct tft_parts row[TFT_PANEL];
    uint8_t code[TFT_PACKED_BLOCK * TFT_PANEL], plane[TFT_PACKED_BLOCK * TFT_PANEL];
};

static unsigned char *put_factors(unsigned char *to, const struct record *b,
                                  const struct tft_packing *how)
{
    if (how->scales == TFT_SCALES_F8)
        return to;
    for (size_t r = 0; r < TFT_PANEL; r++, to += how->exponent ? 1 : 2)
        if (how->exponent)
            *to = (unsigned char)b->row[r].factor;
        else
            memcpy(to, &b->row[r].factor, 2);
    for (size_t r = 0; r < TFT_PANEL && how->has_min; r++, to += 2)
        memcpy(to, &b->row[r].minimum, 2);
    return to;
}

static unsigned char *put_scales(unsigned char *to, const struct record *b,
                                 const struct tft_packing *how)
{
    size_t groups = how->block / how->group;
    if (how->scales == TFT_SCALES_NONE)
        return to;
    for (size_t g = 0; g < groups; g++)
        for (size_t r = 0; r < TFT_PANEL; r++) {
            const struct tft_parts *p = &b->row[r];
            uint8_t s = (uint8_t)p->scale[g], t = (uint8_t)p->min[g];
            switch (how->scales) {
            case TFT_SCALES_NIBBLES: to[g * TFT_PANEL + r] = (uint8_t)(s | t << 4); break;
            case TFT_SCALES_ODD:
                if (g % 2)
                    to[g / 2 * TFT_PANEL + r] |= (uint8_t)(s << 4);
                else
                    to[g / 2 * TFT_PANEL + r] = s;
                break;
            default:
                to[g * TFT_PANEL + r] = s;
                if (how->has_min)
                    to[(groups + g) * TFT_PANEL + r] = t;
            }
        }
    return to + tft_packed_scale_bytes(how);
}

/* Writes the bits of each code from bit `shift` on. */
static unsigned char *put_plane(unsigned char *to, struct record *b, enum tft_bits bits,
                                unsigned shift, size_t quads)
{
    const unsigned mask = tft_bits_levels(bits) - 1;
    for (size_t i = 0; i < quads * TFT_QUAD_CODES; i++)
        b->plane[i] = (uint8_t)(b->code[i] >> shift & mask);
    tft_codes_pack(to, b->plane, bits, quads);
    return to + tft_codes_bytes(bits, quads);
}

static unsigned char *put_indices(unsigned char *to, const struct record *b,
                                  const struct tft_packing *how)
{
    size_t n = how->block / how->book;
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < TFT_PANEL; r++)
            *to++ = (unsigned char)b->row[r].index[i];
    for (size_t i = 0; i < n && how->shift; i += 2)
        for (size_t r = 0; r < TFT_PANEL; r++)
            *to++ = (unsigned char)(b->row[r].index[i] >> 8 | b->row[r].index[i + 1] >> 8 << 4);
    for (unsigned bit = 8; bit < 8u + how->index_high; bit++)
        for (size_t i = 0; i < n; i++, to += 2) {
            unsigned all = 0;
            for (size_t r = 0; r < TFT_PANEL; r++)
                all |= (b->row[r].index[i] >> bit & 1u) << r;
            memcpy(to, &(uint16_t){(uint16_t)all}, 2);
        }
    return to;
}

static void put_record(unsigned char *to, struct record *b, const struct tft_packing *how)
{
    size_t quads = how->block / TFT_QUAD;
    to = put_factors(to, b, how);
    to = put_scales(to, b, how);

    for (size_t r = 0; r < TFT_PANEL; r++)
        for (size_t q = 0; q < quads; q++)
            memcpy(b->code + q * TFT_QUAD_CODES + r * TFT_QUAD, b->row[r].code + q * TFT_QUAD,
                   TFT_QUAD);
    if (how->book) {
        to = put_indices(to, b, how);
        if (!how->shift)
            put_plane(to, b, TFT_BITS_1, 0, quads);
    } else if (how->low == TFT_BITS_3_LEVELS) {
        tft_codes_pack(to, b->code, how->low, quads);
    } else {
        to = put_plane(to, b, how->low, 0, quads);
        if (how->high != TFT_BITS_COUNT)
            put_plane(to, b, how->high, how->low == TFT_BITS_2 ? 2 : 4, quads);
    }
}

/* half: the bits of an f16. */
static bool half_is_finite(uint16_t half)
{
    return (half & 0x7c00) != 0x7c00;
}

bool tft_pack_panel(void *to, const struct tft_format *f, const unsigned char *rows, uint32_t n,
                    uint32_t cols, uint64_t *bad)
{
    const struct tft_packing *how = f->packing;
    const struct tft_dtype_info *type = tft_dtype_info(f->type);
    size_t blocks = cols / how->block, record = tft_packed_record(how);
    struct record b;
    memset(&b, 0, sizeof b);
    for (size_t i = 0; i < blocks; i++) {
        for (size_t r = 0; r < n; r++) {
            uint64_t at = (r * (uint64_t)blocks + i) * type->bytes;
            f->split(&b.row[r], rows + at);
            bool finite = half_is_finite(b.row[r].factor) && half_is_finite(b.row[r].minimum);
            if (!how->exponent && !finite) {
                *bad = at;
                return false;
            }
        }
        put_record((unsigned char *)to + i * record, &b, how);
    }
    return true;
}
