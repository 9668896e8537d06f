/* Cases of score, softmax and mix. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void score(struct check *c, const char *name, enum tft_num num)
{
    CASE(c, name, score[num]);
    for (int i = 0; i < 30; i++) {
        size_t nq = check_size(c, 20), n = check_size(c, 260), dim = check_size(c, 140),
               ldq = dim + check_below(c, 3);
        size_t padded = (n + 15) / 16 * 16, lds = padded + 16 * check_below(c, 2),
               size = (nq - 1) * lds + padded;
        float *q = check_buf(c, (nq - 1) * ldq + dim, 4), *want = check_buf(c, size, 4),
              *got = check_buf(c, size, 4);
        void *k = check_buf(c, padded * dim, tft_num_bytes(num));
        check_fill(c, q, (nq - 1) * ldq + dim);
        check_fill_num(c, k, padded * dim, num);
        struct tft_score s = {want, lds, q, ldq, k, nq, n, dim, 0.125f};
        ref->score[num](&s);
        s.s = got;
        now->score[num](&s);
        check_same(c, want, got, size * 4, "%zu queries, %zu keys of %zu", nq, n, dim);

        for (size_t a = 0; a < nq; a++)
            for (size_t j = 0; j < n; j++) {
                double sum = 0, total = 0;
                for (size_t d = 0; d < dim; d++) {
                    double p = (double)q[a * ldq + d] *
                               check_number(k, (j / 16 * dim + d) * 16 + j % 16, num);
                    sum += p, total += fabs(p);
                }
                check_near(c, sum / 8, (double)got[a * lds + j], total / 8 + 1e-30,
                           (double)dim * 0x1p-24, "query %zu key %zu", a, j);
            }
    }
    static const size_t queries[] = {1, 4, 16};
    for (size_t i = 0; c->bench && i < 3; i++) {
        enum { KEYS = 256, DIM = 64 };
        float *q = check_buf(c, queries[i] * DIM, 4), *s = check_buf(c, queries[i] * KEYS, 4);
        void *k = check_buf(c, KEYS * DIM, tft_num_bytes(num));
        check_fill(c, q, queries[i] * DIM);
        check_fill_num(c, k, KEYS * DIM, num);
        char what[40];
        snprintf(what, sizeof what, "%zu queries, 256 keys of 64", queries[i]);
        struct tft_score a = {s, KEYS, q, DIM, k, queries[i], KEYS, DIM, 1};
        CHECK_TIME(c, what, 2.0 * (double)queries[i] * KEYS * DIM,
                   (double)(KEYS * DIM * tft_num_bytes(num)),
                   ref->score[num](&a), now->score[num](&a));
    }
}

/* exp of random arguments of every magnitude: the largest number of the row is 0, so softmax turns
   the others into their exp. */
static void exponentials(struct check *c, tft_softmax_fn *ref, tft_softmax_fn *now)
{
    enum { N = 4096 };
    for (int i = 0; i < 8; i++) {
        float *x = check_buf(c, N, 4), *want = check_buf(c, N, 4), *got = check_buf(c, N, 4), max,
              sum;
        for (size_t k = 0; k < N; k++) {
            uint32_t bits = check_rand(c) | 0x80000000;
            memcpy(&x[k], &bits, 4);
            x[k] = k && x[k] == x[k] ? x[k] : 0; /* no NaN */
            x[k] = k % 2 ? x[k] : fmodf(x[k], 110);
        }
        memcpy(want, x, N * 4);
        memcpy(got, x, N * 4);
        ref(want, N, &max, &sum);
        now(got, N, &max, &sum);
        for (size_t k = 0; k < N; k++) {
            double exact = exp((double)x[k]);
            check_same(c, &want[k], &got[k], 4, "exp(%a)", (double)x[k]);
            check_near(c, exact, (double)got[k], exact + 0x1p-126, 0x1p-23, "exp(%a)",
                       (double)x[k]);
        }
    }
}

static void softmax(struct check *c)
{
    CASE(c, "softmax", softmax);
    exponentials(c, ref->softmax, now->softmax);
    for (int i = 0; i < 60; i++) {
        size_t n = check_size(c, 600);
        float *want = check_buf(c, n, 4), *got = check_buf(c, n, 4), *x = check_buf(c, n, 4),
              max[2], sum[2];
        check_fill(c, x, n);
        memcpy(want, x, n * 4);
        memcpy(got, x, n * 4);
        ref->softmax(want, n, &max[0], &sum[0]);
        now->softmax(got, n, &max[1], &sum[1]);
        check_same(c, want, got, n * 4, "n %zu", n);
        check_same(c, &sum[0], &sum[1], 4, "sum of %zu", n);
        check_near(c, (double)max[0], (double)max[1], 1, 0, "maximum of %zu", n);

        double top = -INFINITY, total = 0;
        for (size_t j = 0; j < n; j++)
            top = fmax(top, (double)x[j]);
        for (size_t j = 0; j < n; j++)
            total += exp((double)x[j] - top);
        check_near(c, total, (double)sum[1], total, ((double)n / 16 + 64) * 0x1p-24, "sum of %zu",
                   n);
    }
    enum { N = 256 };
    float *x = check_buf(c, N, 4), max, sum;
    check_fill(c, x, N);
    CHECK_TIME(c, "256", 0, 8.0 * N, ref->softmax(x, N, &max, &sum),
               now->softmax(x, N, &max, &sum));
}

static void mix(struct check *c, const char *name, enum tft_num num)
{
    CASE(c, name, mix[num]);
    for (int i = 0; i < 30; i++) {
        size_t nq = check_size(c, 20), n = check_size(c, 260), dim = check_size(c, 140);
        size_t ldp = n + check_below(c, 3), ldo = dim + check_below(c, 3),
               size = (nq - 1) * ldo + dim;
        float *p = check_buf(c, (nq - 1) * ldp + n, 4), *want = check_buf(c, size, 4),
              *got = check_buf(c, size, 4), *o = check_buf(c, size, 4);
        void *v = check_buf(c, n * dim, tft_num_bytes(num));
        check_fill(c, p, (nq - 1) * ldp + n);
        check_fill_num(c, v, n * dim, num);
        check_fill(c, o, size);
        memcpy(want, o, size * 4);
        memcpy(got, o, size * 4);
        struct tft_mix m = {want, ldo, p, ldp, v, nq, n, dim};
        ref->mix[num](&m);
        m.o = got;
        now->mix[num](&m);
        check_same(c, want, got, size * 4, "%zu rows, %zu values of %zu", nq, n, dim);

        for (size_t a = 0; a < nq; a++)
            for (size_t d = 0; d < dim; d++) {
                double sum = (double)o[a * ldo + d], total = fabs(sum);
                for (size_t j = 0; j < n; j++) {
                    double t = (double)p[a * ldp + j] * check_number(v, j * dim + d, num);
                    sum += t, total += fabs(t);
                }
                check_near(c, sum, (double)got[a * ldo + d], total + 1e-30,
                           (double)(n + 1) * 0x1p-24, "row %zu channel %zu", a, d);
            }
    }
    static const size_t rows[] = {1, 4, 16};
    for (size_t i = 0; c->bench && i < 3; i++) {
        enum { N = 256, DIM = 64 };
        float *p = check_buf(c, rows[i] * N, 4), *o = check_buf(c, rows[i] * DIM, 4);
        void *v = check_buf(c, N * DIM, tft_num_bytes(num));
        memset(p, 0, rows[i] * N * 4);
        memset(o, 0, rows[i] * DIM * 4);
        check_fill_num(c, v, N * DIM, num);
        char what[40];
        snprintf(what, sizeof what, "%zu rows, 256 values of 64", rows[i]);
        struct tft_mix a = {o, DIM, p, N, v, rows[i], N, DIM};
        CHECK_TIME(c, what, 2.0 * (double)rows[i] * N * DIM, (double)(N * DIM * tft_num_bytes(num)),
                   ref->mix[num](&a), now->mix[num](&a));
    }
}

void check_attention(struct check *c)
{
    score(c, "score_f32", TFT_NUM_F32);
    score(c, "score_f16", TFT_NUM_F16);
    softmax(c);
    mix(c, "mix_f32", TFT_NUM_F32);
    mix(c, "mix_f16", TFT_NUM_F16);
}
