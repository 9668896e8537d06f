/*
 * Block layouts (ggml-common.h), all little-endian. d and m are binary16. An array of nibbles for
 * 2n numbers has the first n in the low halves of its bytes and the last n in the high halves. On
 * the right: the number of the code q.
 *
 *      Blocks of 32 numbers:
 *      Q4_0     d, 16 bytes of nibbles                          d (q - 8)
 *      Q4_1     d, m, nibbles                                   d q + m
 *      Q5_0     d, u32 of fifth bits, nibbles                   d (q - 16)
 *      Q5_1     d, m, fifth bits, nibbles                       d q + m
 *      Q8_0     d, 32 i8                                        d q
 *      IQ4_NL   d, nibbles                                      d level[q]
 *      MXFP4    scale byte e, nibbles                           2^(e - 127) level[q]
 *
 *      Blocks of 64 and 128 numbers:
 *      Q2_0     d, 64 codes of 2 bits                           d (q - 1)
 *      Q1_0     d, 128 codes of 1 bit                           d (2 q - 1)
 *      NVFP4    4 bytes s of 16 numbers each (E4M3 without      s / 2 level[q]
 *               sign), then nibbles of each 16 numbers
 *
 *      Blocks of 256 numbers, in groups with small integer scales s and minima t:
 *      Q2_K     16 scales (low nibble) and minima (high),       d s q - m t
 *               64 bytes of 2 bits, d, m
 *      Q3_K     32 bytes of third bits, 64 bytes of 2 bits,     d (s - 32) (q - 4)
 *               16 scales of 6 bits, d
 *      Q4_K     d, m, 8 scales and minima of 6 bits,            d s q - m t
 *               4 x 32 bytes of nibbles
 *      Q5_K     d, m, 8 scales and minima of 6 bits,            d s q - m t
 *               32 bytes of fifth bits, nibbles
 *      Q6_K     2 x 64 bytes of nibbles, 2 x 32 bytes of        d s (q - 32)
 *               2 high bits, 16 i8 scales, d
 *      IQ4_XS   d, 8 scales of 6 bits (2 high bits each in a    d (s - 32) level[q]
 *               u16, 4 bytes of nibbles), nibbles
 *      IQ1_S    d, 32 low bytes of indices into a codebook of   d (2 s + 1) (book[q] +- 1/8)
 *               eights; for each 32 numbers a u16 of 4 x 3
 *               high bits, a scale of 3 bits, a sign of 1/8
 *      IQ1_M    32 low bytes of indices, 16 bytes of 2 times    d (2 s + 1) (book[q] +- 1/8)
 *               3 high bits and a sign of 1/8, 4 u16 of 4
 *               scales of 3 bits and 4 bits of d, lowest first
 *      IQ2_XXS  d, then for each 32 numbers: 4 indices into a   d (s + 1/2) / 4 * book[q]
 *               codebook of eights, and a u32 of 4 x 7 signs
 *               and a 4-bit scale
 *      IQ2_XS   d, 32 u16 of an index (9 bits) and 7 signs,     d (s + 1/2) / 4 * book[q]
 *               16 scales of 4 bits
 *      IQ2_S    d, 32 low bytes of indices, 32 bytes of signs,  d (s + 1/2) / 4 * book[q]
 *               2 high bits of each index, 16 scales of 4 bits
 *      IQ3_XXS  d, 64 indices into a codebook of fours, then    d (s + 1/2) / 2 * book[q]
 *               for each 32 numbers a u32 as in IQ2_XXS
 *      IQ3_S    d, 64 low bytes of indices, 64 ninth bits,      d (2 s + 1) book[q]
 *               32 bytes of signs, 8 scales of 4 bits
 *      TQ1_0    32 bytes and 16 bytes of 5 ternary digits,      d (q - 1)
 *               4 bytes of 4 digits, d
 *      TQ2_0    64 bytes of 2 bits, d                           d (q - 1)
 */
#include "dequant.h"

#include <stdbool.h>

#include "base/bytes.h"
#include "codebooks.h"
#include "simd/half.h"

static float f16_at(const unsigned char *p)
{
    return tft_f16_to_f32(tft_load_u16(p));
}

void tft_dequant_f32(float *restrict y, const void *restrict x, size_t n)
{
    const unsigned char *b = x;
    for (size_t i = 0; i < n; i++)
        y[i] = tft_f32_of_bits(tft_load_u32(b + 4 * i));
}

void tft_dequant_f16(float *restrict y, const void *restrict x, size_t n)
{
    const unsigned char *b = x;
    for (size_t i = 0; i < n; i++)
        y[i] = f16_at(b + 2 * i);
}

void tft_dequant_bf16(float *restrict y, const void *restrict x, size_t n)
{
    const unsigned char *b = x;
    for (size_t i = 0; i < n; i++)
        y[i] = tft_bf16_to_f32(tft_load_u16(b + 2 * i));
}

/* ---- blocks of 32 */

void tft_dequant_q4_0(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 32, y += 32, b += 18) {
        float d = f16_at(b);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)((b[2 + j] & 15) - 8) * d;
            y[j + 16] = (float)((b[2 + j] >> 4) - 8) * d;
        }
    }
}

void tft_dequant_q4_1(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 32, y += 32, b += 20) {
        float d = f16_at(b), m = f16_at(b + 2);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)(b[4 + j] & 15) * d + m;
            y[j + 16] = (float)(b[4 + j] >> 4) * d + m;
        }
    }
}

/* Number j of 32: its nibble, and bit j of `fifth` as the fifth bit. */
static int five_bits(const unsigned char *nibbles, uint32_t fifth, int j)
{
    int low = j < 16 ? nibbles[j] & 15 : nibbles[j - 16] >> 4;
    return low | (int)(fifth >> j & 1) << 4;
}

void tft_dequant_q5_0(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 32, y += 32, b += 22) {
        float d = f16_at(b);
        uint32_t fifth = tft_load_u32(b + 2);
        for (int j = 0; j < 32; j++)
            y[j] = (float)(five_bits(b + 6, fifth, j) - 16) * d;
    }
}

void tft_dequant_q5_1(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 32, y += 32, b += 24) {
        float d = f16_at(b), m = f16_at(b + 2);
        uint32_t fifth = tft_load_u32(b + 4);
        for (int j = 0; j < 32; j++)
            y[j] = (float)five_bits(b + 8, fifth, j) * d + m;
    }
}

void tft_dequant_q8_0(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 32, y += 32, b += 34) {
        float d = f16_at(b);
        for (int j = 0; j < 32; j++)
            y[j] = (float)(int8_t)b[2 + j] * d;
    }
}

/* The 16 levels of IQ4, finer near zero. */
static const int8_t iq4_level[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

/* The 16 levels of E2M1 times two, for MXFP4 and NVFP4. As in ggml, minus zero is zero. */
static const int8_t e2m1_level[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void group_of_levels(float *restrict y, const unsigned char *restrict nibbles,
                            const int8_t *restrict level, float d)
{
    for (int j = 0; j < 16; j++) {
        y[j] = d * (float)level[nibbles[j] & 15];
        y[j + 16] = d * (float)level[nibbles[j] >> 4];
    }
}

void tft_dequant_iq4_nl(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 32, y += 32, b += 18)
        group_of_levels(y, b + 2, iq4_level, f16_at(b));
}

void tft_dequant_mxfp4(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 32, y += 32, b += 17) {
        /* 2^(e - 128): half, because levels are doubled. E8M0's NaN, 255, is 2^127 as in ggml. */
        uint32_t e = b[0], bits = e < 2 ? (uint32_t)0x200000 << e : (e - 1) << 23;
        group_of_levels(y, b + 1, e2m1_level, tft_f32_of_bits(bits));
    }
}

/* ---- blocks of 64 and 128 */

void tft_dequant_q1_0(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 128, y += 128, b += 18) {
        float d = f16_at(b);
        for (int j = 0; j < 128; j++)
            y[j] = b[2 + j / 8] >> j % 8 & 1 ? d : -d;
    }
}

void tft_dequant_q2_0(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 64, y += 64, b += 18) {
        float d = f16_at(b);
        for (int j = 0; j < 64; j++)
            y[j] = (float)((b[2 + j / 4] >> j % 4 * 2 & 3) - 1) * d;
    }
}

/* Half of a scale, because levels are doubled. The highest bit does not count, and NaN is 0 as in
   ggml. */
static float nvfp4_scale(unsigned byte)
{
    byte &= 0x7f;
    return byte == 0x7f ? 0 : tft_f8_to_f32((uint8_t)byte) * 0.5f;
}

void tft_dequant_nvfp4(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 64, y += 64, b += 36)
        for (int g = 0; g < 4; g++) {
            const unsigned char *nibbles = b + 4 + 8 * g;
            float d = nvfp4_scale(b[g]);
            for (int j = 0; j < 8; j++) {
                y[16 * g + j] = d * (float)e2m1_level[nibbles[j] & 15];
                y[16 * g + j + 8] = d * (float)e2m1_level[nibbles[j] >> 4];
            }
        }
}

/* ---- blocks of 256 */

void tft_dequant_q2_k(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 84) {
        float d = f16_at(b + 80), m = f16_at(b + 82);
        for (int g = 0; g < 16; g++) { /* 8 groups share 32 bytes: 2 bits of one half each */
            const unsigned char *q = b + 16 + g / 8 * 32 + g % 2 * 16;
            float scale = d * (float)(b[g] & 15), min = m * (float)(b[g] >> 4);
            for (int j = 0; j < 16; j++)
                y[16 * g + j] = scale * (float)(q[j] >> g / 2 % 4 * 2 & 3) - min;
        }
    }
}

/* Scale g of 16: bytes 0-7 hold the low nibbles, first in their low halves; bytes 8-11 hold the 2
   high bits, lowest first. */
static int q3_scale(const unsigned char *s, int g)
{
    return (s[g % 8] >> g / 8 * 4 & 15) | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4;
}

void tft_dequant_q3_k(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 110) {
        float d = f16_at(b + 108);
        for (int g = 0; g < 16; g++) {
            const unsigned char *third = b + g % 2 * 16, *q = b + 32 + g / 8 * 32 + g % 2 * 16;
            float scale = d * (float)(q3_scale(b + 96, g) - 32);
            for (int j = 0; j < 16; j++)
                y[16 * g + j] =
                    scale * (float)((q[j] >> g / 2 % 4 * 2 & 3) + (third[j] >> g / 2 & 1) * 4 - 4);
        }
    }
}

/* Scale and minimum g of 8, 6 bits each. Bytes 0-3 and 4-7 hold the first four groups' numbers.
   Bytes 8-11 hold the low nibbles of the last four groups' numbers; the high bits are above the
   numbers in bytes 0-7. */
static void q4_scale(const unsigned char *s, int g, int *scale, int *min)
{
    *scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
    *min = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | s[g] >> 6 << 4;
}

void tft_dequant_q4_k(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 144) {
        float d = f16_at(b), m = f16_at(b + 2);
        for (int g = 0; g < 8; g++) {
            const unsigned char *q = b + 16 + g / 2 * 32;
            int s, t;
            q4_scale(b + 4, g, &s, &t);
            float scale = d * (float)s, min = m * (float)t;
            for (int j = 0; j < 32; j++)
                y[32 * g + j] = scale * (float)(q[j] >> g % 2 * 4 & 15) - min;
        }
    }
}

void tft_dequant_q5_k(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 176) {
        float d = f16_at(b), m = f16_at(b + 2);
        const unsigned char *fifth = b + 16;
        for (int g = 0; g < 8; g++) {
            const unsigned char *q = b + 48 + g / 2 * 32;
            int s, t;
            q4_scale(b + 4, g, &s, &t);
            float scale = d * (float)s, min = m * (float)t;
            for (int j = 0; j < 32; j++)
                y[32 * g + j] =
                    scale * (float)((q[j] >> g % 2 * 4 & 15) + (fifth[j] >> g & 1) * 16) - min;
        }
    }
}

void tft_dequant_q6_k(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 210) {
        float d = f16_at(b + 208);
        /* 128 numbers pass twice over 64 bytes of nibbles and 4 times over 32 bytes of high bits */
        for (int g = 0; g < 16; g++) {
            int half = g / 8, run = g % 8 / 2, at = g % 2 * 16;
            const unsigned char *low = b + half * 64 + run % 2 * 32 + at,
                                *high = b + 128 + half * 32 + at;
            float scale = d * (float)(int8_t)b[192 + g];
            for (int j = 0; j < 16; j++) {
                int q = (low[j] >> run / 2 * 4 & 15) | (high[j] >> run * 2 & 3) << 4;
                y[16 * g + j] = scale * (float)(q - 32);
            }
        }
    }
}

void tft_dequant_iq4_xs(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 136) {
        float d = f16_at(b);
        uint32_t high = tft_load_u16(b + 2);
        for (int g = 0; g < 8; g++) {
            int s = (b[4 + g / 2] >> g % 2 * 4 & 15) | (int)(high >> 2 * g & 3) << 4;
            group_of_levels(y + 32 * g, b + 8 + 16 * g, iq4_level, d * (float)(s - 32));
        }
    }
}

/* Signs are random, so a branch would be mispredicted half the time: flip the sign bit instead. */
static void eight(float *restrict y, uint64_t entry, uint32_t signs, float d)
{
    unsigned char level[8];
    tft_store_u64(level, entry);
    for (int j = 0; j < 8; j++)
        y[j] = tft_f32_of_bits(tft_f32_bits(d * (float)level[j]) ^ (signs >> j & 1) << 31);
}

/* The number of negative signs is even, so 7 bits determine all 8. */
static uint32_t eight_signs(uint32_t seven)
{
    return seven | (uint32_t)__builtin_parity(seven) << 7;
}

/* An entry of eight levels from two entries of four. */
static uint64_t two_fours(uint32_t first, uint32_t second)
{
    return first | (uint64_t)second << 32;
}

static int nibble(const unsigned char *p, int i)
{
    return p[i / 2] >> i % 2 * 4 & 15;
}

/* An entry of IQ1's book, with 1/8 less or more. */
static void eight_of_iq1(float *restrict y, uint32_t index, bool less, float d)
{
    unsigned char level[8];
    tft_store_u64(level, tft_book_iq1[index]);
    for (int j = 0; j < 8; j++)
        y[j] = d * ((float)(level[j] + (less ? 0 : 2) - 16) * 0.125f);
}

void tft_dequant_iq1_s(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 50) {
        float d = f16_at(b);
        for (int g = 0; g < 8; g++) {
            uint32_t rest = tft_load_u16(b + 34 + 2 * g);
            float scale = d * (float)(2 * (rest >> 12 & 7) + 1);
            for (int i = 0; i < 4; i++)
                eight_of_iq1(y + 32 * g + 8 * i, b[2 + 4 * g + i] | (rest >> 3 * i & 7) << 8,
                             rest >> 15, scale);
        }
    }
}

void tft_dequant_iq1_m(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 56) {
        float d = tft_f16_to_f32(tft_iq1_m_factor(b + 48));
        for (int i = 0; i < 32; i++) {
            uint32_t rest = b[32 + i / 2] >> i % 2 * 4;
            float scale = d * (float)(2 * tft_iq1_m_scale(b + 48, i / 2) + 1);
            eight_of_iq1(y + 8 * i, b[i] | (rest & 7) << 8, rest & 8, scale);
        }
    }
}

void tft_dequant_iq2_xxs(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 66) {
        float d = f16_at(b);
        for (int g = 0; g < 8; g++) {
            const unsigned char *q = b + 2 + 8 * g;
            uint32_t rest = tft_load_u32(q + 4);
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.25f;
            for (int i = 0; i < 4; i++)
                eight(y + 32 * g + 8 * i, tft_book_iq2_xxs[q[i]],
                      eight_signs(rest >> 7 * i & 127), scale);
        }
    }
}

void tft_dequant_iq2_xs(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 74) {
        float d = f16_at(b);
        for (int i = 0; i < 32; i++) {
            uint32_t q = tft_load_u16(b + 2 + 2 * i);
            float scale = d * (0.5f + (float)nibble(b + 66, i / 2)) * 0.25f;
            eight(y + 8 * i, tft_book_iq2_xs[q & 511], eight_signs(q >> 9), scale);
        }
    }
}

void tft_dequant_iq2_s(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 82) {
        const unsigned char *low = b + 2, *signs = b + 34, *high = b + 66;
        float d = f16_at(b);
        for (int i = 0; i < 32; i++) {
            int q = low[i] | (high[i / 4] >> i % 4 * 2 & 3) << 8;
            float scale = d * (0.5f + (float)nibble(b + 74, i / 2)) * 0.25f;
            eight(y + 8 * i, tft_book_iq2_s[q], signs[i], scale);
        }
    }
}

void tft_dequant_iq3_xxs(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 98) {
        float d = f16_at(b);
        for (int g = 0; g < 8; g++) {
            const unsigned char *q = b + 2 + 8 * g;
            uint32_t rest = tft_load_u32(b + 66 + 4 * g);
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.5f;
            for (int i = 0; i < 4; i++)
                eight(y + 32 * g + 8 * i,
                      two_fours(tft_book_iq3_xxs[q[2 * i]], tft_book_iq3_xxs[q[2 * i + 1]]),
                      eight_signs(rest >> 7 * i & 127), scale);
        }
    }
}

void tft_dequant_iq3_s(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 110) {
        const unsigned char *low = b + 2, *ninth = b + 66, *signs = b + 74;
        float d = f16_at(b);
        for (int i = 0; i < 32; i++) {
            int bits = ninth[i / 4] >> i % 4 * 2;
            int first = low[2 * i] | (bits & 1) << 8, second = low[2 * i + 1] | (bits & 2) << 7;
            float scale = d * (float)(1 + 2 * nibble(b + 106, i / 4));
            eight(y + 8 * i, two_fours(tft_book_iq3_s[first], tft_book_iq3_s[second]), signs[i],
                  scale);
        }
    }
}

/* y[n * bytes]: the first ternary digit of each byte, then the second digit of each byte, and so on
   to the n-th. A byte divided by 256 is the fraction 0.qqqqq in base 3, rounded up: the fraction
   times 3^k, without the whole part, begins with digit k. */
static void ternary(float *restrict y, const unsigned char *restrict x, int bytes, int n, float d)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    for (int k = 0; k < n; k++)
        for (int j = 0; j < bytes; j++) {
            uint8_t fraction = (uint8_t)(x[j] * power[k]);
            y[k * bytes + j] = (float)((fraction * 3 >> 8) - 1) * d;
        }
}

void tft_dequant_tq1_0(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 54) {
        float d = f16_at(b + 52);
        ternary(y, b, 32, 5, d);
        ternary(y + 160, b + 32, 16, 5, d);
        ternary(y + 240, b + 48, 4, 4, d);
    }
}

void tft_dequant_tq2_0(float *restrict y, const void *restrict x, size_t n)
{
    for (const unsigned char *b = x; n; n -= 256, y += 256, b += 66) {
        float d = f16_at(b + 64);
        for (int g = 0; g < 8; g++) /* 4 groups share 32 bytes */
            for (int j = 0; j < 32; j++)
                y[32 * g + j] = (float)((b[g / 4 * 32 + j] >> g % 4 * 2 & 3) - 1) * d;
    }
}
