/* Cases of gemm. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A result has K / 16 additions in a lane and 4 in the tree, so its error is at most (K / 16 + 4)
   half-ulps of the sum of |products| (Higham 2002, section 3.1). */
static void against_double(struct check *c, const float *y, const float *x, const void *w, size_t M,
                           size_t N, size_t K, enum tft_num num)
{
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            double sum = 0, size = 0;
            for (size_t k = 0; k < K; k++) {
                double p = (double)x[m * K + k] * check_number(w, n * K + k, num);
                sum += p;
                size += fabs(p);
            }
            check_near(c, sum, (double)y[m * N + n], size + 1e-30, ((double)K / 16 + 5) * 0x1p-24,
                       "%zu x %zu x %zu", M, N, K);
        }
}

static void one_shape(struct check *c, enum tft_num num, size_t M, size_t N, size_t K)
{
    const struct tft_kernels *ref = c->ref, *now = c->now;
    size_t ldx = K + check_below(c, 3), ldy = N + check_below(c, 3),
           size = M ? (M - 1) * ldy + N : 0;
    float *x = check_buf(c, (M - 1) * ldx + K, sizeof *x);
    void *w = check_buf(c, N * K, tft_num_bytes(num));
    float *bias = check_buf(c, N, sizeof *bias);
    float *want = check_buf(c, size, sizeof *want), *got = check_buf(c, size, sizeof *got);

    check_fill(c, x, (M - 1) * ldx + K);
    check_fill_num(c, w, N * K, num);
    check_fill(c, bias, N);
    check_fill(c, want, size);
    memcpy(got, want, size * sizeof *got);
    struct tft_gemm g = {want, ldy, x, ldx, w, check_below(c, 2) ? bias : NULL, check_below(c, 2),
                         M,    N,   K};
    ref->gemm[num](&g);
    g.y = got;
    now->gemm[num](&g);
    check_same(c, want, got, size * sizeof *got, "M %zu N %zu K %zu bias %d add %d", M, N, K,
               g.bias != NULL, g.add);
}

static void check_type(struct check *c, const char *name, enum tft_num num)
{
    CASE(c, name, gemm[num]);
    for (int i = 0; i < 30; i++)
        one_shape(c, num, check_size(c, 20), check_size(c, 40), check_size(c, 300));
    for (int i = 0; i < 3; i++) /* several tiles of tokens, several pieces */
        one_shape(c, num, 40 + check_size(c, 20), check_size(c, 9),
                  TFT_PIECE - 20 + check_size(c, 2 * TFT_PIECE));

    size_t M = 5, N = 7, K = 2500;
    float *x = check_buf(c, M * K, sizeof *x), *y = check_buf(c, M * N, sizeof *y);
    void *w = check_buf(c, N * K, tft_num_bytes(num));
    check_fill(c, x, M * K);
    check_fill_num(c, w, N * K, num);
    now->gemm[num](
        &(struct tft_gemm){.y = y, .ldy = N, .x = x, .ldx = K, .w = w, .M = M, .N = N, .K = K});
    against_double(c, y, x, w, M, N, K, num);

    static const size_t shape[][3] = {{1, 32000, 2048}, {4, 512, 2048}, {512, 2048, 2048}};
    for (size_t i = 0; c->bench && i < sizeof shape / sizeof *shape; i++) {
        M = shape[i][0], N = shape[i][1], K = shape[i][2];
        size_t ldx = K + 16; /* as in a session */
        x = check_buf(c, M * ldx, sizeof *x), y = check_buf(c, M * N, sizeof *y);
        w = check_buf(c, N * K, tft_num_bytes(num));
        check_fill(c, x, M * ldx);
        check_fill_num(c, w, N * K, num);
        char what[40];
        snprintf(what, sizeof what, "%zu x %zu x %zu", M, N, K);
        struct tft_gemm g = {
            .y = y, .ldy = N, .x = x, .ldx = ldx, .w = w, .M = M, .N = N, .K = K};
        CHECK_TIME(c, what, 2.0 * (double)(M * N * K), (double)(N * K * tft_num_bytes(num)),
                   ref->gemm[num](&g), now->gemm[num](&g));
    }
}

void check_gemm(struct check *c)
{
    check_type(c, "gemm_f32", TFT_NUM_F32);
    check_type(c, "gemm_f16", TFT_NUM_F16);
    check_type(c, "gemm_bf16", TFT_NUM_BF16);
}
