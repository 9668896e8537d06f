#include "crc32.h"

#include "bytes.h"

/*
 * Byte by byte, a CRC is the remainder of a division of polynomials over GF(2), lowest bit first:
 *
 *      for each byte:
 *          crc ^= byte;
 *          eight times:  crc = crc >> 1 ^ (crc & 1 ? POLY : 0);         POLY = 0xedb88320
 *
 * Each step is linear. So the effect of the eight steps on a byte is the sum (xor) of the effects
 * on its bits, and a table of 256 entries replaces the eight steps. Slicing (Kounavis & Berry 2005)
 * takes 8 bytes at once, with 8 tables: table[t], for a byte with t bytes after it, is the effect
 * of 8 (t + 1) steps on a byte. Bit b of a byte is shifted out after b steps and becomes POLY, with
 * 8 (t + 1) - b - 1 steps left. So the tables follow from the first 64 steps on POLY: eight numbers
 * for each table, in the order of bits 7..0.
 */
#define BIT(n, b, x) ((n) >> (b) & 1 ? (x) : 0u)
#define ENTRY(n, a, b, c, d, e, f, g, h)                                                           \
    (BIT(n, 7, a) ^ BIT(n, 6, b) ^ BIT(n, 5, c) ^ BIT(n, 4, d) ^ BIT(n, 3, e) ^ BIT(n, 2, f) ^     \
     BIT(n, 1, g) ^ BIT(n, 0, h))
#define ENTRIES4(n, ...)                                                                           \
    ENTRY(n, __VA_ARGS__), ENTRY(n + 1, __VA_ARGS__), ENTRY(n + 2, __VA_ARGS__),                   \
        ENTRY(n + 3, __VA_ARGS__)
#define ENTRIES16(n, ...)                                                                          \
    ENTRIES4(n, __VA_ARGS__), ENTRIES4(n + 4, __VA_ARGS__), ENTRIES4(n + 8, __VA_ARGS__),          \
        ENTRIES4(n + 12, __VA_ARGS__)
#define ENTRIES64(n, ...)                                                                          \
    ENTRIES16(n, __VA_ARGS__), ENTRIES16(n + 16, __VA_ARGS__), ENTRIES16(n + 32, __VA_ARGS__),     \
        ENTRIES16(n + 48, __VA_ARGS__)
#define TABLE(...)                                                                                 \
    {                                                                                              \
        ENTRIES64(0, __VA_ARGS__), ENTRIES64(64, __VA_ARGS__), ENTRIES64(128, __VA_ARGS__),        \
            ENTRIES64(192, __VA_ARGS__)                                                            \
    }

static const uint32_t table[8][256] = {
    TABLE(0xedb88320, 0x76dc4190, 0x3b6e20c8, 0x1db71064, 0x0edb8832, 0x076dc419, 0xee0e612c,
          0x77073096),
    TABLE(0x3b83984b, 0xf0794f05, 0x958424a2, 0x4ac21251, 0xc8d98a08, 0x646cc504, 0x32366282,
          0x191b3141),
    TABLE(0xe1351b80, 0x709a8dc0, 0x384d46e0, 0x1c26a370, 0x0e1351b8, 0x0709a8dc, 0x0384d46e,
          0x01c26a37),
    TABLE(0xed59b63b, 0x9b14583d, 0xa032af3e, 0x5019579f, 0xc5b428ef, 0x8f629757, 0xaa09c88b,
          0xb8bc6765),
    TABLE(0xb1e6b092, 0x58f35849, 0xc1c12f04, 0x60e09782, 0x30704bc1, 0xf580a6c0, 0x7ac05360,
          0x3d6029b0),
    TABLE(0x1eb014d8, 0x0f580a6c, 0x07ac0536, 0x03d6029b, 0xec53826d, 0x9b914216, 0x4dc8a10b,
          0xcb5cd3a5),
    TABLE(0x8816eaf2, 0x440b7579, 0xcfbd399c, 0x67de9cce, 0x33ef4e67, 0xf44f2413, 0x979f1129,
          0xa6770bb4),
    TABLE(0x533b85da, 0x299dc2ed, 0xf9766256, 0x7cbb312b, 0xd3e51bb5, 0x844a0efa, 0x4225077d,
          0xccaa009e),
};

uint32_t tft_crc32(uint32_t crc, const void *data, size_t n)
{
    const unsigned char *p = data;
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t a = crc ^ tft_load_u32(p), b = tft_load_u32(p + 4);
        crc = table[7][a & 255] ^ table[6][a >> 8 & 255] ^ table[5][a >> 16 & 255] ^
              table[4][a >> 24] ^ table[3][b & 255] ^ table[2][b >> 8 & 255] ^
              table[1][b >> 16 & 255] ^ table[0][b >> 24];
    }
    for (; n; n--)
        crc = table[0][(crc ^ *p++) & 255] ^ crc >> 8;
    return ~crc;
}
