/* Cases of fit and widen_f8: from floats to codes, and from E4M3 scales to floats. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "simd/half.h"

/* ------------------------------------------------------------------------------------------ fit */

static const float CLIPS[TFT_FIT_LISTS][5] = {
    {1, 0.6f, 0.4f, 0.3f, 0.2f}, {1, 0.8f, 0.7f, 0.5f, 0.4f}, {1, 0.95f, 0.9f, 0.8f, 0.7f}};
#define CLIP_LISTS {CLIPS[0], CLIPS[1], CLIPS[2]}

/* Returns the squared error of one group, in doubles. Fails where another code would be nearer to
   the number. */
static double exact_fit(struct check *c, const float *x, size_t ldx, const uint8_t *code,
                        size_t ldc, size_t n, float scale, float mid, float half)
{
    double error = 0;
    for (size_t k = 0; k < n; k++) {
        double v = (double)x[k * ldx], exact = (v - (double)mid) / (double)scale + (double)half,
               b = code[k * ldc];
        exact = fmin(fmax(exact, 0), 2 * (double)half);
        if (scale >= FLT_MIN)
            check_near(c, exact, b, 1, 0.5 + 0x1p-14, "code of %a, scale %a, middle %a", v,
                       (double)scale, (double)mid);
        double e = v - ((b - (double)half) * (double)scale + (double)mid);
        error += e * e;
    }
    return error;
}

/* Fails unless scale and mid are right for a group clipped to `clip`, within the rounding of their
   storage. */
static void exact_scale(struct check *c, const float *x, size_t ldx, size_t n, double half,
                        double clip, const struct tft_fit *how, float scale, float mid)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < n; k++) {
        low = fmin(low, (double)x[k * ldx]);
        high = fmax(high, (double)x[k * ldx]);
    }
    double s = (high - low) * clip / (2 * half), m = (high + low) / 2 * (how->to_zero ? clip : 1),
           size = fmax(fabs(low), fabs(high));
    double s_max = how->f8 ? 448 * (double)how->scale_unit : 65504,
           m_max = how->f8 ? 448 * (double)how->mid_unit : 65504;
    double last = how->f8 ? 0x1p-4 : 0x1p-11,
           s_least = how->f8 ? 0x1p-10 * (double)how->scale_unit : 0x1p-25;
    double m_least = how->f8 ? 0x1p-10 * (double)how->mid_unit : 0x1p-25;
    s = fmin(s, s_max);
    m = fmin(fmax(m, -m_max), m_max);
    check_near(c, s, (double)scale, 1, fmax(s * last, s_least) + size * 0x1p-22,
               "scale of %zu, clip %g", n, clip);
    check_near(c, m, (double)mid, 1, fmax(fabs(m) * last, m_least) + size * 0x1p-22,
               "middle of %zu, clip %g", n, clip);
}

static void against_fit(struct check *c, const float *x, size_t ldx, const uint8_t *code,
                        size_t ldc, size_t n, const float *scale, const float *mid,
                        const float *half, const struct tft_fit *how)
{
    uint8_t *other = check_buf(c, n * 16, 1);
    float s[16], m[16];
    for (size_t i = 0; i < how->n_clip; i++) { /* no other clip is better */
        struct tft_fit one = *how;
        for (int l = 0; l < TFT_FIT_LISTS; l++)
            one.clip[l] = &how->clip[l][i];
        one.n_clip = 1;
        c->now->fit(&(struct tft_fit_groups){other, 16, s, m, x, ldx, n, half}, &one);
        for (size_t g = 0; g < 16; g++) {
            double clip = (double)how->clip[half[g] < 1 ? 0 : half[g] < 1.5f ? 1 : 2][i];
            exact_scale(c, x + g, ldx, n, (double)half[g], clip, how, s[g], m[g]);
            double size = 0,
                   taken = exact_fit(c, x + g, ldx, code + g, ldc, n, scale[g], mid[g], half[g]);
            double tried = exact_fit(c, x + g, ldx, other + g, 16, n, s[g], m[g], half[g]);
            for (size_t k = 0; k < n; k++)
                size += (double)x[k * ldx + g] * (double)x[k * ldx + g];
            check_near(c, fmin(taken, tried), taken, size + tried, (double)n * 0x1p-22,
                       "group %zu, clip %g", g, clip);
        }
    }
}

static void fit_shape(struct check *c, size_t n, size_t n_clip, bool f8, bool to_zero, bool special)
{
    size_t ldx = 16 + check_below(c, 3) * 16, ldc = 16 + check_below(c, 3);
    float *x = check_buf(c, (n - 1) * ldx + 16, 4), *half = check_buf(c, 16, 4);
    float *scale = check_buf(c, 2 * 16, 4), *mid = check_buf(c, 2 * 16, 4);
    uint8_t *code[2] = {check_buf(c, (n - 1) * ldc + 16, 1), check_buf(c, (n - 1) * ldc + 16, 1)};
    struct tft_fit how = {CLIP_LISTS, n_clip, to_zero, f8, 0x1p-6f, 0x1p-4f};
    check_fill(c, x, (n - 1) * ldx + 16);
    for (size_t i = 0; i < 16; i++)
        half[i] = (float)(tft_bits_levels((enum tft_bits)check_below(c, TFT_BITS_COUNT)) - 1) / 2;
    /* groups 0 to 3: equal numbers, zeros, numbers far from 0, and too small ones */
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < 4; i++) {
            float *v = &x[k * ldx + i];
            *v = i == 0 ? x[0] : i == 1 ? 0 : i == 2 ? *v + 100 : *v * 1e-20f;
        }
    if (special)
        for (size_t i = 4; i < 10; i++) {
            static const float numbers[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, NAN};
            x[(i < 9 ? check_below(c, n) : 0) * ldx + i] = numbers[i - 4];
        }
    for (size_t i = 0; i < 2; i++) {
        memset(code[i], 0, (n - 1) * ldc + 16);
        struct tft_fit_groups g = {code[i], ldc, scale + 16 * i, mid + 16 * i, x, ldx, n, half};
        (i ? c->now : c->ref)->fit(&g, &how);
    }
    check_same(c, code[0], code[1], (n - 1) * ldc + 16,
               "codes of %zu, %zu clips, f8 %d, to zero %d", n, n_clip, f8, to_zero);
    check_same(c, scale, scale + 16, 64, "scales of %zu, %zu clips, f8 %d, to zero %d", n, n_clip,
               f8, to_zero);
    check_same(c, mid, mid + 16, 64, "middles of %zu, %zu clips, f8 %d, to zero %d", n, n_clip, f8,
               to_zero);
    /* storing them in the cache loses nothing */
    for (size_t i = 0; i < 16; i++) {
        float s = scale[i], m = mid[i];
        float s2 = f8 ? tft_f8_to_f32(tft_f32_to_f8(s / how.scale_unit)) * how.scale_unit
                      : tft_f16_to_f32(tft_f32_to_f16(s));
        float m2 = f8 ? tft_f8_to_f32(tft_f32_to_f8(m / how.mid_unit)) * how.mid_unit
                      : tft_f16_to_f32(tft_f32_to_f16(m));
        check_same(c, &s2, &s, 4, "scale %a, stored", (double)s);
        check_same(c, &m2, &m, 4, "middle %a, stored", (double)m);
    }
    if (!special && !c->below)
        against_fit(c, x, ldx, code[1], ldc, n, scale, mid, half, &how);
    check_free();
}

static void fit(struct check *c)
{
    CASE(c, "fit", fit);
    for (size_t i = 0; i < 160; i++)
        fit_shape(c, i < 8 ? 1 : 1 + check_below(c, 130), 1 + check_below(c, 5), i & 1, i & 2,
                  i & 4);

    enum { N = 64 };
    float *x = check_buf(c, N * 16, 4), half[16], scale[16], mid[16];
    uint8_t *code = check_buf(c, N * 16, 1);
    check_fill(c, x, N * 16);
    for (size_t i = 0; i < 16; i++)
        half[i] = 1.5f;
    struct tft_fit_groups g = {code, 16, scale, mid, x, 16, N, half};
    struct tft_fit how = {CLIP_LISTS, 1, false, false, 1, 1};
    CHECK_TIME(c, "64 x 16", 0, 5.0 * 16 * N, ref->fit(&g, &how), now->fit(&g, &how));
    how.n_clip = 5;
    CHECK_TIME(c, "64 x 16, 5 clips", 0, 5.0 * 16 * N,
               ref->fit(&g, &how), now->fit(&g, &how));
    how.f8 = how.to_zero = true;
    CHECK_TIME(c, "64 x 16, 5 clips, f8", 0, 5.0 * 16 * N,
               ref->fit(&g, &how), now->fit(&g, &how));
}

/* ------------------------------------------------------------------------------------- widen_f8 */

/* The value of every byte follows from its sign, exponent and fraction, and every number becomes
   the nearest byte, at a tie the even one. */
static void f8_numbers(struct check *c)
{
    double value[256];
    for (int b = 0; b < 256; b++) {
        int e = b >> 3 & 15, f = b & 7;
        value[b] = (e ? ldexp(1 + f / 8.0, e - 7) : ldexp(f / 8.0, -6)) * (b & 128 ? -1 : 1);
        if ((b & 127) != 127)
            check_near(c, value[b], (double)tft_f8_to_f32((uint8_t)b), 1, 0, "byte %d", b);
        check_near(c, (b & 127) == 127, isnan(tft_f8_to_f32((uint8_t)b)), 1, 0,
                   "byte %d is NaN", b);
        if ((b & 127) != 127)
            check_near(c, b, tft_f32_to_f8(tft_f8_to_f32((uint8_t)b)), 1, 0,
                       "byte %d, to a float and back", b);
    }
    /* of both signs, with ties */
    for (uint32_t bits = 0; bits < 0x7f800000; bits += 0x3fff1 >> (check_rand(c) & 15)) {
        for (int tie = 0; tie < 2; tie++) {
            float x = tft_f32_of_bits((tie ? bits & 0xfff80000 : bits) |
                                      (check_rand(c) & 0x80000000));
            int b = tft_f32_to_f8(x), at = b & 127;
            double size = fabs((double)x), miss = fabs(value[at] - size);
            double below = at ? size - value[at - 1] : INFINITY,
                   above = at < 126 ? value[at + 1] - size : INFINITY;
            bool best = at < 127 && miss <= below && miss <= above &&
                        (!(at & 1) || (miss < below && miss < above));
            check_near(c, 1, best, 1, 0, "%a becomes byte %d", (double)x, b);
            check_near(c, !!signbit(x), b >> 7, 1, 0, "sign of %a", (double)x);
        }
    }
    check_near(c, 127, tft_f32_to_f8(NAN) & 127, 1, 0, "NaN");
    check_near(c, 126, tft_f32_to_f8(INFINITY), 1, 0, "infinity");
}

static void widen_f8(struct check *c)
{
    CASE(c, "widen_f8", widen_f8);
    if (!c->below)
        f8_numbers(c);
    for (int i = 0; i < 100; i++) {
        size_t n = i ? check_size(c, 300) : 256;
        uint8_t *x = check_buf(c, n, 1);
        float *want = check_buf(c, n, 4), *got = check_buf(c, n, 4),
              unit = ldexpf(1, (int)check_below(c, 40) - 20);
        for (size_t k = 0; k < n; k++) {
            x[k] = (uint8_t)(i ? check_rand(c) : k);
            want[k] = tft_f8_to_f32(x[k]) * unit;
        }
        now->widen_f8(got, x, n, unit);
        check_same_floats(c, want, got, n, "bytes");
        check_free();
    }
    enum { N = 2048 };
    uint8_t *x = check_buf(c, N, 1);
    float *y = check_buf(c, N, 4);
    for (size_t k = 0; k < N; k++)
        x[k] = (uint8_t)check_rand(c);
    CHECK_TIME(c, "2048", 0, 5.0 * N, ref->widen_f8(y, x, N, 2), now->widen_f8(y, x, N, 2));
}

void check_fit(struct check *c)
{
    fit(c);
    widen_f8(c);
}
