/* Cases of the kernels on rows of floats: norms, rope, conversions; and of the limits. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "simd/half.h"

enum { BENCH_N = 2048 };

#define TOL(n) ((n)*0x1p-24)

static void rmsnorm(struct check *c)
{
    CASE(c, "rmsnorm", rmsnorm);
    for (int i = 0; i < 40; i++) {
        size_t n = check_size(c, 2100);
        float *x = check_buf(c, n, 4), *w = check_buf(c, n, 4), *want = check_buf(c, n, 4),
              *got = check_buf(c, n, 4);
        check_fill(c, x, n);
        check_fill(c, w, n);
        ref->rmsnorm(want, x, w, n, 1e-5f);
        now->rmsnorm(got, x, w, n, 1e-5f);
        check_same(c, want, got, n * 4, "n %zu", n);

        double ss = 0;
        for (size_t k = 0; k < n; k++)
            ss += (double)x[k] * (double)x[k];
        for (size_t k = 0; k < n; k++) {
            double exact = (double)x[k] / sqrt(ss / (double)n + 1e-5) * (double)w[k];
            check_near(c, exact, (double)got[k], fabs(exact) + 1e-37, TOL((double)n / 32 + 8),
                       "n %zu", n);
        }
        now->rmsnorm(x, x, w, n, 1e-5f); /* in place */
        check_same(c, want, x, n * 4, "n %zu in place", n);
    }
    float *x = check_buf(c, BENCH_N, 4), *y = check_buf(c, BENCH_N, 4);
    check_fill(c, x, BENCH_N);
    CHECK_TIME(c, "2048", 0, 12.0 * BENCH_N, ref->rmsnorm(y, x, x, BENCH_N, 1e-5f),
               now->rmsnorm(y, x, x, BENCH_N, 1e-5f));
}

static void layernorm(struct check *c)
{
    CASE(c, "layernorm", layernorm);
    for (int i = 0; i < 40; i++) {
        size_t n = check_size(c, 2100);
        float *x = check_buf(c, n, 4), *w = check_buf(c, n, 4), *b = check_buf(c, n, 4);
        float *want = check_buf(c, n, 4), *got = check_buf(c, n, 4);
        for (size_t k = 0; k < n; k++)
            x[k] = check_float(c) + 3;
        check_fill(c, w, n);
        check_fill(c, b, n);
        ref->layernorm(want, x, w, b, n, 1e-5f);
        now->layernorm(got, x, w, b, n, 1e-5f);
        check_same(c, want, got, n * 4, "n %zu", n);

        double mean = 0, var = 0, top = 0;
        for (size_t k = 0; k < n; k++)
            mean += (double)x[k] / (double)n;
        for (size_t k = 0; k < n; k++) {
            var += ((double)x[k] - mean) * ((double)x[k] - mean) / (double)n;
            top = fmax(top, fabs((double)x[k]));
        }
        for (size_t k = 0; k < n; k++) {
            double r = 1 / sqrt(var + 1e-5);
            double exact = ((double)x[k] - mean) * r * (double)w[k] + (double)b[k];
            check_near(c, exact, (double)got[k], fabs(exact) + top * r * fabs((double)w[k]) + 1e-37,
                       TOL((double)n / 16 + 16), "n %zu", n);
        }
        now->layernorm(x, x, w, b, n, 1e-5f);
        check_same(c, want, x, n * 4, "n %zu in place", n);
    }
    float *x = check_buf(c, BENCH_N, 4), *y = check_buf(c, BENCH_N, 4);
    check_fill(c, x, BENCH_N);
    CHECK_TIME(c, "2048", 0, 16.0 * BENCH_N, ref->layernorm(y, x, x, x, BENCH_N, 1e-5f),
               now->layernorm(y, x, x, x, BENCH_N, 1e-5f));
}

static void rope_with(struct check *c, tft_rope_fn *ref, tft_rope_fn *now, bool pairs)
{
    for (int i = 0; i < 40; i++) {
        size_t heads = 1 + check_below(c, 4), n_rot = 2 * check_size(c, 70),
               dim = n_rot + check_below(c, 20);
        float *want = check_buf(c, heads * dim, 4), *got = check_buf(c, heads * dim, 4),
              *x = check_buf(c, heads * dim, 4);
        float *cs = check_buf(c, n_rot, 4), *sn = check_buf(c, n_rot, 4);
        check_fill(c, x, heads * dim);
        for (size_t k = 0; k < n_rot; k++) {
            size_t pair = pairs ? k / 2 : k % (n_rot / 2);
            bool second = pairs ? k & 1 : k >= n_rot / 2;
            cs[k] = (float)cos((double)pair);
            sn[k] = (float)(second ? sin((double)pair) : -sin((double)pair));
        }
        memcpy(want, x, heads * dim * 4);
        memcpy(got, x, heads * dim * 4);
        ref(want, cs, sn, heads, dim, n_rot);
        now(got, cs, sn, heads, dim, n_rot);
        check_same(c, want, got, heads * dim * 4, "%zu heads of %zu, %zu rotated", heads, dim,
                   n_rot);

        for (size_t h = 0; h < heads; h++)
            for (size_t k = 0; k < dim; k++) {
                size_t j = pairs ? k ^ 1 : (k + n_rot / 2) % n_rot,
                       pair = pairs ? k / 2 : k % (n_rot / 2);
                bool second = pairs ? k & 1 : k >= n_rot / 2;
                double a = (double)x[h * dim + k], exact = a, size = fabs(a);
                /* element k and its partner are rotated by the angle `pair` */
                if (k < n_rot) {
                    double b = (double)x[h * dim + j];
                    exact = a * cos((double)pair) + (second ? b : -b) * sin((double)pair);
                    size += fabs(b);
                }
                check_near(c, exact, (double)got[h * dim + k], size + 1e-37, TOL(4),
                           "element %zu of %zu", k, n_rot);
            }
    }
    enum { HEADS = 32, DIM = 64 };
    float *x = check_buf(c, HEADS * DIM, 4), *cs = check_buf(c, DIM, 4), *sn = check_buf(c, DIM, 4);
    check_fill(c, x, HEADS * DIM);
    for (size_t k = 0; k < DIM; k++)
        cs[k] = 0.6f, sn[k] = 0.8f;
    CHECK_TIME(c, "32 heads of 64", 0, 8.0 * HEADS * DIM, ref(x, cs, sn, HEADS, DIM, DIM),
               now(x, cs, sn, HEADS, DIM, DIM));
}

static void rope_pairs(struct check *c)
{
    CASE(c, "rope_pairs", rope_pairs);
    rope_with(c, ref->rope_pairs, now->rope_pairs, true);
}

static void rope_halves(struct check *c)
{
    CASE(c, "rope_halves", rope_halves);
    rope_with(c, ref->rope_halves, now->rope_halves, false);
}

static void softcap(struct check *c)
{
    CASE(c, "softcap", softcap);
    for (int i = 0; i < 60; i++) {
        size_t n = check_size(c, 500);
        float *x = check_buf(c, n, 4), *want = check_buf(c, n, 4), *got = check_buf(c, n, 4);
        float cap = i % 3 == 0 ? 50.0f : i % 3 == 1 ? 30.0f : 0.75f, inverse = 1 / cap;
        check_fill(c, x, n);
        for (size_t k = 0; k < n && i % 2; k++) /* where the two forms meet */
            x[k] = cap * (0.5f + (float)check_below(c, 1000) / 4000) * (k % 3 ? 1 : -1);
        memcpy(want, x, n * 4);
        memcpy(got, x, n * 4);
        ref->softcap(want, n, cap, inverse);
        now->softcap(got, n, cap, inverse);
        check_same(c, want, got, n * 4, "n %zu, cap %g", n, (double)cap);
        for (size_t k = 0; k < n; k++) {
            double exact = (double)cap * tanh((double)x[k] / (double)cap);
            check_near(c, exact, (double)got[k], fabs(exact) + 1e-37, TOL(8), "softcap(%a, %g)",
                       (double)x[k], (double)cap);
        }
    }
    float *x = check_buf(c, BENCH_N, 4);
    check_fill(c, x, BENCH_N);
    CHECK_TIME(c, "2048", 0, 8.0 * BENCH_N, ref->softcap(x, BENCH_N, 50, 0.02f),
               now->softcap(x, BENCH_N, 50, 0.02f));
}

static void add(struct check *c)
{
    CASE(c, "add", add);
    for (int i = 0; i < 20; i++) {
        size_t n = check_size(c, 500);
        float *x = check_buf(c, n, 4), *y = check_buf(c, n, 4), *z = check_buf(c, n, 4);
        check_fill(c, x, n);
        check_fill(c, y, n);
        for (size_t k = 0; k < n; k++)
            z[k] = y[k] + x[k];
        now->add(y, x, n);
        check_same(c, z, y, n * 4, "n %zu", n);
    }
    float *x = check_buf(c, BENCH_N, 4), *y = check_buf(c, BENCH_N, 4);
    memset(x, 0, BENCH_N * 4);
    memset(y, 0, BENCH_N * 4);
    CHECK_TIME(c, "2048", 0, 12.0 * BENCH_N, ref->add(y, x, BENCH_N), now->add(y, x, BENCH_N));
}

static void blend(struct check *c)
{
    CASE(c, "blend", blend);
    for (int i = 0; i < 20; i++) {
        size_t n = check_size(c, 200);
        float *x = check_buf(c, n, 4), *y = check_buf(c, n, 4), *z = check_buf(c, n, 4),
              a = check_float(c), b = check_float(c);
        check_fill(c, x, n);
        check_fill(c, y, n);
        for (size_t k = 0; k < n; k++)
            z[k] = fmaf(x[k], b, y[k] * a);
        now->blend(y, a, x, b, n);
        check_same(c, z, y, n * 4, "n %zu", n);
    }
    float *x = check_buf(c, BENCH_N, 4), *y = check_buf(c, BENCH_N, 4);
    memset(x, 0, BENCH_N * 4);
    memset(y, 0, BENCH_N * 4);
    CHECK_TIME(c, "2048", 0, 12.0 * BENCH_N, ref->blend(y, 1, x, 1, BENCH_N),
               now->blend(y, 1, x, 1, BENCH_N));
}

static void scale(struct check *c)
{
    CASE(c, "scale", scale);
    for (int i = 0; i < 20; i++) {
        size_t n = check_size(c, 200);
        float *y = check_buf(c, n, 4), *z = check_buf(c, n, 4), a = check_float(c);
        check_fill(c, y, n);
        for (size_t k = 0; k < n; k++)
            z[k] = y[k] * a;
        now->scale(y, a, n);
        check_same(c, z, y, n * 4, "n %zu", n);
    }
    float *y = check_buf(c, BENCH_N, 4);
    memset(y, 0, BENCH_N * 4);
    CHECK_TIME(c, "2048", 0, 8.0 * BENCH_N, ref->scale(y, 1, BENCH_N), now->scale(y, 1, BENCH_N));
}

static void widen(struct check *c, const char *name, enum tft_num num)
{
    CASE(c, name, widen[num]);
    for (int i = 0; i < 200; i++) {
        size_t n = check_size(c, 400);
        void *x = check_buf(c, n, tft_num_bytes(num));
        float *want = check_buf(c, n, 4), *got = check_buf(c, n, 4);
        if (num == TFT_NUM_F32)
            check_fill(c, x, n);
        else
            for (size_t k = 0; k < n; k++)
                ((uint16_t *)x)[k] = (uint16_t)check_rand(c);
        for (size_t k = 0; k < n; k++)
            want[k] = num == TFT_NUM_F32   ? ((float *)x)[k]
                      : num == TFT_NUM_F16 ? tft_f16_to_f32(((uint16_t *)x)[k])
                                           : tft_bf16_to_f32(((uint16_t *)x)[k]);
        now->widen[num](got, x, n);
        check_same(c, want, got, n * 4, "n %zu", n);
        if (i % 50 == 49)
            check_free();
    }
    void *x = check_buf(c, BENCH_N, tft_num_bytes(num));
    float *y = check_buf(c, BENCH_N, 4);
    memset(x, 0, BENCH_N * tft_num_bytes(num));
    CHECK_TIME(c, "2048", 0, (4.0 + (double)tft_num_bytes(num)) * BENCH_N,
               ref->widen[num](y, x, BENCH_N), now->widen[num](y, x, BENCH_N));
}

static void narrow(struct check *c, const char *name, enum tft_num num)
{
    CASE(c, name, narrow[num]);
    for (int i = 0; i < 60; i++) {
        size_t n = check_size(c, 400), size = tft_num_bytes(num);
        float *x = check_buf(c, n, 4);
        char *want = check_buf(c, n, size), *got = check_buf(c, n, size);
        for (size_t k = 0; k < n; k++) { /* any exponent; short fractions make ties */
            x[k] = tft_f32_of_bits(check_rand(c) & (check_below(c, 2) ? 0xffffffff : 0xfffff000));
            if (x[k] != x[k])
                x[k] = 1;
        }
        ref->narrow[num](want, x, n);
        now->narrow[num](got, x, n);
        check_same(c, want, got, n * size, "n %zu", n);
        for (size_t k = 0; k < n && num != TFT_NUM_F32; k++) { /* off by at most half a step */
            uint16_t h;
            memcpy(&h, got + 2 * k, 2);
            double back = num == TFT_NUM_F16 ? (double)tft_f16_to_f32(h)
                                             : (double)tft_bf16_to_f32(h);
            double step = num == TFT_NUM_F16 ? fmax(fabs((double)x[k]) * 0x1p-11, 0x1p-25)
                                             : fmax(fabs((double)x[k]) * 0x1p-8, 0x1p-134);
            if (!isinf(back))
                check_near(c, (double)x[k], back, step, 1, "%a", (double)x[k]);
            else
                check_near(c, 1, fabs((double)x[k]) >= (num == TFT_NUM_F16 ? 65520.0 : 0x1.ffp127),
                           1, 0, "%a is not infinite", (double)x[k]);
        }
    }
    float *x = check_buf(c, BENCH_N, 4);
    void *y = check_buf(c, BENCH_N, tft_num_bytes(num));
    memset(x, 0, BENCH_N * 4);
    CHECK_TIME(c, "2048", 0, (4.0 + (double)tft_num_bytes(num)) * BENCH_N,
               ref->narrow[num](y, x, BENCH_N), now->narrow[num](y, x, BENCH_N));
}

/* peak_fma and peak_int8: twice the rounds must be twice the operations. */
static void limits(struct check *c)
{
    static const char *const name[] = {"peak_fma", "peak_int8"};
    for (int i = 0; i < 2; i++) {
        tft_peak_fn *const *member = i ? &c->now->peak_int8 : &c->now->peak_fma;
        if (!check_begin(c, name[i], member))
            continue;
        check_near(c, 2 * (*member)(100), (*member)(200), 1, 0, "operations");
        tft_peak_fn *ref = i ? c->ref->peak_int8 : c->ref->peak_fma, *now = *member;
        CHECK_TIME(c, "1000 rounds", now(1000), 0, ref(1000), now(1000));
    }
}

static void read_all(struct check *c)
{
    CASE(c, "read", read);
    for (size_t n = 64; n <= 640; n += 64) { /* every number counts */
        float *x = check_buf(c, n, 4);
        memset(x, 0, n * 4);
        for (size_t k = 0; k < n; k++) {
            x[k] = 1;
            check_near(c, 1, (double)now->read(x, n), 1, 0, "%zu of %zu", k, n);
            x[k] = 0;
        }
    }
    float *x = check_buf(c, 1 << 20, 4);
    memset(x, 0, 4 << 20);
    CHECK_TIME(c, "4 MiB", 0, 4 << 20, ref->read(x, 1 << 20), now->read(x, 1 << 20));
}

void check_rows(struct check *c)
{
    limits(c);
    read_all(c);
    rmsnorm(c);
    layernorm(c);
    rope_pairs(c);
    rope_halves(c);
    softcap(c);
    add(c);
    blend(c);
    scale(c);
    widen(c, "widen_f32", TFT_NUM_F32);
    widen(c, "widen_f16", TFT_NUM_F16);
    widen(c, "widen_bf16", TFT_NUM_BF16);
    narrow(c, "narrow_f32", TFT_NUM_F32);
    narrow(c, "narrow_f16", TFT_NUM_F16);
    narrow(c, "narrow_bf16", TFT_NUM_BF16);
}
