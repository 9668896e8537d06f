/* Cases of the kernels of layers with a state. */
#include "check.h"

#include <math.h>
#include <string.h>

#define TOL(n) ((n)*0x1p-24)

enum { BENCH_N = 2048 };

static void conv(struct check *c)
{
    enum { TAPS = 4 };
    CASE(c, "conv", conv);
    for (int i = 0; i < 40; i++) {
        size_t n = check_size(c, 500), taps = 1 + check_below(c, TFT_CONV_TAPS),
               ldw = n + check_below(c, 20);
        const float *x[TFT_CONV_TAPS];
        float *w = check_buf(c, (taps - 1) * ldw + n, 4), *want = check_buf(c, n, 4),
              *got = check_buf(c, n, 4);
        check_fill(c, w, (taps - 1) * ldw + n);
        for (size_t k = 0; k < taps; k++) {
            float *row = check_buf(c, n, 4);
            check_fill(c, row, n);
            x[k] = row;
        }
        float *bias = check_buf(c, n, 4);
        check_fill(c, bias, n);
        struct tft_conv g = {want, x, w, ldw, n, taps, i % 2, i % 3 ? NULL : bias};
        ref->conv(&g);
        g.y = got;
        now->conv(&g);
        check_same(c, want, got, n * 4, "n %zu, %zu taps", n, taps);
        for (size_t k = 0; k < n; k++) {
            double sum = g.bias ? (double)bias[k] : 0, size = fabs(sum) + 1e-30;
            for (size_t j = 0; j < taps; j++) {
                sum += (double)x[j][k] * (double)w[j * ldw + k];
                size += fabs((double)x[j][k] * (double)w[j * ldw + k]);
            }
            /* the slope of silu is at most 1.1 */
            check_near(c, g.silu ? sum / (1 + exp(-sum)) : sum, (double)got[k], size,
                       TOL(taps + 8), "n %zu, %zu taps", n, taps);
        }
    }
    const float *x[TAPS];
    float *w = check_buf(c, TAPS * BENCH_N, 4), *y = check_buf(c, BENCH_N, 4);
    check_fill(c, w, TAPS * BENCH_N);
    for (size_t k = 0; k < TAPS; k++)
        x[k] = w + k * BENCH_N;
    struct tft_conv g = {y, x, w, BENCH_N, BENCH_N, TAPS, true, w};
    CHECK_TIME(c, "2048, 4 taps, silu", 2.0 * TAPS * BENCH_N, 4.0 * (2 * TAPS + 1) * BENCH_N,
               ref->conv(&g), now->conv(&g));
}

/* The tokens in one call, or one in each: the same bits. */
static void run_delta(const struct tft_kernels *kern, struct tft_delta g, bool one_by_one)
{
    size_t n = g.T;
    g.T = one_by_one ? 1 : n;
    for (size_t t = 0; t < n; t += g.T) {
        kern->delta(&g);
        g.k += g.ld * g.T;
        g.q += g.ld * g.T;
        g.v += g.ld * g.T;
        g.o += g.ld * g.T;
        g.decay += g.T;
        g.beta += g.T;
    }
}

/* The rule in double precision; S: [E, E] */
static void exact_delta(const struct tft_delta *g, size_t t, double *S, const float *v, double *o)
{
    size_t E = g->E;
    const float *k = g->k + t * g->ld, *q = g->q + t * g->ld;
    for (size_t j = 0; j < E; j++) {
        double e = 0;
        o[j] = 0;
        for (size_t i = 0; i < E; i++) {
            S[i * E + j] *= (double)g->decay[t];
            e += (double)k[i] * S[i * E + j];
        }
        for (size_t i = 0; i < E; i++) {
            S[i * E + j] += (double)k[i] * (double)g->beta[t] * ((double)v[t * g->ld + j] - e);
            o[j] += (double)q[i] * S[i * E + j];
        }
    }
}

/* Keys and queries of length 1, as in a model. */
static void fill_unit(struct check *c, float *x, size_t n)
{
    double sum = 1e-6;
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)check_below(c, 2001) / 1000 - 1;
        sum += (double)x[i] * (double)x[i];
    }
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] / sqrt(sum));
}

static void delta(struct check *c)
{
    enum { MOST = 144, DIM = 128 };
    CASE(c, "delta", delta);
    static double S[MOST * MOST], o[MOST];
    for (int i = 0; i < 12; i++) {
        size_t E = 16 * (1 + check_below(c, MOST / 16)),
               T = i % 4 ? 1 + check_below(c, 5) : TFT_DELTA_TOKENS,
               ld = 3 * E + check_below(c, 20), n = (T - 1) * ld + 3 * E;
        float *s[2] = {check_buf(c, E * E, 4), check_buf(c, E * E, 4)};
        float *row[2] = {check_buf(c, n, 4), check_buf(c, n, 4)};
        float factor[2] = {0, 0};
        if (i)
            factor[0] = factor[1] = (float)check_below(c, 1001) / 1000;
        float *decay = check_buf(c, T, 4), *beta = check_buf(c, T, 4), *v = check_buf(c, n, 4);
        memset(row[0], 0, n * 4);
        for (size_t t = 0; t < T; t++) {
            fill_unit(c, row[0] + t * ld, E);
            fill_unit(c, row[0] + t * ld + E, E);
            fill_unit(c, row[0] + t * ld + 2 * E, E);
            decay[t] = (float)check_below(c, 1001) / 1000;
            beta[t] = (float)check_below(c, 1001) / 1000;
        }
        for (size_t k = 0; k < E * E; k++)
            s[0][k] = (float)check_below(c, 2001) / 1000 - 1;
        for (size_t j = 0; j < E; j++)
            for (size_t k = 0; k < E; k++)
                S[k * E + j] = (double)factor[0] * (double)s[0][(j / 16 * E + k) * 16 + j % 16];
        memcpy(s[1], s[0], E * E * 4);
        memcpy(row[1], row[0], n * 4);
        memcpy(v, row[0], n * 4);
        struct tft_delta g[2];
        for (int r = 0; r < 2; r++) { /* o is v: delta may write over it */
            g[r] = (struct tft_delta){.s = s[r],
                                      .factor = &factor[r],
                                      .k = row[r] + E,
                                      .q = row[r],
                                      .v = row[r] + 2 * E,
                                      .o = row[r] + 2 * E,
                                      .ld = ld,
                                      .decay = decay,
                                      .beta = beta,
                                      .T = T,
                                      .E = E};
            run_delta(r ? now : ref, g[r], (i + r) % 2);
        }
        check_same(c, row[0], row[1], n * 4, "E %zu, T %zu", E, T);
        check_same(c, s[0], s[1], E * E * 4, "state, E %zu, T %zu", E, T);
        check_same(c, &factor[0], &factor[1], 4, "factor, E %zu, T %zu", E, T);
        for (size_t t = 0; t < T; t++) {
            exact_delta(&g[1], t, S, v + 2 * E, o);
            for (size_t j = 0; j < E; j++)
                check_near(c, o[j], (double)g[1].o[t * ld + j], sqrt((double)E),
                           TOL((double)(E + 16) * (double)(t + 1)), "E %zu, token %zu", E, t);
        }
    }
    float *s = check_buf(c, DIM * DIM, 4), *x = check_buf(c, 4 * DIM, 4);
    memset(s, 0, DIM * DIM * 4);
    fill_unit(c, x, 4 * DIM);
    float factor = 1, one = 1;
    struct tft_delta g = {.s = s,
                          .factor = &factor,
                          .k = x,
                          .q = x + DIM,
                          .v = x + 2 * DIM,
                          .o = x + 3 * DIM,
                          .ld = 4 * DIM,
                          .decay = &one,
                          .beta = &one,
                          .T = 1,
                          .E = DIM};
    CHECK_TIME(c, "a head of 128", 6.0 * DIM * DIM, 8.0 * DIM * DIM, ref->delta(&g),
               now->delta(&g));
}

static void run_scan(const struct tft_kernels *kern, struct tft_scan g, bool one_by_one)
{
    size_t n = g.T;
    g.T = one_by_one ? 1 : n;
    for (size_t t = 0; t < n; t += g.T) {
        kern->scan(&g);
        g.b += g.ld * g.T;
        g.c += g.ld * g.T;
        g.x += g.ld * g.T;
        g.decay += g.T;
        g.step += g.T;
    }
}

static void scan(struct check *c)
{
    enum { MOST_N = 140, MOST_P = 144, DIM = 64, STATE = 128 };
    CASE(c, "scan", scan);
    static double S[MOST_N * MOST_P];
    for (int i = 0; i < 12; i++) {
        size_t P = 16 * (1 + check_below(c, MOST_P / 16)), N = 1 + check_below(c, MOST_N),
               T = 1 + check_below(c, 9), ld = 2 * N + P + check_below(c, 20),
               n = (T - 1) * ld + 2 * N + P;
        float *s[2] = {check_buf(c, N * P, 4), check_buf(c, N * P, 4)};
        float *row[2] = {check_buf(c, n, 4), check_buf(c, n, 4)};
        float factor[2] = {0, 0};
        if (i)
            factor[0] = factor[1] = (float)check_below(c, 1001) / 1000;
        float *decay = check_buf(c, T, 4), *step = check_buf(c, T, 4), *x = check_buf(c, n, 4);
        memset(row[0], 0, n * 4);
        for (size_t t = 0; t < T; t++) {
            fill_unit(c, row[0] + t * ld, N);
            fill_unit(c, row[0] + t * ld + N, N);
            fill_unit(c, row[0] + t * ld + 2 * N, P);
            decay[t] = (float)check_below(c, 1001) / 1000;
            step[t] = (float)check_below(c, 1001) / 1000;
        }
        for (size_t k = 0; k < N * P; k++)
            s[0][k] = (float)check_below(c, 2001) / 1000 - 1;
        for (size_t j = 0; j < P; j++)
            for (size_t k = 0; k < N; k++)
                S[k * P + j] = (double)factor[0] * (double)s[0][(j / 16 * N + k) * 16 + j % 16];
        memcpy(s[1], s[0], N * P * 4);
        memcpy(row[1], row[0], n * 4);
        memcpy(x, row[0], n * 4);
        struct tft_scan g;
        for (int r = 0; r < 2; r++) {
            g = (struct tft_scan){.s = s[r],
                                  .factor = &factor[r],
                                  .b = row[r],
                                  .c = row[r] + N,
                                  .x = row[r] + 2 * N,
                                  .ld = ld,
                                  .step = step,
                                  .decay = decay,
                                  .skip = 0.75f,
                                  .T = T,
                                  .N = N,
                                  .P = P};
            run_scan(r ? now : ref, g, (i + r) % 2);
        }
        check_same(c, row[0], row[1], n * 4, "N %zu, P %zu, T %zu", N, P, T);
        check_same(c, s[0], s[1], N * P * 4, "state, N %zu, P %zu, T %zu", N, P, T);
        check_same(c, &factor[0], &factor[1], 4, "factor, N %zu, P %zu, T %zu", N, P, T);
        for (size_t t = 0; t < T; t++)
            for (size_t j = 0; j < P; j++) {
                double in = (double)x[t * ld + 2 * N + j], y = 0.75 * in;
                for (size_t k = 0; k < N; k++) {
                    S[k * P + j] = S[k * P + j] * (double)decay[t] +
                                   (double)x[t * ld + k] * (double)step[t] * in;
                    y += (double)x[t * ld + N + k] * S[k * P + j];
                }
                check_near(c, y, (double)g.x[t * ld + j], sqrt((double)N),
                           TOL((double)(N + 16) * (double)(t + 1)), "N %zu, token %zu", N, t);
            }
    }
    float *s = check_buf(c, DIM * STATE, 4), *x = check_buf(c, 2 * STATE + DIM, 4);
    memset(s, 0, DIM * STATE * 4);
    fill_unit(c, x, 2 * STATE + DIM);
    float factor = 1, one = 1;
    struct tft_scan g = {.s = s,
                         .factor = &factor,
                         .b = x,
                         .c = x + STATE,
                         .x = x + 2 * STATE,
                         .ld = 2 * STATE + DIM,
                         .step = &one,
                         .decay = &one,
                         .skip = 1,
                         .T = 1,
                         .N = STATE,
                         .P = DIM};
    CHECK_TIME(c, "a head of 64 with 128", 4.0 * DIM * STATE, 8.0 * DIM * STATE, ref->scan(&g),
               now->scan(&g));
}

/* The rule in double precision; S: [E, E]. size: of the numbers that are added up */
static void exact_wkv(const struct tft_wkv *g, double *S, const float *v, size_t j, double *o,
                      double *size)
{
    size_t E = g->E;
    double d = 0;
    *o = *size = 0;
    for (size_t i = 0; i < E; i++)
        d += (double)g->c[i] * S[i * E + j];
    for (size_t i = 0; i < E; i++) {
        double *x = &S[i * E + j];
        *x = *x * (double)g->w[i] - (double)g->a[i] * d + (double)g->k[i] * (double)v[j];
        *o += (double)g->r[i] * *x;
        *size += fabs((double)g->r[i]) * 3;
    }
}

static void wkv(struct check *c)
{
    enum { MOST = 144, DIM = 64 };
    CASE(c, "wkv", wkv);
    static double S[MOST * MOST];
    for (int i = 0; i < 12; i++) {
        size_t E = 16 * (1 + check_below(c, MOST / 16));
        float *s[2] = {check_buf(c, E * E, 4), check_buf(c, E * E, 4)};
        float *x = check_buf(c, 6 * E, 4), *y[2] = {check_buf(c, E, 4), check_buf(c, E, 4)};
        for (size_t k = 0; k < 6; k++)
            fill_unit(c, x + k * E, E);
        for (size_t k = 0; k < E; k++)
            x[E + k] = (float)check_below(c, 1001) / 1000;
        for (size_t k = 0; k < E * E; k++)
            s[0][k] = (float)check_below(c, 2001) / 1000 - 1;
        for (size_t j = 0; j < E; j++)
            for (size_t k = 0; k < E; k++)
                S[k * E + j] = (double)s[0][(j / 16 * E + k) * 16 + j % 16];
        memcpy(s[1], s[0], E * E * 4);
        struct tft_wkv g;
        for (int r = 0; r < 2; r++) { /* o is v */
            memcpy(y[r], x + 3 * E, E * 4);
            g = (struct tft_wkv){.s = s[r], .r = x, .w = x + E, .k = x + 2 * E, .v = y[r],
                                 .c = x + 4 * E, .a = x + 5 * E, .o = y[r], .E = E};
            (r ? now : ref)->wkv(&g);
        }
        check_same(c, y[0], y[1], E * 4, "E %zu", E);
        check_same(c, s[0], s[1], E * E * 4, "state, E %zu", E);
        for (size_t j = 0; j < E; j++) {
            double o, size;
            exact_wkv(&g, S, x + 3 * E, j, &o, &size);
            check_near(c, o, (double)y[1][j], size, TOL((double)E + 16), "E %zu", E);
        }
    }
    float *s = check_buf(c, DIM * DIM, 4), *x = check_buf(c, 7 * DIM, 4);
    memset(s, 0, DIM * DIM * 4);
    fill_unit(c, x, 7 * DIM);
    struct tft_wkv g = {.s = s, .r = x, .w = x + DIM, .k = x + 2 * DIM, .v = x + 3 * DIM,
                        .c = x + 4 * DIM, .a = x + 5 * DIM, .o = x + 6 * DIM, .E = DIM};
    CHECK_TIME(c, "a head of 64", 9.0 * DIM * DIM, 8.0 * DIM * DIM, ref->wkv(&g), now->wkv(&g));
}

void check_state(struct check *c)
{
    conv(c);
    delta(c);
    scan(c);
    wkv(c);
}
