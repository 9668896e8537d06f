/* Every format restated number by number: where the bits of number i are, and their meaning. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file/codebooks.h"
#include "file/dtype.h"
#include "paths.h"
#include "simd/half.h"

/* n bits of a little-endian bit string, from bit `first`. */
static int bits(const unsigned char *p, unsigned first, unsigned n)
{
    int v = 0;
    for (unsigned k = 0; k < n; k++)
        v |= (p[(first + k) / 8] >> (first + k) % 8 & 1) << k;
    return v;
}

static float half(const unsigned char *p)
{
    return tft_f16_to_f32((uint16_t)bits(p, 0, 16));
}

static int i8(const unsigned char *p)
{
    return *p < 128 ? *p : *p - 256;
}

static float f32(const unsigned char *b, unsigned i)
{
    (void)i;
    return tft_f32_of_bits((uint32_t)bits(b, 0, 16) | (uint32_t)bits(b, 16, 16) << 16);
}

static float f16(const unsigned char *b, unsigned i)
{
    (void)i;
    return half(b);
}

static float bf16(const unsigned char *b, unsigned i)
{
    (void)i;
    return tft_f32_of_bits((uint32_t)bits(b, 0, 16) << 16);
}

/* ---- blocks of 32: numbers i and i + 16 share a byte */

static int nibble(const unsigned char *p, unsigned i)
{
    return bits(p, i % 16 * 8 + i / 16 * 4, 4);
}

static float q4_0(const unsigned char *b, unsigned i)
{
    return (float)(nibble(b + 2, i) - 8) * half(b);
}

static float q4_1(const unsigned char *b, unsigned i)
{
    float scaled = (float)nibble(b + 4, i) * half(b);
    return scaled + half(b + 2);
}

static float q5_0(const unsigned char *b, unsigned i)
{
    return (float)(nibble(b + 6, i) + 16 * bits(b + 2, i, 1) - 16) * half(b);
}

static float q5_1(const unsigned char *b, unsigned i)
{
    float scaled = (float)(nibble(b + 8, i) + 16 * bits(b + 4, i, 1)) * half(b);
    return scaled + half(b + 2);
}

static float q8_0(const unsigned char *b, unsigned i)
{
    return (float)i8(b + 2 + i) * half(b);
}

static const int levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

static float iq4_nl(const unsigned char *b, unsigned i)
{
    return half(b) * (float)levels[nibble(b + 2, i)];
}

/* E2M1 (sign, 2 bits of exponent with bias 1, 1 bit of fraction) times E8M0 (bias 127), but -0 is
   0, and there is no NaN. */
static float e2m1(int q)
{
    int exponent = q >> 1 & 3, fraction = q & 1;
    float x = exponent ? ldexpf(1 + (float)fraction / 2, exponent - 1) : (float)fraction / 2;
    return q > 8 ? -x : x;
}

static float mxfp4(const unsigned char *b, unsigned i)
{
    return ldexpf(e2m1(nibble(b + 1, i)), b[0] - 127);
}

/* ---- blocks of 64 and 128 */

static float q1_0(const unsigned char *b, unsigned i)
{
    return bits(b + 2, i, 1) ? half(b) : -half(b);
}

static float q2_0(const unsigned char *b, unsigned i)
{
    return (float)(bits(b + 2, 2 * i, 2) - 1) * half(b);
}

/* Scales of 4 bits of exponent with bias 7, 3 bits of fraction. Numbers k and k + 8 of 16 share a
   byte. */
static float nvfp4(const unsigned char *b, unsigned i)
{
    unsigned char s = b[i / 16];
    int exponent = bits(&s, 3, 4), fraction = bits(&s, 0, 3),
        q = bits(b + 4 + i / 16 * 8, i % 8 * 8 + i % 16 / 8 * 4, 4);
    float scale = exponent ? ldexpf(1 + (float)fraction / 8, exponent - 7)
                           : ldexpf((float)fraction, -9);
    return ((s & 0x7f) == 0x7f ? 0 : scale) * e2m1(q);
}

/* ---- blocks of 256 */

static float affine(float d, int s, int q, float m, int t)
{
    float scale = d * (float)s, min = m * (float)t, scaled = scale * (float)q;
    return scaled - min;
}

/* 2 bits: 128 numbers share 32 bytes. */
static int pair(const unsigned char *p, unsigned i)
{
    return bits(p + i / 128 * 32, i % 32 * 8 + i % 128 / 32 * 2, 2);
}

/* 4 bits: 64 numbers share 32 bytes. */
static int nibble_of_64(const unsigned char *p, unsigned i)
{
    return bits(p + i / 64 * 32, i % 32 * 8 + i % 64 / 32 * 4, 4);
}

static float q2_k(const unsigned char *b, unsigned i)
{
    return affine(half(b + 80), bits(b + i / 16, 0, 4), pair(b + 16, i), half(b + 82),
                  bits(b + i / 16, 4, 4));
}

static float q3_k(const unsigned char *b, unsigned i)
{
    unsigned g = i / 16;
    int s = bits(b + 96, g % 8 * 8 + g / 8 * 4, 4) + 16 * bits(b + 104, g % 4 * 8 + g / 4 * 2, 2);
    int q = pair(b + 32, i) + 4 * bits(b, i % 32 * 8 + i / 32, 1);
    float scale = half(b + 108) * (float)(s - 32);
    return scale * (float)(q - 4);
}

/* Scale g and minimum g of 8 have 6 bits each: where the four low and the two high ones are. */
static void scale_and_min(const unsigned char *p, unsigned g, int *s, int *t)
{
    if (g < 4) {
        *s = bits(p, 8 * g, 6);
        *t = bits(p, 32 + 8 * g, 6);
    } else {
        *s = bits(p, 64 + 8 * (g - 4), 4) + 16 * bits(p, 8 * (g - 4) + 6, 2);
        *t = bits(p, 64 + 8 * (g - 4) + 4, 4) + 16 * bits(p, 32 + 8 * (g - 4) + 6, 2);
    }
}

static float q4_k(const unsigned char *b, unsigned i)
{
    int s, t;
    scale_and_min(b + 4, i / 32, &s, &t);
    return affine(half(b), s, nibble_of_64(b + 16, i), half(b + 2), t);
}

static float q5_k(const unsigned char *b, unsigned i)
{
    int s, t;
    scale_and_min(b + 4, i / 32, &s, &t);
    return affine(half(b), s, nibble_of_64(b + 48, i) + 16 * bits(b + 16, i % 32 * 8 + i / 32, 1),
                  half(b + 2), t);
}

static float q6_k(const unsigned char *b, unsigned i)
{
    int q = bits(b + i / 128 * 64, i % 64 * 8 + i % 128 / 64 * 4, 4) + 16 * pair(b + 128, i);
    float scale = half(b + 208) * (float)i8(b + 192 + i / 16);
    return scale * (float)(q - 32);
}

static float iq4_xs(const unsigned char *b, unsigned i)
{
    unsigned g = i / 32;
    int s = bits(b + 4, 4 * g, 4) + 16 * bits(b + 2, 2 * g, 2);
    float scale = half(b) * (float)(s - 32);
    return scale * (float)levels[nibble(b + 8 + 16 * g, i % 32)];
}

/* Digit k of 5: the byte holds 256 / 243 of the number that 5 digits make, the first one highest,
   rounded up. A byte that no 5 digits make is read as the digits below it. */
static int ternary_digit(unsigned byte, unsigned k)
{
    unsigned v = 0, unit = 81;
    while (v < 242 && ((v + 1) * 256 + 242) / 243 <= byte)
        v++;
    for (; k; k--)
        unit /= 3;
    return (int)(v / unit % 3);
}

static float tq1_0(const unsigned char *b, unsigned i)
{
    int q = i < 160   ? ternary_digit(b[i % 32], i / 32)
            : i < 240 ? ternary_digit(b[32 + i % 16], (i - 160) / 16)
                      : ternary_digit(b[48 + i % 4], (i - 240) / 4);
    return (float)(q - 1) * half(b + 52);
}

static float tq2_0(const unsigned char *b, unsigned i)
{
    return (float)(pair(b, i) - 1) * half(b + 64);
}

/* ---- codebooks: the books are checked by the_codebooks() */

static float eighth_off(float scale, int entry, unsigned j, int less)
{
    float level = (float)((int)(tft_book_iq1[entry] >> 8 * j & 255) / 8 - 1);
    return scale * (level + (less ? -0.125f : 0.125f));
}

static float iq1_s(const unsigned char *b, unsigned i)
{
    const unsigned char *rest = b + 34 + i / 32 * 2;
    return eighth_off(half(b) * (float)(2 * bits(rest, 12, 3) + 1),
                      b[2 + i / 8] + 256 * bits(rest, i % 32 / 8 * 3, 3), i % 8,
                      bits(rest, 15, 1));
}

static float iq1_m(const unsigned char *b, unsigned i)
{
    unsigned char d[2] = {0, 0};
    for (unsigned k = 0; k < 16; k++)
        d[k / 8] |= (unsigned char)(bits(b + 48, k / 4 * 16 + 12 + k % 4, 1) << k % 8);
    return eighth_off(half(d) * (float)(2 * bits(b + 48, i / 64 * 16 + i % 64 / 16 * 3, 3) + 1),
                      b[i / 8] + 256 * bits(b + 32, i / 8 * 4, 3), i % 8,
                      bits(b + 32, i / 8 * 4 + 3, 1));
}

/* 7 bits are signs of 8 numbers, of which an even number are negative. */
static int sign_of_seven(const unsigned char *p, unsigned first, unsigned j)
{
    int negative = 0;
    if (j < 7)
        return bits(p, first + j, 1);
    for (unsigned k = 0; k < 7; k++)
        negative ^= bits(p, first + k, 1);
    return negative;
}

static float leveled(float scale, uint64_t entry, unsigned j, int negative)
{
    return scale * (float)(entry >> 8 * j & 255) * (negative ? -1.0f : 1.0f);
}

static float half_steps(float d, int s, float part)
{
    float scale = d * (0.5f + (float)s);
    return scale * part;
}

static float iq2_xxs(const unsigned char *b, unsigned i)
{
    const unsigned char *q = b + 2 + i / 32 * 8;
    unsigned eight = i % 32 / 8;
    return leveled(half_steps(half(b), bits(q + 4, 28, 4), 0.25f), tft_book_iq2_xxs[q[eight]],
                   i % 8, sign_of_seven(q + 4, 7 * eight, i % 8));
}

static float iq2_xs(const unsigned char *b, unsigned i)
{
    unsigned at = i / 8 * 16;
    return leveled(half_steps(half(b), bits(b + 66, i / 16 * 4, 4), 0.25f),
                   tft_book_iq2_xs[bits(b + 2, at, 9)], i % 8, sign_of_seven(b + 2, at + 9, i % 8));
}

static float iq2_s(const unsigned char *b, unsigned i)
{
    int q = b[2 + i / 8] + 256 * bits(b + 66, i / 8 * 2, 2);
    return leveled(half_steps(half(b), bits(b + 74, i / 16 * 4, 4), 0.25f), tft_book_iq2_s[q],
                   i % 8, bits(b + 34, i, 1));
}

static float iq3_xxs(const unsigned char *b, unsigned i)
{
    const unsigned char *rest = b + 66 + i / 32 * 4;
    return leveled(half_steps(half(b), bits(rest, 28, 4), 0.5f), tft_book_iq3_xxs[b[2 + i / 4]],
                   i % 4, sign_of_seven(rest, i % 32 / 8 * 7, i % 8));
}

static float iq3_s(const unsigned char *b, unsigned i)
{
    int q = b[2 + i / 4] + 256 * bits(b + 66, i / 4, 1);
    float scale = half(b) * (float)(2 * bits(b + 106, i / 32 * 4, 4) + 1);
    return leveled(scale, tft_book_iq3_s[q], i % 4, bits(b + 74, i, 1));
}

/* ---- comparing */

static uint64_t seed = 20240229;

static unsigned random_byte(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 56);
}

static const struct format {
    enum tft_dtype type;
    float (*number)(const unsigned char *block, unsigned i);
    int scale[2]; /* offsets of the binary16 numbers; -1: none */
} formats[] = {
    {TFT_F32, f32, {-1, -1}},        {TFT_F16, f16, {0, -1}},       {TFT_BF16, bf16, {0, -1}},
    {TFT_Q4_0, q4_0, {0, -1}},       {TFT_Q4_1, q4_1, {0, 2}},      {TFT_Q5_0, q5_0, {0, -1}},
    {TFT_Q5_1, q5_1, {0, 2}},        {TFT_Q8_0, q8_0, {0, -1}},     {TFT_Q2_K, q2_k, {80, 82}},
    {TFT_Q3_K, q3_k, {108, -1}},     {TFT_Q4_K, q4_k, {0, 2}},      {TFT_Q5_K, q5_k, {0, 2}},
    {TFT_Q6_K, q6_k, {208, -1}},     {TFT_IQ4_NL, iq4_nl, {0, -1}}, {TFT_IQ4_XS, iq4_xs, {0, -1}},
    {TFT_IQ2_XXS, iq2_xxs, {0, -1}}, {TFT_IQ2_XS, iq2_xs, {0, -1}}, {TFT_IQ2_S, iq2_s, {0, -1}},
    {TFT_IQ3_XXS, iq3_xxs, {0, -1}}, {TFT_IQ3_S, iq3_s, {0, -1}},   {TFT_TQ1_0, tq1_0, {52, -1}},
    {TFT_TQ2_0, tq2_0, {64, -1}},    {TFT_MXFP4, mxfp4, {-1, -1}},  {TFT_NVFP4, nvfp4, {-1, -1}},
    {TFT_Q1_0, q1_0, {0, -1}},       {TFT_Q2_0, q2_0, {0, -1}},     {TFT_IQ1_S, iq1_s, {0, -1}},
    {TFT_IQ1_M, iq1_m, {-1, -1}},
};

/* Some blocks keep random scales, which may be any number; the others get an ordinary one, or one
   at an end of the range. */
static void fill_block(const struct format *f, unsigned char *b)
{
    static const uint16_t ends[] = {0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x7bff, 0xfbff,
                                    0x7c00, 0xfc00, 0x7e00, 0x3c00, 0x2e66, 0xae66, 0x1234};
    for (unsigned k = 0; k < tft_dtype_info(f->type)->bytes; k++)
        b[k] = (unsigned char)random_byte();
    for (int k = 0; k < 2; k++)
        if (f->scale[k] >= 0 && random_byte() % 4) {
            uint16_t h = ends[random_byte() % (sizeof ends / sizeof *ends)];
            b[f->scale[k]] = (unsigned char)h;
            b[f->scale[k] + 1] = (unsigned char)(h >> 8);
        }
}

static bool same(float a, float b)
{
    return (isnan(a) && isnan(b)) || tft_f32_bits(a) == tft_f32_bits(b);
}

static void check_format(const struct format *f, unsigned blocks)
{
    const struct tft_dtype_info *info = tft_dtype_info(f->type);
    size_t n = (size_t)blocks * info->block, size = (size_t)blocks * info->bytes;
    /* at an odd address, at the end of its memory */
    unsigned char *memory = malloc(size + 1), *x = memory + 1;
    float *y = malloc(n * sizeof *y);
    for (unsigned k = 0; k < blocks; k++)
        fill_block(f, x + (size_t)k * info->bytes);
    info->to_f32(y, x, n);
    for (unsigned i = 0; i < n; i++) {
        float want = f->number(x + i / info->block * (size_t)info->bytes, i % info->block);
        if (!same(y[i], want))
            fail_msg("%s: number %u is %a, should be %a", info->name, i, y[i], want);
    }
    free(memory);
    free(y);
}

static void random_blocks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        unsigned block = tft_dtype_info(formats[i].type)->block;
        for (unsigned blocks = 1; blocks < 5; blocks++)
            check_format(&formats[i], blocks);
        check_format(&formats[i], 20480 / block);
    }
}

static void integer_types_have_no_conversion(void **state)
{
    (void)state;
    assert_null(tft_dtype_info(TFT_I8)->to_f32);
    assert_null(tft_dtype_info(TFT_I32)->to_f32);
    for (unsigned i = 0; i < 64; i++) {
        const struct tft_dtype_info *info = tft_dtype_info(i);
        if (!info || i == TFT_I8 || i == TFT_I32)
            continue;
        bool here = false;
        for (size_t k = 0; k < sizeof formats / sizeof *formats; k++)
            here |= formats[k].type == i;
        assert_true(info->to_f32 && here);
    }
}

/* The place of a level among `of`, the levels of its book in ascending order. */
static unsigned place(const char *of, unsigned level)
{
    const char *p = memchr(of, (int)level, strlen(of));
    assert_non_null(p);
    return (unsigned)(p - of);
}

/* The book is `eights` or `fours`, n entries. Entries ascend, as numbers with the last level as
   highest digit, so no entry is there twice. `even`: in each entry, the places of the levels have
   an even sum. */
static void check_book(const uint64_t *eights, const uint32_t *fours, unsigned n, const char *of,
                       bool even, uint32_t want_hash)
{
    unsigned width = eights ? 8 : 4, seen = 0;
    uint64_t before = 0;
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (unsigned c = 0; c < n; c++) {
        uint64_t entry = eights ? eights[c] : fours[c];
        unsigned sum = 0;
        for (unsigned j = 0; j < width; j++) {
            unsigned level = entry >> 8 * j & 255, at = place(of, level);
            sum += at;
            seen |= 1u << at;
            hash = (hash ^ level) * 16777619u;
        }
        assert_true(!even || sum % 2 == 0);
        assert_true(entry > before);
        before = entry;
    }
    assert_int_equal(seen, (1u << strlen(of)) - 1);
    assert_int_equal(hash, want_hash); /* of the table in ggml-common.h */
}

static void the_codebooks(void **state)
{
    (void)state;
    static const char iq1[] = {7, 15, 23, 0}, iq2[] = {8, 25, 43, 0},
                      iq3_xxs_levels[] = {4, 12, 20, 28, 36, 44, 52, 62, 0},
                      iq3_s_levels[] = {1, 3, 5, 7, 9, 11, 13, 15, 0};
    check_book(tft_book_iq1, NULL, 2048, iq1, false, 0xc131aecd);
    check_book(tft_book_iq2_xxs, NULL, 256, iq2, true, 0x3db4a16e);
    check_book(tft_book_iq2_xs, NULL, 512, iq2, true, 0xebeb17dd);
    check_book(tft_book_iq2_s, NULL, 1024, iq2, true, 0x82981110);
    check_book(NULL, tft_book_iq3_xxs, 256, iq3_xxs_levels, true, 0x49a45035);
    check_book(NULL, tft_book_iq3_s, 512, iq3_s_levels, false, 0x71cc6c89);
    assert_true(tft_book_iq2_xxs[131] == 0x082b2b2b19081908);
    assert_true(tft_book_iq2_xxs[255] == 0x2b2b2b1908081908);
}

/* ---- blocks by hand */

static void known_blocks(void **state)
{
    (void)state;
    float y[256];

    unsigned char q4[18] = {0x00, 0xc0, 0x80, 0x7f}; /* d = -2 */
    tft_dtype_info(TFT_Q4_0)->to_f32(y, q4, 32);
    assert_true(y[0] == 16 && y[16] == 0 && y[1] == -14 && y[17] == 2 && y[2] == 16 && y[31] == 16);

    /* d = 0.5, m = 1, fifth bits 0 and 16 */
    unsigned char q51[24] = {0x00, 0x38, 0x00, 0x3c, 1, 0, 1, 0, 0x21};
    tft_dtype_info(TFT_Q5_1)->to_f32(y, q51, 32);
    assert_true(y[0] == 9.5f && y[16] == 10 && y[1] == 1 && y[17] == 1);

    unsigned char q8[34] = {0x00, 0x34, 0x80, 0x7f, 0xff}; /* d = 0.25 */
    tft_dtype_info(TFT_Q8_0)->to_f32(y, q8, 32);
    assert_true(y[0] == -32 && y[1] == 31.75f && y[2] == -0.25f && y[3] == 0);

    /* d = 1 */
    unsigned char q6[210] = {
        [0] = 0x1f, [128] = 0x03, [192] = 2, [193] = 0xff, [196] = 3, [209] = 0x3c};
    tft_dtype_info(TFT_Q6_K)->to_f32(y, q6, 256);
    assert_true(y[0] == 2 * (63 - 32) && y[1] == 2 * -32 && y[16] == 32 && y[64] == 3 * (1 - 32) &&
                y[255] == 0);

    unsigned char iq4[18] = {0x00, 0x3c, 0xf0, 0x87};
    tft_dtype_info(TFT_IQ4_NL)->to_f32(y, iq4, 32);
    assert_true(y[0] == -127 && y[16] == 113 && y[1] == -10 && y[17] == 1);

    unsigned char mxfp4_block[17] = {128, 0x17, 0x8f}; /* scale 2 */
    tft_dtype_info(TFT_MXFP4)->to_f32(y, mxfp4_block, 32);
    assert_true(y[0] == 12 && y[16] == 1 && y[1] == -12 && tft_f32_bits(y[17]) == 0);

    /* d = 2; digits 0 1 2 0 1 are 46, and 46 * 256 / 243 is 48.5; 256 * 80 / 81 for 2 2 2 2 0 */
    unsigned char tq1[54] = {[1] = 49, [32] = 49, [48] = 253, [53] = 0x40};
    tft_dtype_info(TFT_TQ1_0)->to_f32(y, tq1, 256);
    assert_true(y[0] == -2 && y[1] == -2 && y[33] == 0 && y[65] == 2 && y[97] == -2 &&
                y[129] == 0 && y[160] == -2 && y[176] == 0 && y[192] == 2 && y[208] == -2 &&
                y[224] == 0 && y[240] == 2 && y[244] == 2 && y[252] == 2 && y[253] == -2);

    unsigned char tq2[66] = {0xe4, [33] = 0x80, [65] = 0x40}; /* d = 2 */
    tft_dtype_info(TFT_TQ2_0)->to_f32(y, tq2, 256);
    assert_true(y[0] == -2 && y[32] == 0 && y[64] == 2 && y[96] == 4 && y[1] == -2 && y[225] == 2 &&
                y[255] == -2);
}

/* The scale is a subnormal number for e < 2, and products may be infinite for e > 252. */
static void all_scales_of_mxfp4(void **state)
{
    (void)state;
    for (unsigned e = 0; e < 256; e++) {
        unsigned char b[17] = {(unsigned char)e, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
        float y[32];
        tft_dtype_info(TFT_MXFP4)->to_f32(y, b, 32);
        for (unsigned i = 0; i < 32; i++)
            assert_true(tft_f32_bits(y[i]) == tft_f32_bits(mxfp4(b, i)));
    }
}

/* Blocks that llama.cpp has converted: models/random/blocks-NAME.bin and .f32. */
static void blocks_of_the_peer(void **state)
{
    (void)state;
    enum { BYTES = 1 << 12, NUMBERS = 1 << 13 };
    static const struct {
        enum tft_dtype type;
        const char *bin, *f32;
    } file[] = {
        {TFT_Q1_0, "models/random/blocks-q1_0.bin", "models/random/blocks-q1_0.f32"},
        {TFT_Q2_0, "models/random/blocks-q2_0.bin", "models/random/blocks-q2_0.f32"},
        {TFT_MXFP4, "models/random/blocks-mxfp4.bin", "models/random/blocks-mxfp4.f32"},
        {TFT_NVFP4, "models/random/blocks-nvfp4.bin", "models/random/blocks-nvfp4.f32"},
        {TFT_IQ1_S, "models/random/blocks-iq1_s.bin", "models/random/blocks-iq1_s.f32"},
        {TFT_IQ1_M, "models/random/blocks-iq1_m.bin", "models/random/blocks-iq1_m.f32"},
    };
    if (!shared_path(file[0].bin))
        skip_because("shared/%s: not found", file[0].bin);
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        static unsigned char x[BYTES];
        static float want[NUMBERS], got[NUMBERS];
        const struct tft_dtype_info *info = tft_dtype_info(file[i].type);
        FILE *bin = fopen(shared_path(file[i].bin), "rb"),
             *f32 = fopen(shared_path(file[i].f32), "rb");
        assert_true(bin && f32);
        size_t bytes = fread(x, 1, BYTES, bin), n = fread(want, sizeof *want, NUMBERS, f32);
        fclose(bin);
        fclose(f32);
        assert_true(n > 0 && bytes == n / info->block * info->bytes);
        info->to_f32(got, x, n);
        for (size_t k = 0; k < n; k++)
            if (!same(got[k], want[k]))
                fail_msg("%s: number %zu is %a, should be %a", info->name, k, got[k], want[k]);
    }
}

static void known_blocks_of_codebooks(void **state)
{
    (void)state;
    float y[256];

    /* scale 8 * 1.5 / 4 = 3; signs - - + + + + + + */
    unsigned char xxs2[66] = {0x00, 0x48, [2] = 1, [6] = 0x03, [9] = 0x10};
    tft_dtype_info(TFT_IQ2_XXS)->to_f32(y, xxs2, 256);
    assert_true(y[0] == -129 && y[1] == -24 && y[2] == 24 && y[7] == 24 && y[8] == 24 &&
                y[32] == 8);
    xxs2[6] = 0x40;
    tft_dtype_info(TFT_IQ2_XXS)->to_f32(y, xxs2, 256);
    assert_true(y[0] == 129 && y[6] == -24 && y[7] == -24);

    /* scales 8 * 0.5 / 4 = 1 and 8 * 1.5 / 4 = 3; entries 1 and 511; signs - + + + + + + - */
    unsigned char xs2[74] = {0x00, 0x48, [2] = 0x01, [3] = 0x02, [4] = 0xff, [5] = 1, [66] = 0x10};
    tft_dtype_info(TFT_IQ2_XS)->to_f32(y, xs2, 256);
    assert_true(y[0] == -43 && y[1] == 8 && y[7] == -8 && y[8] == 43 && y[15] == 43 &&
                y[16] == 24 && y[32] == 8);

    /* the same scales; entries 0, 1023 and 1; signs of the second eight + + + + + + + - */
    unsigned char s2[82] = {0x00, 0x48, [3] = 0xff, [4] = 1, [35] = 0x80, [66] = 0x0c, [74] = 0x10};
    tft_dtype_info(TFT_IQ2_S)->to_f32(y, s2, 256);
    assert_true(y[0] == 8 && y[8] == 43 && y[14] == 43 && y[15] == -43 && y[16] == 129 &&
                y[17] == 24 && y[32] == 8);

    /* scale 4 * 1.5 / 2 = 3; entries 1 and 255; signs + + + + + - + - */
    unsigned char xxs3[98] = {0x00, 0x44, [2] = 1, [3] = 255, [66] = 0x20, [69] = 0x10};
    tft_dtype_info(TFT_IQ3_XXS)->to_f32(y, xxs3, 256);
    assert_true(y[0] == 60 && y[1] == 12 && y[4] == 12 && y[5] == -84 && y[6] == 156 &&
                y[7] == -186 && y[8] == 12 && y[32] == 4);

    /* scales 1 and 3; entries 1 and 511; the seventh number is negative */
    unsigned char s3[110] = {
        0x00, 0x3c, [2] = 1, [3] = 0xff, [66] = 0x02, [74] = 0x40, [106] = 0x10};
    tft_dtype_info(TFT_IQ3_S)->to_f32(y, s3, 256);
    assert_true(y[0] == 3 && y[1] == 1 && y[4] == 1 && y[6] == -15 && y[7] == 15 && y[8] == 1 &&
                y[32] == 3 && y[64] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_codebooks),
        cmocka_unit_test(random_blocks),
        cmocka_unit_test(integer_types_have_no_conversion),
        cmocka_unit_test(known_blocks),
        cmocka_unit_test(all_scales_of_mxfp4),
        cmocka_unit_test(known_blocks_of_codebooks),
        cmocka_unit_test(blocks_of_the_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
