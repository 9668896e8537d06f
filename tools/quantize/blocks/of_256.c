/*
 * Blocks of 256 numbers; dequant.c has the layouts. Groups have small integers for scales (and
 * minima), in units d (and m) that the block stores as f16. The integers are tried against the
 * numbers, with the rounded units and the codes that follow: first each group's best, then the
 * units of least squares for all codes, and so on, as long as the cost falls.
 */
#include "tools/quantize/blocks/blocks.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "simd/half.h"
#include "tools/quantize/blocks/fit.h"

enum { N = 256, ROUNDS = 4 };

static float as_half(float x) { return tft_f16_to_f32(tft_f32_to_f16(x)); }

static int clamp(int v, int least, int most) { return v < least ? least : v > most ? most : v; }

static int nearest_within(float x, int least, int most)
{
    return clamp((int)(x + (x < 0 ? -0.5f : 0.5f)), least, most);
}

static float larger(float a, float b) { return a > b ? a : b; }

/* ---- Q4_K, Q5_K: d s q - m t, with s and t of 6 bits, for 8 groups of 32 */

enum { WIDE = 32, MOST_6 = 63 };

struct affine_block {
    struct fit_group group[N / WIDE];
    float d, m; /* as f16 has them */
    int s[N / WIDE], t[N / WIDE];
    float cost;
};

/* The best s and t of group i near these; returns their cost. */
static float choose_affine(struct affine_block *b, int i, int s, int t)
{
    float best = INFINITY;
    for (int ds = -1; ds <= 1; ds++)
        for (int dt = -1; dt <= 1; dt++) {
            int s1 = clamp(s + ds, 0, MOST_6), t1 = clamp(t + dt, 0, MOST_6);
            float cost = fit_cost(&b->group[i], b->d * (float)s1, -(b->m * (float)t1));
            if (cost < best) {
                best = cost;
                b->s[i] = s1;
                b->t[i] = t1;
            }
        }
    return best;
}

static float code_of(const struct affine_block *b, int i, float x)
{
    return fit_code(&b->group[i], x, b->d * (float)b->s[i], -(b->m * (float)b->t[i]));
}

/* Units of least squares. False: the codes do not determine them. */
static bool refit_units(const struct affine_block *b, float *d, float *m)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int i = 0; i < N / WIDE; i++)
        for (int k = 0; k < WIDE; k++) {
            double x = (double)b->group[i].x[k], w = (double)b->group[i].weight[k],
                   u = (double)(code_of(b, i, b->group[i].x[k]) * (float)b->s[i]), v = -b->t[i];
            aa += w * u * u;
            ab += w * u * v;
            bb += w * v * v;
            ax += w * u * x;
            bx += w * v * x;
        }
    double det = aa * bb - ab * ab;
    if (bb == 0 && aa > 0) {
        *d = (float)(ax / aa);
        return *d > 0;
    }
    if (!(det > 1e-9 * aa * bb))
        return false;
    *d = (float)((ax * bb - bx * ab) / det);
    *m = (float)((bx * aa - ax * ab) / det);
    return *d > 0 && *m >= 0;
}

/* Chooses s and t of all groups for the units d and m. near: of this block */
static struct affine_block with_units(const struct affine_block *near, float d, float m)
{
    struct affine_block b = *near;
    b.d = as_half(d);
    b.m = as_half(m);
    b.cost = 0;
    for (int i = 0; i < N / WIDE; i++)
        b.cost += choose_affine(&b, i, near->s[i], near->t[i]);
    return b;
}

static int units_in(float x, float unit)
{
    return unit > 0 ? clamp((int)(x / unit + 0.5f), 0, MOST_6) : 0;
}

static void fit_block(struct affine_block *b)
{
    float d[N / WIDE], m[N / WIDE], d_max = 0, m_max = 0;
    for (int i = 0; i < N / WIDE; i++) {
        fit_affine(&b->group[i], true, &d[i], &m[i]);
        d_max = larger(d[i], d_max);
        m_max = larger(-m[i], m_max);
    }
    b->d = as_half(d_max / MOST_6);
    b->m = as_half(m_max / MOST_6);
    for (int i = 0; i < N / WIDE; i++) {
        b->s[i] = units_in(d[i], b->d);
        b->t[i] = units_in(-m[i], b->m);
    }
    *b = with_units(b, b->d, b->m);
    for (int round = 0; round < ROUNDS; round++) {
        float unit_d = b->d, unit_m = b->m;
        if (!refit_units(b, &unit_d, &unit_m))
            return;
        struct affine_block next = with_units(b, unit_d, unit_m);
        if (!(next.cost < b->cost))
            return;
        *b = next;
    }
}

/* 12 bytes: s and t of the first four groups in 6 bits, and in their upper 2 bits the high bits
   of the others; then the lower 4 bits of the others, s in the low halves. */
static void put_scales(unsigned char *to, const struct affine_block *b)
{
    for (int i = 0; i < 4; i++) {
        to[i] = (unsigned char)(b->s[i] | b->s[i + 4] >> 4 << 6);
        to[i + 4] = (unsigned char)(b->t[i] | b->t[i + 4] >> 4 << 6);
        to[i + 8] = (unsigned char)((b->s[i + 4] & 15) | (b->t[i + 4] & 15) << 4);
    }
}

/* Two groups share 32 bytes: the first in the low halves. */
static void put_pairs(unsigned char *to, const uint8_t code[N])
{
    for (int i = 0; i < N / 2; i++) {
        const uint8_t *from = code + i / WIDE * 2 * WIDE + i % WIDE;
        to[i] = (unsigned char)((from[0] & 15) | (from[WIDE] & 15) << 4);
    }
}

void codes_q4_k(unsigned char *to, const uint8_t *code) { put_pairs(to + 16, code); }

void codes_q5_k(unsigned char *to, const uint8_t *code)
{
    memset(to + 16, 0, N / 8); /* bit g of byte k: the fifth bit of number k of group g */
    for (int i = 0; i < N; i++)
        to[16 + i % WIDE] |= (unsigned char)(code[i] >> 4 << i / WIDE);
    put_pairs(to + 48, code);
}

/* Writes d, m and the scales, and chooses the codes. */
static void affine_block(unsigned char *to, const float *x, const float *weight, float most,
                         uint8_t code[N])
{
    struct affine_block b;
    for (int i = 0; i < N / WIDE; i++)
        b.group[i] = (struct fit_group){x + i * WIDE, weight + i * WIDE, WIDE, 0, most};
    fit_block(&b);
    tft_store_u16(to, tft_f32_to_f16(b.d));
    tft_store_u16(to + 2, tft_f32_to_f16(b.m));
    put_scales(to + 4, &b);
    for (int i = 0; i < N; i++)
        code[i] = (uint8_t)code_of(&b, i / WIDE, x[i]);
}

void blocks_q4_k(unsigned char *to, const float *x, const float *weight)
{
    uint8_t code[N];
    affine_block(to, x, weight, 15, code);
    codes_q4_k(to, code);
}

void blocks_q5_k(unsigned char *to, const float *x, const float *weight)
{
    uint8_t code[N];
    affine_block(to, x, weight, 31, code);
    codes_q5_k(to, code);
}

/* ---- 16 groups of 16. Q6_K: d s (q - 32), with s of 8 bits; Q3_K: d s (q - 4), s of 6 bits */

enum { NARROW = 16 };

struct scaled_block {
    struct fit_group group[N / NARROW];
    int most; /* s is in -most - 1 .. most */
    float d;
    int s[N / NARROW];
    float cost;
};

static struct scaled_block with_unit(const struct scaled_block *near, float d)
{
    struct scaled_block b = *near;
    b.d = as_half(d);
    b.cost = 0;
    for (int i = 0; i < N / NARROW; i++) {
        float best = INFINITY;
        for (int ds = -1; ds <= 1; ds++) {
            int s = clamp(near->s[i] + ds, -b.most - 1, b.most);
            float cost = fit_cost(&b.group[i], b.d * (float)s, 0);
            if (cost < best) {
                best = cost;
                b.s[i] = s;
            }
        }
        b.cost += best;
    }
    return b;
}

static float code_in(const struct scaled_block *b, int i, float x)
{
    return fit_code(&b->group[i], x, b->d * (float)b->s[i], 0);
}

static float refit_unit(const struct scaled_block *b)
{
    double uu = 0, ux = 0;
    for (int i = 0; i < N / NARROW; i++)
        for (int k = 0; k < NARROW; k++) {
            float x = b->group[i].x[k];
            double u = (double)(code_in(b, i, x) * (float)b->s[i]),
                   wu = (double)b->group[i].weight[k] * u;
            uu += wu * u;
            ux += wu * (double)x;
        }
    return uu > 0 ? (float)(ux / uu) : b->d;
}

static void fit_scaled(struct scaled_block *b)
{
    float d[N / NARROW], largest = 0;
    for (int i = 0; i < N / NARROW; i++) {
        d[i] = fit_scale(&b->group[i]);
        largest = larger(fabsf(d[i]), largest);
    }
    b->d = as_half(largest / (float)b->most);
    for (int i = 0; i < N / NARROW; i++)
        b->s[i] = b->d > 0 ? nearest_within(d[i] / b->d, -b->most - 1, b->most) : 0;
    *b = with_unit(b, b->d);
    for (int round = 0; round < ROUNDS; round++) {
        struct scaled_block next = with_unit(b, refit_unit(b));
        if (!(next.cost < b->cost))
            return;
        *b = next;
    }
}

/* Chooses scales and codes of a block with codes from `least` on. */
static void scaled_block(struct scaled_block *b, const float *x, const float *weight, float least,
                         int most_scale, uint8_t code[N])
{
    for (int i = 0; i < N / NARROW; i++)
        b->group[i] =
            (struct fit_group){x + i * NARROW, weight + i * NARROW, NARROW, least, -least - 1};
    b->most = most_scale;
    fit_scaled(b);
    for (int i = 0; i < N; i++)
        code[i] = (uint8_t)((int)(code_in(b, i / NARROW, x[i]) - least));
}

void codes_q6_k(unsigned char *to, const uint8_t *code)
{
    memset(to, 0, 192);
    for (int i = 0; i < N; i++) {
        /* each half of 128: number k has its nibble in byte k % 64, its high bits in byte k % 32 */
        int k = i % 128, half = i / 128;
        to[64 * half + k % 64] |= (unsigned char)((code[i] & 15) << k / 64 * 4);
        to[128 + 32 * half + k % 32] |= (unsigned char)(code[i] >> 4 << k / 32 * 2);
    }
}

void blocks_q6_k(unsigned char *to, const float *x, const float *weight)
{
    uint8_t code[N];
    struct scaled_block b;
    scaled_block(&b, x, weight, -32, 127, code);
    codes_q6_k(to, code);
    for (int i = 0; i < N / NARROW; i++)
        to[192 + i] = (unsigned char)(int8_t)b.s[i];
    tft_store_u16(to + 208, tft_f32_to_f16(b.d));
}

void codes_q3_k(unsigned char *to, const uint8_t *code)
{
    memset(to, 0, 96);
    for (int i = 0; i < N; i++) {
        /* 8 runs of 32 numbers: bit g of byte k is the third bit of number k of run g, and four
           runs share 32 bytes for their lower bits */
        int k = i % WIDE, g = i / WIDE;
        to[k] |= (unsigned char)(code[i] >> 2 << g);
        to[32 + 32 * (i / 128) + k] |= (unsigned char)((code[i] & 3) << g % 4 * 2);
    }
}

/* 12 bytes: the lower nibbles of s + 32, scale i + 8 above scale i, then the 2 high bits. */
static void put_16_scales(unsigned char *to, const int s[N / NARROW])
{
    memset(to, 0, 12);
    for (int i = 0; i < N / NARROW; i++) {
        to[i % 8] |= (unsigned char)(((s[i] + 32) & 15) << i / 8 * 4);
        to[8 + i % 4] |= (unsigned char)((s[i] + 32) >> 4 << i / 4 * 2);
    }
}

void blocks_q3_k(unsigned char *to, const float *x, const float *weight)
{
    uint8_t code[N];
    struct scaled_block b;
    scaled_block(&b, x, weight, -4, 31, code);
    codes_q3_k(to, code);
    put_16_scales(to + 96, b.s);
    tft_store_u16(to + 108, tft_f32_to_f16(b.d));
}
