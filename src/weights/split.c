#include "weights/split.h"

#include "base/bytes.h"
#include "file/codebooks.h"

/* Codes 0 .. 15 are the low halves of 16 bytes, codes 16 .. 31 the high halves. */
static void nibbles(uint8_t *code, const unsigned char *from)
{
    for (int j = 0; j < 16; j++) {
        code[j] = from[j] & 15;
        code[j + 16] = from[j] >> 4;
    }
}

/* Adds bit j of `bits` above the four bits of code j. */
static void fifth_bits(uint8_t *code, uint32_t bits)
{
    for (int j = 0; j < 32; j++)
        code[j] = (uint8_t)(code[j] | (bits >> j & 1) << 4);
}

/* ---- blocks of 32 */

void tft_split_q4_0(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    nibbles(p->code, b + 2);
}

void tft_split_q4_1(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    p->minimum = tft_load_u16(b + 2);
    nibbles(p->code, b + 4);
}

void tft_split_q5_0(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    nibbles(p->code, b + 6);
    fifth_bits(p->code, tft_load_u32(b + 2));
}

void tft_split_q5_1(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    p->minimum = tft_load_u16(b + 2);
    nibbles(p->code, b + 8);
    fifth_bits(p->code, tft_load_u32(b + 4));
}

/* The number plus 128. */
void tft_split_q8_0(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    for (int j = 0; j < 32; j++)
        p->code[j] = b[2 + j] ^ 128;
}

void tft_split_iq4_nl(struct tft_parts *p, const unsigned char *b)
{
    tft_split_q4_0(p, b);
}

void tft_split_mxfp4(struct tft_parts *p, const unsigned char *b)
{
    p->factor = b[0];
    nibbles(p->code, b + 1);
}

/* ---- blocks of 64 and 128 */

void tft_split_q1_0(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    for (int j = 0; j < 128; j++)
        p->code[j] = b[2 + j / 8] >> j % 8 & 1;
}

void tft_split_q2_0(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    for (int j = 0; j < 64; j++)
        p->code[j] = b[2 + j / 4] >> j % 4 * 2 & 3;
}

/* The highest bit of a scale does not count, and NaN is 0. */
void tft_split_nvfp4(struct tft_parts *p, const unsigned char *b)
{
    for (int g = 0; g < 4; g++) {
        int scale = b[g] & 0x7f;
        p->scale[g] = (int8_t)(scale == 0x7f ? 0 : scale);
        for (int j = 0; j < 8; j++) {
            p->code[16 * g + j] = b[4 + 8 * g + j] & 15;
            p->code[16 * g + j + 8] = b[4 + 8 * g + j] >> 4;
        }
    }
}

/* ---- blocks of 256 */

/* 16 codes of 2 bits of group g: 8 groups share 32 bytes. */
static void two_bits(uint8_t *code, const unsigned char *from, int g)
{
    const unsigned char *q = from + g / 8 * 32 + g % 2 * 16;
    for (int j = 0; j < 16; j++)
        code[16 * g + j] = q[j] >> g / 2 % 4 * 2 & 3;
}

void tft_split_q2_k(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b + 80);
    p->minimum = tft_load_u16(b + 82);
    for (int g = 0; g < 16; g++) {
        p->scale[g] = b[g] & 15;
        p->min[g] = (int8_t)(b[g] >> 4);
        two_bits(p->code, b + 16, g);
    }
}

void tft_split_q3_k(struct tft_parts *p, const unsigned char *b)
{
    const unsigned char *s = b + 96;
    p->factor = tft_load_u16(b + 108);
    for (int g = 0; g < 16; g++) {
        const unsigned char *third = b + g % 2 * 16;
        int scale = (s[g % 8] >> g / 8 * 4 & 15) | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4;
        p->scale[g] = (int8_t)(scale - 32);
        two_bits(p->code, b + 32, g);
        for (int j = 0; j < 16; j++)
            p->code[16 * g + j] |= (uint8_t)((third[j] >> g / 2 & 1) << 2);
    }
}

/* 8 scales and minima of 6 bits in 12 bytes. */
static void six_bits(struct tft_parts *p, const unsigned char *s)
{
    for (int g = 0; g < 4; g++) {
        p->scale[g] = s[g] & 63;
        p->min[g] = s[g + 4] & 63;
        p->scale[g + 4] = (int8_t)((s[g + 8] & 15) | s[g] >> 6 << 4);
        p->min[g + 4] = (int8_t)(s[g + 8] >> 4 | s[g + 4] >> 6 << 4);
    }
}

/* 256 codes of 4 bits: 2 groups of 32 share 32 bytes. */
static void halves(uint8_t *code, const unsigned char *from)
{
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 32; j++) {
            code[64 * i + j] = from[32 * i + j] & 15;
            code[64 * i + 32 + j] = from[32 * i + j] >> 4;
        }
}

void tft_split_q4_k(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    p->minimum = tft_load_u16(b + 2);
    six_bits(p, b + 4);
    halves(p->code, b + 16);
}

void tft_split_q5_k(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    p->minimum = tft_load_u16(b + 2);
    six_bits(p, b + 4);
    halves(p->code, b + 48);
    for (int g = 0; g < 8; g++)
        for (int j = 0; j < 32; j++)
            p->code[32 * g + j] |= (uint8_t)((b[16 + j] >> g & 1) << 4);
}

/* 128 codes of 6 bits: each 32 codes have a half of each of 32 bytes of `low`, and two bits of each
   of 32 bytes of `high`. */
static void six_bit_codes(uint8_t *code, const unsigned char *low, const unsigned char *high)
{
    for (int j = 0; j < 32; j++) {
        code[j] = (uint8_t)((low[j] & 15) | (high[j] & 3) << 4);
        code[32 + j] = (uint8_t)((low[32 + j] & 15) | (high[j] & 12) << 2);
        code[64 + j] = (uint8_t)(low[j] >> 4 | (high[j] & 48));
        code[96 + j] = (uint8_t)(low[32 + j] >> 4 | (high[j] & 192) >> 2);
    }
}

void tft_split_q6_k(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b + 208);
    six_bit_codes(p->code, b, b + 128);
    six_bit_codes(p->code + 128, b + 64, b + 160);
    for (int g = 0; g < 16; g++)
        p->scale[g] = (int8_t)b[192 + g];
}

void tft_split_iq4_xs(struct tft_parts *p, const unsigned char *b)
{
    uint32_t high = tft_load_u16(b + 2);
    p->factor = tft_load_u16(b);
    for (int g = 0; g < 8; g++) {
        int s = (b[4 + g / 2] >> g % 2 * 4 & 15) | (int)(high >> 2 * g & 3) << 4;
        p->scale[g] = (int8_t)(s - 32);
        nibbles(p->code + 32 * g, b + 8 + 16 * g);
    }
}

/* ---- books */

/* Bit j of `signs` as code j: eight codes at a time, a byte each. */
static void eight_signs(uint8_t *code, uint32_t signs)
{
    uint64_t bits = (signs & 255) * UINT64_C(0x0101010101010101) & 0x8040201008040201;
    tft_store_u64(code, (bits + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101);
}

/* A u32 of 4 x 7 signs and a 4-bit scale. An eighth sign makes the number of negative signs
   even. */
static void signs_and_scale(struct tft_parts *p, int g, uint32_t word)
{
    p->scale[g] = (int8_t)(word >> 28);
    for (int i = 0; i < 4; i++) {
        uint32_t seven = word >> 7 * i & 127;
        eight_signs(p->code + 32 * g + 8 * i,
                    seven | (uint32_t)__builtin_parity(seven) << 7);
    }
}

static void scale_nibbles(struct tft_parts *p, const unsigned char *from, int n)
{
    for (int g = 0; g < n; g++)
        p->scale[g] = from[g / 2] >> g % 2 * 4 & 15;
}

void tft_split_iq2_xxs(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    for (int g = 0; g < 8; g++) {
        for (int i = 0; i < 4; i++)
            p->index[4 * g + i] = b[2 + 8 * g + i];
        signs_and_scale(p, g, tft_load_u32(b + 6 + 8 * g));
    }
}

void tft_split_iq2_xs(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    for (int i = 0; i < 32; i++) {
        uint32_t q = tft_load_u16(b + 2 + 2 * i), seven = q >> 9;
        p->index[i] = q & 511;
        eight_signs(p->code + 8 * i, seven | (uint32_t)__builtin_parity(seven) << 7);
    }
    scale_nibbles(p, b + 66, 16);
}

void tft_split_iq2_s(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    for (int i = 0; i < 32; i++) {
        p->index[i] = (uint16_t)(b[2 + i] | (b[66 + i / 4] >> i % 4 * 2 & 3) << 8);
        eight_signs(p->code + 8 * i, b[34 + i]);
    }
    scale_nibbles(p, b + 74, 16);
}

void tft_split_iq3_xxs(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    for (int i = 0; i < 64; i++)
        p->index[i] = b[2 + i];
    for (int g = 0; g < 8; g++)
        signs_and_scale(p, g, tft_load_u32(b + 66 + 4 * g));
}

void tft_split_iq3_s(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    for (int i = 0; i < 64; i++)
        p->index[i] = (uint16_t)(b[2 + i] | (b[66 + i / 8] >> i % 8 & 1) << 8);
    for (int i = 0; i < 32; i++)
        eight_signs(p->code + 8 * i, b[74 + i]);
    scale_nibbles(p, b + 106, 8);
}

/* The sign of 1/8 is above the 11 bits of the entry: 1 if positive. */
void tft_split_iq1_s(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b);
    for (int g = 0; g < 8; g++) {
        uint32_t rest = tft_load_u16(b + 34 + 2 * g), more = rest >> 15 ^ 1;
        p->scale[g] = rest >> 12 & 7;
        for (int i = 0; i < 4; i++)
            p->index[4 * g + i] =
                (uint16_t)(b[2 + 4 * g + i] | (rest >> 3 * i & 7) << 8 | more << 11);
    }
}

void tft_split_iq1_m(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_iq1_m_factor(b + 48);
    for (int i = 0; i < 32; i++) {
        uint32_t rest = (uint32_t)b[32 + i / 2] >> i % 2 * 4 & 15;
        p->index[i] = (uint16_t)(b[i] | (rest ^ 8) << 8);
    }
    for (int g = 0; g < 16; g++)
        p->scale[g] = (int8_t)tft_iq1_m_scale(b + 48, g);
}

/* ---- three levels */

/* n digits of each byte: see dequant.c. */
static uint8_t *ternary(uint8_t *code, const unsigned char *from, int bytes, int n)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    for (int k = 0; k < n; k++)
        for (int j = 0; j < bytes; j++)
            *code++ = (uint8_t)((uint8_t)(from[j] * power[k]) * 3 >> 8);
    return code;
}

void tft_split_tq1_0(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b + 52);
    uint8_t *code = ternary(p->code, b, 32, 5);
    code = ternary(code, b + 32, 16, 5);
    ternary(code, b + 48, 4, 4);
}

void tft_split_tq2_0(struct tft_parts *p, const unsigned char *b)
{
    p->factor = tft_load_u16(b + 64);
    for (int g = 0; g < 8; g++)
        for (int j = 0; j < 32; j++)
            p->code[32 * g + j] = b[g / 4 * 32 + j] >> g % 4 * 2 & 3;
}
