/* Cases of gemm_i8, and of the kernels with bytes as result, hadamard and range. */
#include "data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TOL(n) ((n)*0x1p-24)

/* -------------------------------------------------------------------------------------- gemm_i8 */

static void run(const struct check_product *o, tft_gemm_i8_fn *gemm, float *y)
{
    gemm(&(struct tft_gemm_i8){y, o->ldy, o->x, o->ldx, o->xq, o->step, &o->w, o->bias, o->add,
                               o->M, o->N, o->used});
}

/* The integer sum is exact; scale, product, bias and final sum are rounded once each. */
static void against_exact(struct check *c, const struct check_product *o, const float *y)
{
    for (size_t m = 0; m < o->M; m++)
        for (size_t n = 0; n < o->N; n++) {
            struct tft_affine q = o->xq[m * o->step];
            int64_t d = 0;
            for (size_t k = 0; k < o->cols; k++)
                d += (o->x[m * o->ldx + k] - q.zero) *
                     (int64_t)o->w.data[tft_panel_at(n, k, o->cols)];
            double v = (double)d * (double)q.scale * (double)o->w.scale[n], size = fabs(v),
                   bias = o->bias ? (double)o->bias[n] : 0;
            double old = o->add ? (double)o->y[m * o->ldy + n] : 0;
            size += fabs(bias) + fabs(old) + 1e-37;
            check_near(c, v + bias + old, (double)y[m * o->ldy + n], size, TOL(5),
                       "token %zu row %zu of %zu x %zu x %zu", m, n, o->M, o->N, o->cols);
        }
}

static void one_shape(struct check *c, size_t M, size_t N, size_t cols, size_t byte_kind,
                      size_t weight_kind)
{
    struct check_product o = check_product(c, M, N, cols, byte_kind, weight_kind);
    size_t ny = M ? (M - 1) * o.ldy + N : 0;
    float *want = check_buf(c, ny, 4), *got = check_buf(c, ny, 4);
    memcpy(want, o.y, ny * 4);
    memcpy(got, o.y, ny * 4);
    run(&o, c->ref->gemm_i8, want);
    run(&o, c->now->gemm_i8, got);
    check_same(c, want, got, ny * 4, "M %zu N %zu cols %zu step %zu bias %d add %d", M, N, cols,
               o.step, o.bias != NULL, o.add);
    if (!c->below)
        against_exact(c, &o, got);
    check_free();
}

/* Times a shape. x and w are random, because multipliers may be faster on zeros. `each`: tokens
   have scales of their own, as in attention. */
static void bench(struct check *c, size_t M, size_t N, size_t K, bool each)
{
    const struct tft_kernels *ref = c->ref, *now = c->now;
    size_t rows = tft_panel_rows(N);
    uint8_t *x = check_buf(c, M * K, 1);
    int8_t *data = check_buf(c, rows * K, 1);
    float *y = check_buf(c, M * N, 4), *scale = check_buf(c, rows, 4);
    int32_t *rowsum = check_buf(c, rows, 4);
    struct tft_affine *q = check_buf(c, each ? M : 1, sizeof *q);
    struct tft_panels w = {data, scale, rowsum, K};
    for (size_t i = 0; i < (each ? M : 1); i++)
        q[i] = (struct tft_affine){1, 1, 128};
    for (size_t i = 0; i < M * K; i++)
        x[i] = check_byte(c, 2);
    for (size_t i = 0; i < rows * K; i++)
        data[i] = check_weight(c, 3);
    memset(scale, 0, rows * 4);
    memset(rowsum, 0, rows * 4);
    char what[40];
    snprintf(what, sizeof what, "%zu x %zu x %zu", M, N, K);
    struct tft_gemm_i8 g = {
        .y = y, .ldy = N, .x = x, .ldx = K, .xq = q, .xq_step = each, .w = &w, .M = M, .N = N};
    CHECK_TIME(c, what, 2.0 * (double)(M * N * K), (double)(N * K), ref->gemm_i8(&g),
               now->gemm_i8(&g));
}

static void gemm_i8(struct check *c)
{
    if (!check_begin(c, "gemm_i8", &c->now->gemm_i8))
        return;
    for (size_t M = 0; M <= 40; M++) /* every tile */
        one_shape(c, M, check_size(c, 70), 16 * check_size(c, 12), check_below(c, 6),
                  check_below(c, 6));
    for (int i = 0; i < 30; i++)
        one_shape(c, check_size(c, 40), check_size(c, 100), 16 * check_size(c, 20),
                  check_below(c, 6), check_below(c, 6));
    for (size_t kind = 0; kind < 6; kind++) /* the largest sums: positive, negative and mixed */
        one_shape(c, 1 + check_below(c, 14), 17, 8192, kind % 2, kind / 2);
    one_shape(c, 2, 16, TFT_PANEL_MAX_K, 1, 1);
    one_shape(c, 1, 16, TFT_PANEL_MAX_K, 1, 0);
    one_shape(c, 9, 16, TFT_PANEL_MAX_K, 1, 1);
    one_shape(c, 100, 40, 12000, 2, 3); /* several blocks of tokens */
    one_shape(c, 99, 150, 368, 2, 3);   /* several blocks of panels and columns */
    one_shape(c, 131, 273, 1072, 2, 3); /* and of all three */
    one_shape(c, 265, 40, 1104, 2, 3);  /* few tokens behind the largest block */
    one_shape(c, 300, 33, 80, 2, 3);

    /* M, N, K: prompts in the shapes of small models; one token with weights in memory and in the
       caches; a few tokens at once. Then the two products of attention with 9 heads over 3 */
    static const size_t shape[][3] = {{512, 4864, 896}, {512, 2048, 2048}, {512, 896, 4864},
                                      {512, 1536, 576}, {512, 576, 1536},  {1, 32000, 2048},
                                      {1, 4864, 896},   {4, 2048, 2048},   {8, 2048, 2048},
                                      {30, 256, 64},    {30, 64, 256}};
    for (size_t i = 0; c->bench && i < sizeof shape / sizeof *shape; i++)
        bench(c, shape[i][0], shape[i][1], shape[i][2], shape[i][0] == 30);
}

/* ----------------------------------------------------------------------------- results in bytes */

enum { BENCH_N = 2048 };

/* q(v) as kernels.h defines it, computed in doubles. At a tie of rounding either neighbour is
   right. */
static void near_byte(struct check *c, double v, const struct tft_affine *q, double slack,
                      uint8_t got)
{
    double t = v * (double)q->inverse, low = -q->zero, high = 255 - q->zero;
    double exact = fmin(fmax(t, low), high) + q->zero;
    check_near(c, exact, got, 1, 0.5 + slack * (fabs(t) + 1), "%g by %g zero %d", v,
               (double)q->scale, (int)q->zero);
}

static void quantize(struct check *c)
{
    CASE(c, "quantize", quantize);
    for (int i = 0; i < 60; i++) {
        size_t n = check_size(c, 500);
        float *x = check_buf(c, n, 4);
        uint8_t *want = check_buf(c, n, 1), *got = check_buf(c, n, 1);
        struct tft_affine q = check_affine(c);
        for (size_t k = 0; k < n; k++)
            switch (check_below(c, 8)) {
            case 0: x[k] = q.scale * ((float)check_below(c, 600) - 300 + 0.5f); break; /* ties */
            case 1: x[k] = check_float(c) * 1e30f; break;
            default: x[k] = check_float(c) * 200 * q.scale;
            }
        ref->quantize(want, x, n, &q);
        now->quantize(got, x, n, &q);
        check_same(c, want, got, n, "n %zu scale %a zero %d", n, (double)q.scale, (int)q.zero);
        for (size_t k = 0; k < n; k++)
            near_byte(c, (double)x[k], &q, TOL(2), got[k]);
    }

    /* NaN and infinity become bytes too */
    static const float special[] = {NAN,    -NAN,   INFINITY, -INFINITY, -0.0f, 3e38f,
                                    -3e38f, 1e-40f, 0.5f,     1.5f,      2.5f,  -0.5f};
    enum { SPECIAL = sizeof special / sizeof *special, FIRST = 3 };
    float *x = check_buf(c, 32, 4);
    uint8_t *y = check_buf(c, 32, 1);
    struct tft_affine q = {1, 1, 100};
    static const uint8_t want[SPECIAL] = {0, 0, 255, 0, 100, 255, 0, 100, 100, 102, 102, 100};
    for (size_t n = SPECIAL + FIRST; n <= 32; n++) {
        memset(x, 0, 32 * 4);
        memcpy(x + FIRST, special, sizeof special);
        now->quantize(y, x, n, &q);
        check_same(c, want, y + FIRST, SPECIAL, "special numbers, n %zu", n);
    }

    x = check_buf(c, BENCH_N, 4), y = check_buf(c, BENCH_N, 1);
    check_fill(c, x, BENCH_N);
    CHECK_TIME(c, "2048", 0, 5.0 * BENCH_N, ref->quantize(y, x, BENCH_N, &q),
               now->quantize(y, x, BENCH_N, &q));
}

/* The four _u8 kernels must return q of the reference float kernel's result, which the cases of
   rows.c compare with doubles. */
struct rows {
    size_t n;
    float *a, *b, *bias, *floats; /* floats: the result before q */
    uint8_t *want, *got;
    struct tft_affine q;
};

static struct rows rows(struct check *c, size_t n)
{
    struct rows r = {n,
                     check_buf(c, n, 4),
                     check_buf(c, n, 4),
                     check_buf(c, n, 4),
                     check_buf(c, n, 4),
                     check_buf(c, n, 1),
                     check_buf(c, n, 1),
                     check_affine(c)};
    check_fill(c, r.a, n);
    check_fill(c, r.b, n);
    check_fill(c, r.bias, n);
    r.q.scale *= 0.02f; /* so that many different bytes occur */
    r.q.inverse = 1 / r.q.scale;
    return r;
}

static void same_bytes(struct check *c, const struct rows *r)
{
    c->ref->quantize(r->want, r->floats, r->n, &r->q);
    check_same(c, r->want, r->got, r->n, "n %zu scale %a zero %d", r->n, (double)r->q.scale,
               (int)r->q.zero);
}

#define BYTES_CASE(name, float_args, byte_args, bytes)                                             \
    static void name(struct check *c)                                                              \
    {                                                                                              \
        CASE(c, #name "_u8", name##_u8);                                                           \
        for (int i = 0; i < 30; i++) {                                                             \
            struct rows d = rows(c, check_size(c, 2100));                                          \
            ref->name float_args;                                                                  \
            now->name##_u8 byte_args;                                                              \
            same_bytes(c, &d);                                                                     \
        }                                                                                          \
        struct rows d = rows(c, BENCH_N);                                                          \
        CHECK_TIME(c, "2048", 0, bytes *BENCH_N, ref->name##_u8 byte_args,                         \
                   now->name##_u8 byte_args);                                                      \
    }

BYTES_CASE(rmsnorm, (d.floats, d.a, d.b, d.n, 1e-5f), (d.got, d.a, d.b, d.n, 1e-5f, &d.q), 9.0)
BYTES_CASE(layernorm, (d.floats, d.a, d.b, d.bias, d.n, 1e-5f),
           (d.got, d.a, d.b, d.bias, d.n, 1e-5f, &d.q), 13.0)
BYTES_CASE(silu_mul, (d.floats, d.a, d.b, d.n), (d.got, d.a, d.b, d.n, &d.q), 9.0)
BYTES_CASE(gelu, (d.floats, d.a, d.n), (d.got, d.a, d.n, &d.q), 5.0)
BYTES_CASE(gelu_mul, (d.floats, d.a, d.b, d.n), (d.got, d.a, d.b, d.n, &d.q), 9.0)

/* --------------------------------------------------------------------------- hadamard and range */

/* Element k of row i of the matrix is (-1)^popcount(i & k). A result has log2(block) additions. */
static void hadamard_exact(struct check *c, const float *x, const float *y, size_t n, size_t block)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0, size = 0;
        for (size_t k = 0; k < block; k++) {
            double v = (double)x[i / block * block + k];
            sum += __builtin_parity((unsigned)(i % block & k)) ? -v : v;
            size += fabs(v);
        }
        check_near(c, sum, (double)y[i], size + 1e-37, TOL(8), "%zu of %zu, blocks of %zu", i, n,
                   block);
    }
}

static void hadamard(struct check *c)
{
    CASE(c, "hadamard", hadamard);
    for (size_t block = 1; block <= 256; block *= 2)
        for (int i = 0; i < 6; i++) {
            size_t n = block * (i ? check_size(c, 700 / block + 1) : 0);
            float *x = check_buf(c, n, 4), *want = check_buf(c, n, 4), *got = check_buf(c, n, 4);
            check_fill(c, x, n);
            if (i == 1) /* zeros of both signs */
                for (size_t k = 0; k < n; k++)
                    x[k] = check_below(c, 2) ? 0.0f : -0.0f;
            memcpy(want, x, n * 4);
            memcpy(got, x, n * 4);
            ref->hadamard(want, n, block);
            now->hadamard(got, n, block);
            check_same(c, want, got, n * 4, "n %zu, blocks of %zu", n, block);
            hadamard_exact(c, x, got, n, block);
        }
    enum { N = 5632 };
    static const size_t block[] = {4, 16, 64, 128, 256};
    float *x = check_buf(c, N, 4);
    memset(x, 0, N * 4);
    for (size_t i = 0; i < sizeof block / sizeof *block; i++) {
        char what[40];
        snprintf(what, sizeof what, "5632, blocks of %zu", block[i]);
        CHECK_TIME(c, what, 0, 8.0 * N, ref->hadamard(x, N, block[i]),
                   now->hadamard(x, N, block[i]));
    }
}

static void range(struct check *c)
{
    CASE(c, "range", range);
    for (int i = 0; i < 60; i++) {
        size_t n = i ? check_size(c, 200) : 0;
        float *x = check_buf(c, n, 4), want[2], got[2];
        check_fill(c, x, n);
        for (size_t k = 0; k < n; k++) /* all of one sign, zeros, or some NaNs */
            x[k] = i % 4 == 1           ? fabsf(x[k])
                   : i % 4 == 2         ? -fabsf(x[k])
                   : i % 8 == 3         ? -0.0f
                   : check_below(c, 20) ? x[k]
                                        : NAN;
        ref->range(x, n, &want[0], &want[1]);
        now->range(x, n, &got[0], &got[1]);
        check_same(c, want, got, sizeof want, "n %zu", n);
        float low = 0, high = 0;
        for (size_t k = 0; k < n; k++)
            low = fminf(low, x[k]), high = fmaxf(high, x[k]);
        check_near(c, (double)low, (double)got[0], 1, 0, "least of %zu", n);
        check_near(c, (double)high, (double)got[1], 1, 0, "largest of %zu", n);
    }
    for (size_t k = 0; k < 40; k++) { /* every number counts */
        float x[40] = {0}, low, high;
        x[k] = k % 2 ? 1.0f : -1.0f;
        now->range(x, 40, &low, &high);
        check_near(c, 1, (double)(high - low), 1, 0, "%zu of 40", k);
    }
    float *x = check_buf(c, BENCH_N, 4), low, high;
    check_fill(c, x, BENCH_N);
    CHECK_TIME(c, "2048", 0, 4.0 * BENCH_N, ref->range(x, BENCH_N, &low, &high),
               now->range(x, BENCH_N, &low, &high));
}

void check_int8(struct check *c)
{
    gemm_i8(c);
    quantize(c);
    rmsnorm(c);
    layernorm(c);
    silu_mul(c);
    gelu(c);
    gelu_mul(c);
    hadamard(c);
    range(c);
}
