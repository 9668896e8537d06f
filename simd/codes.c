#include "codes.h"

#include <string.h>

/* Packs bit number `bit` of each code. */
static void pack_1(uint8_t to[8], const uint8_t c[64], unsigned bit)
{
    uint64_t bytes = 0; /* eight codes at a time, a byte each */
    for (int l = 0; l < 8; l++) {
        uint64_t eight;
        memcpy(&eight, c + 8 * l, 8);
        bytes |= (eight >> bit & 0x0101010101010101) << l;
    }
    memcpy(to, &bytes, 8);
}

static void pack_2(uint8_t to[16], const uint8_t c[64])
{
    for (int b = 0; b < 16; b++)
        to[b] = (uint8_t)((c[b] & 3u) | (c[16 + b] & 3u) << 2 | (c[32 + b] & 3u) << 4 |
                          (c[48 + b] & 3u) << 6);
}

static void pack_4(uint8_t to[32], const uint8_t c[64])
{
    for (int b = 0; b < 32; b++)
        to[b] = (uint8_t)(c[b] | c[32 + b] << 4);
}

/* c: [5, 64]. The digits are a number v of base 3; the byte is v / 243 rounded up to 1 / 256. */
static void pack_five(uint8_t to[64], const uint8_t *c)
{
    for (int b = 0; b < 64; b++) {
        unsigned v = 0;
        for (int i = 0; i < TFT_TRIT_QUADS; i++)
            v = v * 3 + c[64 * i + b];
        to[b] = (uint8_t)((v * 256 + 242) / 243);
    }
}

void tft_codes_pack(uint8_t *to, const uint8_t *codes, enum tft_bits b, size_t quads)
{
    for (; b == TFT_BITS_3_LEVELS && quads >= TFT_TRIT_QUADS;
         quads -= TFT_TRIT_QUADS, to += 64, codes += 64 * TFT_TRIT_QUADS)
        pack_five(to, codes);
    for (size_t size = tft_codes_bytes(b, 1); quads; quads--, to += size, codes += 64)
        switch (b) {
        case TFT_BITS_1: pack_1(to, codes, 0); break;
        case TFT_BITS_4: pack_4(to, codes); break;
        case TFT_BITS_8: memcpy(to, codes, 64); break;
        case TFT_BITS_3: pack_1(to + 16, codes, 2); /* fall through */
        default: pack_2(to, codes);
        }
}

/* Sets bit number `bit` of each code; the bit must be 0. */
static void unpack_1(uint8_t c[64], const uint8_t from[8], unsigned bit)
{
    for (int l = 0; l < 8; l++)
        for (int b = 0; b < 8; b++)
            c[8 * l + b] = (uint8_t)(c[8 * l + b] | (from[b] >> l & 1) << bit);
}

static void unpack_2(uint8_t c[64], const uint8_t from[16])
{
    for (int l = 0; l < 4; l++)
        for (int b = 0; b < 16; b++)
            c[16 * l + b] = from[b] >> 2 * l & 3;
}

static void unpack_4(uint8_t c[64], const uint8_t from[32])
{
    for (int l = 0; l < 2; l++)
        for (int b = 0; b < 32; b++)
            c[32 * l + b] = from[b] >> 4 * l & 15;
}

static void unpack_five(uint8_t *c, const uint8_t from[64])
{
    for (int b = 0; b < 64; b++)
        for (unsigned i = 0, v = from[b]; i < TFT_TRIT_QUADS; i++) {
            c[64 * i + b] = (uint8_t)(v * 3 >> 8);
            v = v * 3 & 255;
        }
}

void tft_codes_unpack(uint8_t *codes, const uint8_t *from, enum tft_bits b, size_t quads)
{
    for (; b == TFT_BITS_3_LEVELS && quads >= TFT_TRIT_QUADS;
         quads -= TFT_TRIT_QUADS, from += 64, codes += 64 * TFT_TRIT_QUADS)
        unpack_five(codes, from);
    for (size_t size = tft_codes_bytes(b, 1); quads; quads--, from += size, codes += 64)
        switch (b) {
        case TFT_BITS_1: memset(codes, 0, 64), unpack_1(codes, from, 0); break;
        case TFT_BITS_4: unpack_4(codes, from); break;
        case TFT_BITS_8: memcpy(codes, from, 64); break;
        case TFT_BITS_3: unpack_2(codes, from), unpack_1(codes, from + 16, 2); break;
        default: unpack_2(codes, from);
        }
}
