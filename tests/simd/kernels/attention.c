/* Cases of score, softmax and mix, and of sampling. */
#include "check.h"

#include <float.h>
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

/* Rows of at most n scores, and their scales: against the reference, and against double precision.
   Rows are apart by as much as the longest one, so a write past the end of a row shows. */
static void softmax_bytes(struct check *c, const float *x, const float *scale, size_t n)
{
    enum { ROWS = 11 };
    size_t rows = 1 + check_below(c, ROWS), padded = (n + 15) / 16 * 16;
    uint32_t *len = check_buf(c, rows, sizeof *len);
    struct tft_softmax_u8 a[2];
    for (size_t r = 0; r < rows; r++)
        len[r] = (uint32_t)(r + 1 == rows ? n : 1 + check_below(c, n));
    for (int i = 0; i < 2; i++) {
        a[i] = (struct tft_softmax_u8){
            check_buf(c, rows * padded, 1), padded, check_buf(c, rows * n, 4), n, scale, len, rows,
            check_buf(c, rows, 4),          check_buf(c, rows, 4), check_buf(c, rows, 4)};
        for (size_t r = 0; r < rows; r++)
            memcpy(a[i].p + r * n, x, n * 4);
        memset(a[i].y, 77, rows * padded);
        (i ? c->now : c->ref)->softmax_u8(&a[i]);
    }
    check_same(c, a[0].y, a[1].y, rows * padded, "bytes of %zu rows of %zu", rows, n);
    check_same_floats(c, a[0].max, a[1].max, rows, "maximum");
    check_same_floats(c, a[0].sum, a[1].sum, rows, "sum");
    check_same_floats(c, a[0].step, a[1].step, rows, "step");
    for (size_t r = 0; r < rows; r++) {
        double top = -INFINITY, most = 0, all = 0, bytes = 0;
        const uint8_t *y = a[1].y + r * padded;
        for (size_t j = 0; j < len[r]; j++)
            top = fmax(top, (double)x[j]);
        for (size_t j = 0; j < len[r]; j++) {
            double w = exp((double)x[j] - top) * (double)scale[j];
            most = fmax(most, w), all += w, bytes += y[j];
        }
        check_near(c, top, (double)a[1].max[r], 1, 0, "maximum of %u", len[r]);
        for (size_t j = 0; j < len[r] && most > 1e-20; j++)
            check_near(c, exp((double)x[j] - top) * (double)scale[j] / most * 255, y[j], 0.501, 1,
                       "byte %zu of %u", j, len[r]);
        if (most > 1e-20)
            check_near(c, all, bytes * (double)a[1].step[r], all,
                       ((double)n / 16 + 64) * 0x1p-24, "what the bytes of %u stand for", len[r]);
        else if (most == 0)
            check_near(c, 0, bytes + (double)a[1].step[r], 1, 0, "weights of 0");
    }
}

static void softmax_u8(struct check *c)
{
    CASE(c, "softmax_u8", softmax_u8);
    for (int i = 0; i < 60; i++) {
        size_t n = check_size(c, 600);
        float *x = check_buf(c, n, 4), *scale = check_buf(c, n, 4);
        check_fill(c, x, n);
        check_fill(c, scale, n);
        for (size_t j = 0; j < n; j++)
            scale[j] = i % 6 == 0 ? 0 : fabsf(scale[j]) * (i % 6 == 1 ? 0x1p-130f : 1);
        softmax_bytes(c, x, scale, n);
    }
    enum { ROWS = 30, N = 256 };
    static const uint32_t lengths[] = {N, 139}; /* with and without last lanes */
    for (int l = 0; l < 2; l++) {
        uint32_t n[ROWS];
        float *scale = check_buf(c, N, 4);
        struct tft_softmax_u8 a = {
            check_buf(c, ROWS * N, 1), N, check_buf(c, ROWS * N, 4), N,
            scale, n, ROWS, check_buf(c, ROWS, 4), check_buf(c, ROWS, 4),
            check_buf(c, ROWS, 4)};
        check_fill(c, a.p, ROWS * N);
        for (int j = 0; j < N; j++)
            scale[j] = 1;
        for (int r = 0; r < ROWS; r++)
            n[r] = lengths[l];
        char what[16];
        snprintf(what, sizeof what, "30 x %u", lengths[l]);
        CHECK_TIME(c, what, 0, 13.0 * ROWS * lengths[l], ref->softmax_u8(&a), now->softmax_u8(&a));
    }
}

/* Logits as a sampler gets them, with NaNs and infinities among them. Returns the largest. */
static float fill_logits(struct check *c, float *x, size_t n, bool strange)
{
    float max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        uint32_t r = check_rand(c);
        x[i] = (float)(int32_t)r * 0x1p-26f; /* -32 .. 32 */
        if (strange && r % 19 == 0)
            x[i] = r % 2 ? NAN : -INFINITY;
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

static void sum_exp(struct check *c)
{
    CASE(c, "sum_exp", sum_exp);
    static const float inverses[] = {1, 1.25f, 0.03f, 40, FLT_MAX, 0};
    for (int i = 0; i < 120; i++) {
        size_t n = check_size(c, 700);
        float *x = check_buf(c, n, 4), inverse = inverses[i % 6];
        fill_logits(c, x, n, i % 3 == 0);
        x[n / 2] = 33; /* the largest */
        double want = ref->sum_exp(x, n, 33, inverse), got = now->sum_exp(x, n, 33, inverse);
        check_same(c, &want, &got, sizeof got, "n %zu, inverse %g", n, (double)inverse);

        double total = 0;
        for (size_t j = 0; j < n; j++) {
            float d = (x[j] - 33) * inverse;
            total += d == d ? exp((double)d) : 0;
        }
        check_near(c, total, got, total, 8 * 0x1p-24, "n %zu, inverse %g", n, (double)inverse);
    }
    enum { N = 128256 };
    float *x = check_buf(c, N, 4), max = fill_logits(c, x, N, false);
    CHECK_TIME(c, "128256", 0, 4.0 * N, ref->sum_exp(x, N, max, 1.25f),
               now->sum_exp(x, N, max, 1.25f));
}

static void tops(struct check *c)
{
    CASE(c, "tops", tops);
    for (int i = 0; i < 60; i++) {
        size_t n = check_size(c, 1100), blocks = (n + TFT_TOPS - 1) / TFT_TOPS;
        float *x = check_buf(c, n, 4), *want = check_buf(c, blocks, 4),
              *got = check_buf(c, blocks, 4);
        fill_logits(c, x, n, i % 2);
        for (size_t j = 0; i % 5 == 0 && j < n && j < TFT_TOPS; j++)
            x[j] = NAN;
        ref->tops(want, x, n);
        now->tops(got, x, n);
        check_same(c, want, got, blocks * 4, "n %zu", n);
        for (size_t b = 0; b < blocks; b++) {
            float max = -INFINITY;
            for (size_t j = b * TFT_TOPS; j < n && j < (b + 1) * TFT_TOPS; j++)
                max = fmaxf(max, x[j]);
            check_same(c, &max, &got[b], 4, "block %zu of n %zu", b, n);
        }
    }
    enum { N = 128256 };
    float *x = check_buf(c, N, 4), *top = check_buf(c, (N + TFT_TOPS - 1) / TFT_TOPS, 4);
    fill_logits(c, x, N, false);
    CHECK_TIME(c, "128256", 0, 4.0 * N, ref->tops(top, x, N), now->tops(top, x, N));
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
    softmax_u8(c);
    sum_exp(c);
    tops(c);
    mix(c, "mix_f32", TFT_NUM_F32);
    mix(c, "mix_f16", TFT_NUM_F16);
}
