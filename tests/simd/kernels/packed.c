/* Cases of gemm_packed, unpack and quantize_groups: every packing that there is. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "simd/half.h"
#include "weights/packed.h"

/* An f16 of about normal size; sometimes 0, subnormal or huge. */
static uint16_t factor(struct check *c)
{
    switch (check_below(c, 20)) {
    case 0: return 0;
    case 1: return (uint16_t)check_below(c, 0x400);
    case 2: return 0x7bff;
    default: return (uint16_t)(check_below(c, 2) << 15 | (0x1000 + check_below(c, 0x3000)));
    }
}

/* N rows of K columns: every byte is a possible code, scale or index. */
static uint8_t *weights(struct check *c, const struct tft_packing *p, size_t N, size_t K)
{
    size_t record = tft_packed_record(p), size = tft_panel_rows(N) / TFT_PANEL * K / p->block,
           factors = tft_packed_factor_bytes(p), halves = p->exponent ? 0 : factors / 2;
    int extreme = (int)check_below(c, 6); /* the largest sums */
    uint8_t *w = check_buf(c, size * record, 1);
    for (size_t i = 0; i < size * record; i++)
        w[i] = extreme == 0 ? 0 : extreme == 1 ? 255 : (uint8_t)check_rand(c);
    for (size_t i = 0; i < size; i++) {
        for (size_t h = 0; h < halves; h++)
            memcpy(w + i * record + 2 * h, &(uint16_t){factor(c)}, 2);
        for (size_t r = 0; r < TFT_PANEL && p->exponent; r++) /* not so large that sums overflow */
            w[i * record + r] = (uint8_t)check_below(c, 160);
        for (size_t s = 0; s < tft_packed_scale_bytes(p) && p->scales == TFT_SCALES_F8; s++)
            if ((w[i * record + s] & 0x7f) == 0x7f) /* NaN */
                w[i * record + s]--;
    }
    return w;
}

static size_t columns(struct check *c, const struct tft_packing *p)
{
    return p->block * (1 + check_below(c, 1280 / p->block));
}

/* Rows of groups, ldx bytes apart. */
static uint8_t *tokens(struct check *c, size_t M, size_t K, size_t ldx)
{
    uint8_t *x = check_buf(c, M ? (M - 1) * ldx + tft_groups_bytes(K) : 0, 1);
    float *row = check_buf(c, K, sizeof *row);
    for (size_t m = 0; m < M; m++) {
        check_fill(c, row, K);
        if (check_below(c, 8) == 0) /* the largest sums */
            for (size_t k = 0; k < K; k++)
                row[k] = 3;
        c->ref->quantize_groups(x + m * ldx, K, 0, row, K);
    }
    return x;
}

/* ---- unpack */

static void unpack(struct check *c)
{
    CASE(c, "unpack", unpack);
    for (size_t f = 0; f < TFT_PACKED_FORMATS; f++)
        for (int i = 0; i < 4; i++) {
            const struct tft_packing *p = tft_packed_formats[f].packing;
            size_t K = columns(c, p), n = K / p->group * TFT_PANEL;
            uint8_t *w = weights(c, p, TFT_PANEL, K), *number[2];
            float *scale[2], *min[2];
            for (int j = 0; j < 2; j++) {
                number[j] = check_buf(c, K * TFT_PANEL, 1);
                scale[j] = check_buf(c, n, sizeof(float));
                min[j] = check_buf(c, n, sizeof(float));
                struct tft_unpack u = {number[j], scale[j], min[j], p, w, K};
                (j ? now : ref)->unpack(&u);
            }
            const char *name = tft_packed_formats[f].name;
            uint8_t over = 0;
            for (size_t k = 0; k < K * TFT_PANEL; k++)
                over |= (uint8_t)(number[0][k] >> p->bits);
            check_same(c, &(uint8_t){0}, &over, 1, "numbers of %s, above 2^bits", name);
            check_same(c, number[0], number[1], K * TFT_PANEL, "numbers of %s, K %zu", name, K);
            check_same(c, scale[0], scale[1], n * sizeof(float), "scales of %s, K %zu", name, K);
            check_same(c, min[0], min[1], n * sizeof(float), "minima of %s, K %zu", name, K);
            check_free();
        }
}

/* ---- gemm_packed */

struct product {
    const struct tft_format *f;
    size_t M, N, K, ldx, ldy;
    const uint8_t *x, *w;
    const float *bias;
    bool add;
};

static void multiply(const struct product *o, tft_gemm_packed_fn *gemm, float *y)
{
    gemm(&(struct tft_gemm_packed){y, o->ldy, o->x, o->ldx, o->f->packing, o->w, o->bias, o->add,
                                   o->M, o->N, o->K});
}

/* A result has K / 16 terms, each rounded a few times. */
static void against_double(struct check *c, const struct product *o, const float *before,
                           const float *y)
{
    const struct tft_packing *p = o->f->packing;
    uint8_t *number = check_buf(c, o->K * TFT_PANEL, 1);
    float *scale = check_buf(c, o->K, sizeof *scale), *min = check_buf(c, o->K, sizeof *min);
    for (size_t n = 0; n < o->N; n++) {
        if (n % TFT_PANEL == 0)
            c->ref->unpack(&(struct tft_unpack){number, scale, min, p,
                                                o->w + n / TFT_PANEL * tft_packed_panel(p, o->K),
                                                o->K});
        for (size_t m = 0; m < o->M; m++) {
            const uint8_t *x = o->x + m * o->ldx;
            double bias = o->bias ? (double)o->bias[n] : 0,
                   old = o->add ? (double)before[m * o->ldy + n] : 0, sum = old + bias,
                   size = fabs(old) + fabs(bias) + 1e-37;
            for (size_t k = 0; k < o->K; k++) {
                size_t g = k / p->group * TFT_PANEL + n % TFT_PANEL;
                int w = number[tft_panel_at(n % TFT_PANEL, k, o->K)] - p->zero;
                double value = (double)scale[g] * w - (p->has_min ? (double)min[g] : 0),
                       v = (int8_t)x[k] * (double)tft_groups_step(x, o->K)[k / 32];
                sum += value * v;
                size += (fabs((double)scale[g] * w) + (p->has_min ? fabs((double)min[g]) : 0)) *
                        fabs(v);
            }
            check_near(c, sum, (double)y[m * o->ldy + n], size,
                       ((double)o->K / 8 + 5) * 0x1p-24, "%s: token %zu row %zu of %zu x %zu x %zu",
                       o->f->name, m, n, o->M, o->N, o->K);
        }
    }
}

static void one_product(struct check *c, const struct tft_format *f, size_t M, size_t N, size_t K)
{
    struct product o = {.f = f, .M = M, .N = N, .K = K, .add = check_below(c, 2)};
    o.ldx = tft_groups_bytes(K) + 4 * check_below(c, 5);
    o.ldy = N + check_below(c, 4);
    size_t ny = M ? (M - 1) * o.ldy + N : 0;
    o.w = weights(c, f->packing, N, K);
    o.x = tokens(c, M, K, o.ldx);
    float *bias = check_buf(c, N, 4), *before = check_buf(c, ny, 4), *want = check_buf(c, ny, 4),
          *got = check_buf(c, ny, 4);
    check_fill(c, bias, N);
    check_fill(c, before, ny);
    o.bias = check_below(c, 2) ? bias : NULL;
    memcpy(want, before, ny * 4);
    memcpy(got, before, ny * 4);
    multiply(&o, c->ref->gemm_packed, want);
    multiply(&o, c->now->gemm_packed, got);
    check_same(c, want, got, ny * 4, "%s: M %zu N %zu K %zu bias %d add %d", f->name, M, N, K,
               o.bias != NULL, o.add);
    if (!c->below)
        against_double(c, &o, before, got);
    check_free();
}

/* Times a shape. Weights and tokens are random. */
static void bench(struct check *c, const struct tft_format *f, size_t M, size_t N, size_t K)
{
    const struct tft_kernels *ref = c->ref, *now = c->now;
    float *y = check_buf(c, M * N, sizeof *y);
    struct product o = {.f = f, .M = M, .N = N, .K = K, .ldx = tft_groups_bytes(K), .ldy = N};
    o.w = weights(c, f->packing, N, K);
    o.x = tokens(c, M, K, o.ldx);
    char what[64];
    snprintf(what, sizeof what, "%s %zu x %zu x %zu", f->name, M, N, K);
    CHECK_TIME(c, what, 2.0 * (double)(M * N * K),
               (double)(N / TFT_PANEL * tft_packed_panel(f->packing, K)),
               multiply(&o, ref->gemm_packed, y), multiply(&o, now->gemm_packed, y));
    check_free();
}

static void gemm_packed(struct check *c)
{
    CASE(c, "gemm_packed", gemm_packed);
    for (size_t f = 0; f < TFT_PACKED_FORMATS; f++) {
        const struct tft_format *format = &tft_packed_formats[f];
        for (size_t M = 0; M <= 14; M++) /* every tile */
            one_product(c, format, M, check_size(c, 50), columns(c, format->packing));
        for (size_t M = 1; M <= 14; M += 1 + f % 3) /* whole panels, several ranges of columns */
            one_product(c, format, M, 32 + 16 * (M % 2), 1024 + format->packing->block);
        one_product(c, format, 20, 37, 2048);
        for (size_t M = 1; M <= 5; M++) /* a few tokens go through 64 rows at a time */
            if (c->thorough || M == 1 || M == 2 + f % 4)
                one_product(c, format, M, 64 + check_size(c, 150), columns(c, format->packing));
    }
    for (size_t f = 0; c->bench && f < TFT_PACKED_FORMATS; f++) {
        bench(c, &tft_packed_formats[f], 1, 32000, 2048);
        bench(c, &tft_packed_formats[f], 512, 2048, 2048);
    }
    (void)ref, (void)now;
}

/* ---- quantize_groups */

static void quantize_groups(struct check *c)
{
    CASE(c, "quantize_groups", quantize_groups);
    for (int i = 0; i < 60; i++) {
        size_t n = 32 * check_below(c, 30), bytes = tft_groups_bytes(n);
        float *x = check_buf(c, n, 4);
        uint8_t *want = check_buf(c, bytes, 1), *got = check_buf(c, bytes, 1);
        check_fill(c, x, n);
        for (size_t k = 0; k < n; k++)
            switch (check_below(c, i % 4 ? 1000 : 40)) {
            case 0: x[k] = NAN; break;
            case 1: x[k] = INFINITY; break;
            case 2: x[k] *= 1e30f; break;
            case 3: memset(x + k / 32 * 32, 0, 32 * sizeof *x); break;
            default: break;
            }
        ref->quantize_groups(want, n, 0, x, n);
        size_t part = 32 * check_below(c, n / 32 + 1); /* in two parts, the last one first */
        now->quantize_groups(got, n, part, x + part, n - part);
        now->quantize_groups(got, n, 0, x, part);
        check_same(c, want, got, bytes, "n %zu", n);
        for (size_t k = 0; k < n; k++) {
            double step = (double)tft_groups_step(got, n)[k / 32], v = (int8_t)got[k] * step;
            if (isfinite(x[k]) && step > 0)
                check_near(c, (double)x[k], v, step, 0.5 + 1e-5, "number %zu of %zu", k, n);
        }
        for (size_t k = 0; k < n; k += 16) {
            int32_t sum16 = 0, sum32 = 0;
            for (size_t j = 0; j < 16; j++)
                sum16 -= (int8_t)got[k + j];
            for (size_t j = 0; j < 32; j++)
                sum32 -= (int8_t)got[k / 32 * 32 + j];
            check_same(c, &sum16, tft_groups_minus(got, n, 16) + k / 16, 4, "sum at %zu", k);
            check_same(c, &sum32, tft_groups_minus(got, n, 32) + k / 32, 4, "sum of 32 at %zu", k);
            float step = tft_groups_step(got, n)[k / 32], fall16 = (float)sum16 * step,
                  fall32 = (float)sum32 * step;
            check_same(c, &fall16, tft_groups_fall(got, n, 16) + k / 16, 4, "fall at %zu", k);
            check_same(c, &fall32, tft_groups_fall(got, n, 32) + k / 32, 4, "fall of 32 at %zu", k);
        }
    }
    enum { N = 2048 };
    float *x = check_buf(c, N, 4);
    uint8_t *y = check_buf(c, tft_groups_bytes(N), 1);
    check_fill(c, x, N);
    CHECK_TIME(c, "2048", 0, 5.0 * N, ref->quantize_groups(y, N, 0, x, N),
               now->quantize_groups(y, N, 0, x, N));
}

void check_packed(struct check *c)
{
    unpack(c);
    gemm_packed(c);
    quantize_groups(c);
}
