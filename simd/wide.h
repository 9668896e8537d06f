/*
 * The float kernels, once for all vector units. The contract of kernels.h is written in 16 lanes, so the code is too: a v16 is one
 * register of AVX-512, two of AVX2, four of NEON, and each v_ function does in every lane what the contract says one
 * operation does. A rung's .c file defines the vocabulary, the tile sizes that fit its registers, and includes this file.
 *
 *   v_load_n, v_store_n   the first n lanes only, 0 < n < 16; no other byte is touched, other lanes load as 0
 *   v_select(a, b, n)     the first n lanes of a, the rest of b
 *   v_swap                lanes 2i and 2i + 1 exchanged
 *   v_sum, v_top          sum16, and the maximum over the lanes
 *   v_sum4                four of v_sum, to p[0..3]
 *   v_exp                 tft_expf in every lane; if the rung has none, the compiler makes it here from the C function
 */
#include <math.h>

#include "expf.h"
#include "half.h"

#define WIDE static inline __attribute__((always_inline))

#if !TFT_SLEEF
static inline v16 v_exp(v16 a)
{
    float t[16];
    v_store(t, a);
    for (int i = 0; i < 16; i++)
        t[i] = tft_expf(t[i]);
    return v_load(t);
}
#endif

/* 16 or the last n numbers at x + k, of the slot's type. */
WIDE v16 load_num(const void *x, size_t k, enum tft_num num)
{
    return num == TFT_NUM_F32   ? v_load((const float *)x + k)
           : num == TFT_NUM_F16 ? v_load_f16((const uint16_t *)x + k)
                                : v_load_bf16((const uint16_t *)x + k);
}

WIDE v16 load_num_n(const void *x, size_t k, size_t n, enum tft_num num)
{
    return num == TFT_NUM_F32   ? v_load_n((const float *)x + k, n)
           : num == TFT_NUM_F16 ? v_load_f16_n((const uint16_t *)x + k, n)
                                : v_load_bf16_n((const uint16_t *)x + k, n);
}

/* ------------------------------------------------------------------------------------------ matrix product */

struct gemm_out {
    float *y;
    size_t ldy;
    const float *bias; /* of the first row of w in hand, or NULL */
    int add;
};

WIDE void put_sum(const struct gemm_out *o, size_t m, size_t n, float sum)
{
    if (o->bias)
        sum += o->bias[n];
    float *y = o->y + m * o->ldy + n;
    *y = o->add ? *y + sum : sum;
}

/* mt tokens by nt rows of w, both constants after inlining, one accumulator each: x: [mt, ldx], w: [nt, K]. Every load of w serves mt products
   and every load of x nt of them. */
WIDE void gemm_tile(const struct gemm_out *o, size_t mt, size_t nt, const float *x, size_t ldx, const void *w, size_t K,
                    enum tft_num num)
{
    const char *row[TILE_N];
    v16 acc[TILE_M][TILE_N], b[TILE_N];
    for (size_t j = 0; j < nt; j++)
        row[j] = (const char *)w + j * K * tft_num_bytes(num);
#pragma GCC unroll 8
    for (size_t i = 0; i < mt; i++)
#pragma GCC unroll 8
        for (size_t j = 0; j < nt; j++)
            acc[i][j] = v_zero();

    size_t k = 0;
    for (; k + 16 <= K; k += 16) {
#pragma GCC unroll 8
        for (size_t j = 0; j < nt; j++)
            b[j] = load_num(row[j], k, num);
#pragma GCC unroll 8
        for (size_t i = 0; i < mt; i++) {
            v16 a = v_load(x + i * ldx + k);
#pragma GCC unroll 8
            for (size_t j = 0; j < nt; j++)
                acc[i][j] = v_fma(a, b[j], acc[i][j]);
        }
    }
    if (k < K) {
        size_t n = K - k;
        for (size_t j = 0; j < nt; j++)
            b[j] = load_num_n(row[j], k, n, num);
#pragma GCC unroll 8
        for (size_t i = 0; i < mt; i++) {
            v16 a = v_load_n(x + i * ldx + k, n);
#pragma GCC unroll 8
            for (size_t j = 0; j < nt; j++)
                acc[i][j] = v_select(v_fma(a, b[j], acc[i][j]), acc[i][j], n);
        }
    }

#pragma GCC unroll 8
    for (size_t i = 0; i < mt; i++) {
        if (nt == 4) {
            float sum[4];
            v_sum4(sum, acc[i][0], acc[i][1 % TILE_N], acc[i][2 % TILE_N], acc[i][3 % TILE_N]);
            for (size_t j = 0; j < nt; j++)
                put_sum(o, i, j, sum[j]);
        } else {
#pragma GCC unroll 8
            for (size_t j = 0; j < nt; j++)
                put_sum(o, i, j, v_sum(acc[i][j]));
        }
    }
}

/* All tokens against nt rows of w. */
WIDE void gemm_rows(struct gemm_out o, size_t nt, const float *x, size_t ldx, const void *w, size_t M, size_t K, enum tft_num num)
{
    for (; M >= TILE_M; M -= TILE_M) {
        gemm_tile(&o, TILE_M, nt, x, ldx, w, K, num);
        x += TILE_M * ldx;
        o.y += TILE_M * o.ldy;
    }
    switch (M) {
#if TILE_M > 4
    case 5: gemm_tile(&o, 5, nt, x, ldx, w, K, num); break;
    case 4: gemm_tile(&o, 4, nt, x, ldx, w, K, num); break;
    case 3: gemm_tile(&o, 3, nt, x, ldx, w, K, num); break;
#endif
    case 2: gemm_tile(&o, 2, nt, x, ldx, w, K, num); break;
    case 1: gemm_tile(&o, 1, nt, x, ldx, w, K, num); break;
    }
}

WIDE void gemm(float *y, size_t ldy, const float *x, size_t ldx, const void *w, const float *bias, int add, size_t M, size_t N,
               size_t K, enum tft_num num)
{
    struct gemm_out o = {y, ldy, bias, add};
    const char *row = w;
    size_t n = 0;
    for (; n + TILE_N <= N; n += TILE_N) {
        gemm_rows(o, TILE_N, x, ldx, row, M, K, num);
        row += TILE_N * K * tft_num_bytes(num);
        o.y += TILE_N;
        if (bias)
            o.bias += TILE_N;
    }
    for (; n < N; n++) {
        gemm_rows(o, 1, x, ldx, row, M, K, num);
        row += K * tft_num_bytes(num);
        o.y++;
        if (bias)
            o.bias++;
    }
}

#define GEMM(name, num)                                                                                              \
    static void ISA(name)(float *y, size_t ldy, const float *x, size_t ldx, const void *w, const float *bias,        \
                          int add, size_t M, size_t N, size_t K)                                                     \
    {                                                                                                                \
        gemm(y, ldy, x, ldx, w, bias, add, M, N, K, num);                                                            \
    }
GEMM(gemm_f32, TFT_NUM_F32)
GEMM(gemm_f16, TFT_NUM_F16)
GEMM(gemm_bf16, TFT_NUM_BF16)

/* --------------------------------------------------------------------------------------- rows of numbers */

/* The next 16 numbers of a row, or the n that are left. */
WIDE v16 get(const float *p, size_t n)
{
    return n >= 16 ? v_load(p) : v_load_n(p, n);
}

WIDE void put(float *p, v16 a, size_t n)
{
    if (n >= 16)
        v_store(p, a);
    else
        v_store_n(p, a, n);
}

/* sum, or the old lanes past the end of the row */
WIDE v16 keep(v16 sum, v16 old, size_t n)
{
    return n >= 16 ? sum : v_select(sum, old, n);
}

/* dot16(x, x) */
WIDE float sum_of_squares(const float *x, size_t n)
{
    v16 sum = v_zero();
    for (size_t i = 0; i < n; i += 16) {
        v16 a = get(x + i, n - i);
        sum = keep(v_fma(a, a, sum), sum, n - i);
    }
    return v_sum(sum);
}

static void ISA(rmsnorm)(float *y, const float *x, const float *w, size_t n, float eps)
{
    v16 r = v_set(1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps));
    for (size_t i = 0; i < n; i += 16)
        put(y + i, v_mul(v_mul(get(x + i, n - i), r), get(w + i, n - i)), n - i);
}

static void ISA(layernorm)(float *y, const float *x, const float *w, const float *b, size_t n, float eps)
{
    v16 sum = v_zero();
    for (size_t i = 0; i < n; i += 16)
        sum = keep(v_add(sum, get(x + i, n - i)), sum, n - i);
    v16 mean = v_set(v_sum(sum) / (float)n);
    for (size_t i = 0; i < n; i += 16)
        put(y + i, v_sub(get(x + i, n - i), mean), n - i);
    v16 r = v_set(1.0f / sqrtf(sum_of_squares(y, n) / (float)n + eps));
    for (size_t i = 0; i < n; i += 16)
        put(y + i, v_fma(v_mul(get(y + i, n - i), r), get(w + i, n - i), get(b + i, n - i)), n - i);
}

static void ISA(rope_pairs)(float *x, const float *c, const float *s, size_t n_head, size_t head_dim, size_t n_rot)
{
    for (size_t h = 0; h < n_head; h++, x += head_dim)
        for (size_t i = 0; i < n_rot; i += 16) {
            size_t n = n_rot - i;
            v16 a = get(x + i, n);
            put(x + i, v_fma(a, get(c + i, n), v_mul(v_swap(a), get(s + i, n))), n);
        }
}

static void ISA(rope_halves)(float *x, const float *c, const float *s, size_t n_head, size_t head_dim, size_t n_rot)
{
    size_t half = n_rot / 2;
    for (size_t h = 0; h < n_head; h++, x += head_dim)
        for (size_t i = 0; i < half; i += 16) {
            size_t n = half - i;
            v16 a = get(x + i, n), b = get(x + i + half, n);
            put(x + i, v_fma(a, get(c + i, n), v_mul(b, get(s + i, n))), n);
            put(x + i + half, v_fma(b, get(c + i + half, n), v_mul(a, get(s + i + half, n))), n);
        }
}

/* a / (1 + exp(-u)) */
WIDE v16 gated(v16 a, v16 u)
{
    return v_div(a, v_add(v_set(1.0f), v_exp(v_sub(v_set(-0.0f), u))));
}

static void ISA(silu_mul)(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        v16 g = get(a + i, n - i);
        put(y + i, v_mul(gated(g, g), get(b + i, n - i)), n - i);
    }
}

static void ISA(gelu)(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        v16 a = get(x + i, n - i);
        v16 u = v_mul(a, v_fma(v_mul(a, a), v_set(TFT_GELU_G3), v_set(TFT_GELU_G1)));
        put(y + i, gated(a, u), n - i);
    }
}

static void ISA(add)(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        put(y + i, v_add(get(y + i, n - i), get(x + i, n - i)), n - i);
}

static void ISA(widen_f16)(float *y, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        put(y + i, n - i >= 16 ? load_num(x, i, TFT_NUM_F16) : load_num_n(x, i, n - i, TFT_NUM_F16), n - i);
}

static void ISA(widen_bf16)(float *y, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        put(y + i, n - i >= 16 ? load_num(x, i, TFT_NUM_BF16) : load_num_n(x, i, n - i, TFT_NUM_BF16), n - i);
}

static void ISA(narrow_f16)(void *y, const float *x, size_t n)
{
    uint16_t *h = y;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store_f16(h + i, v_load(x + i));
    if (i < n)
        v_store_f16_n(h + i, v_load_n(x + i, n - i), n - i);
}

/* ----------------------------------------------------------------------------------------------- attention */

/* nq queries against np panels of 16 keys, both constants after inlining. */
WIDE void score_tile(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq, size_t np, size_t head_dim,
                     float scale, enum tft_num num)
{
    v16 acc[TILE_Q][TILE_V];
#pragma GCC unroll 8
    for (size_t i = 0; i < nq; i++)
#pragma GCC unroll 8
        for (size_t j = 0; j < np; j++)
            acc[i][j] = v_zero();

    for (size_t d = 0; d < head_dim; d++) {
        v16 b[TILE_V];
#pragma GCC unroll 8
        for (size_t j = 0; j < np; j++)
            b[j] = load_num(k, (j * head_dim + d) * 16, num);
#pragma GCC unroll 8
        for (size_t i = 0; i < nq; i++) {
            v16 a = v_set(q[i * ldq + d]);
#pragma GCC unroll 8
            for (size_t j = 0; j < np; j++)
                acc[i][j] = v_fma(a, b[j], acc[i][j]);
        }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < nq; i++)
#pragma GCC unroll 8
        for (size_t j = 0; j < np; j++)
            v_store(s + i * ns + j * 16, v_mul(acc[i][j], v_set(scale)));
}

/* nq queries against all panels. */
WIDE void score_panels(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq, size_t n, size_t head_dim,
                       float scale, enum tft_num num)
{
    const char *panel = k;
    size_t bytes = 16 * head_dim * tft_num_bytes(num), np = (n + 15) / 16;
    for (; np >= TILE_V; np -= TILE_V, panel += TILE_V * bytes, s += TILE_V * 16)
        score_tile(s, ns, q, ldq, panel, nq, TILE_V, head_dim, scale, num);
    for (; np; np--, panel += bytes, s += 16)
        score_tile(s, ns, q, ldq, panel, nq, 1, head_dim, scale, num);
}

WIDE void score(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq, size_t n, size_t head_dim,
                float scale, enum tft_num num)
{
    for (; nq >= TILE_Q; nq -= TILE_Q, s += TILE_Q * ns, q += TILE_Q * ldq)
        score_panels(s, ns, q, ldq, k, TILE_Q, n, head_dim, scale, num);
    for (; nq; nq--, s += ns, q += ldq)
        score_panels(s, ns, q, ldq, k, 1, n, head_dim, scale, num);
}

static void ISA(score_f32)(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq, size_t n,
                           size_t head_dim, float scale)
{
    score(s, ns, q, ldq, k, nq, n, head_dim, scale, TFT_NUM_F32);
}

static void ISA(score_f16)(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq, size_t n,
                           size_t head_dim, float scale)
{
    score(s, ns, q, ldq, k, nq, n, head_dim, scale, TFT_NUM_F16);
}

static void ISA(softmax)(float *p, size_t n, float *max, float *sum)
{
    /* lanes past the end hold the first number, so that they never are the maximum alone */
    v16 top = v_set(p[0]);
    for (size_t j = 0; j < n; j += 16)
        top = keep(v_max(top, get(p + j, n - j)), top, n - j);
    *max = v_top(top);

    v16 m = v_set(*max), total = v_zero();
    for (size_t j = 0; j < n; j += 16) {
        v16 e = v_exp(v_sub(get(p + j, n - j), m));
        put(p + j, e, n - j);
        total = keep(v_add(total, e), total, n - j);
    }
    *sum = v_sum(total);
}

/* nq rows of o, nd vectors of their channels, both constants after inlining. */
WIDE void mix_tile(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq, size_t nd, size_t n,
                   size_t head_dim, enum tft_num num)
{
    v16 acc[TILE_Q][TILE_V];
#pragma GCC unroll 8
    for (size_t i = 0; i < nq; i++)
#pragma GCC unroll 8
        for (size_t d = 0; d < nd; d++)
            acc[i][d] = v_load(o + i * ldo + d * 16);

    for (size_t j = 0; j < n; j++) {
        v16 b[TILE_V];
#pragma GCC unroll 8
        for (size_t d = 0; d < nd; d++)
            b[d] = load_num(v, j * head_dim + d * 16, num);
#pragma GCC unroll 8
        for (size_t i = 0; i < nq; i++) {
            v16 a = v_set(p[i * ldp + j]);
#pragma GCC unroll 8
            for (size_t d = 0; d < nd; d++)
                acc[i][d] = v_fma(a, b[d], acc[i][d]);
        }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < nq; i++)
#pragma GCC unroll 8
        for (size_t d = 0; d < nd; d++)
            v_store(o + i * ldo + d * 16, acc[i][d]);
}

/* The last few channels of a head whose size is no multiple of 16. */
WIDE void mix_rest(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq, size_t n, size_t head_dim,
                   size_t lanes, enum tft_num num)
{
    for (size_t i = 0; i < nq; i++) {
        v16 acc = v_load_n(o + i * ldo, lanes);
        for (size_t j = 0; j < n; j++)
            acc = v_fma(v_set(p[i * ldp + j]), load_num_n(v, j * head_dim, lanes, num), acc);
        v_store_n(o + i * ldo, acc, lanes);
    }
}

/* nq rows of o, all channels. */
WIDE void mix_channels(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq, size_t n, size_t head_dim,
                       enum tft_num num)
{
    const char *c = v;
    size_t d = 0, bytes = tft_num_bytes(num);
    for (; d + TILE_V * 16 <= head_dim; d += TILE_V * 16)
        mix_tile(o + d, ldo, p, ldp, c + d * bytes, nq, TILE_V, n, head_dim, num);
    for (; d + 16 <= head_dim; d += 16)
        mix_tile(o + d, ldo, p, ldp, c + d * bytes, nq, 1, n, head_dim, num);
    if (d < head_dim)
        mix_rest(o + d, ldo, p, ldp, c + d * bytes, nq, n, head_dim, head_dim - d, num);
}

WIDE void mix(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq, size_t n, size_t head_dim,
              enum tft_num num)
{
    for (; nq >= TILE_Q; nq -= TILE_Q, o += TILE_Q * ldo, p += TILE_Q * ldp)
        mix_channels(o, ldo, p, ldp, v, TILE_Q, n, head_dim, num);
    for (; nq; nq--, o += ldo, p += ldp)
        mix_channels(o, ldo, p, ldp, v, 1, n, head_dim, num);
}

static void ISA(mix_f32)(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq, size_t n, size_t head_dim)
{
    mix(o, ldo, p, ldp, v, nq, n, head_dim, TFT_NUM_F32);
}

static void ISA(mix_f16)(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq, size_t n, size_t head_dim)
{
    mix(o, ldo, p, ldp, v, nq, n, head_dim, TFT_NUM_F16);
}

static void ISA(blend)(float *y, float a, const float *x, float b, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        put(y + i, v_fma(get(x + i, n - i), v_set(b), v_mul(get(y + i, n - i), v_set(a))), n - i);
}

static void ISA(scale)(float *y, float a, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        put(y + i, v_mul(get(y + i, n - i), v_set(a)), n - i);
}

static void wide_rung(struct tft_kernels *k)
{
    k->gemm[TFT_NUM_F32] = ISA(gemm_f32);
    k->gemm[TFT_NUM_F16] = ISA(gemm_f16);
    k->gemm[TFT_NUM_BF16] = ISA(gemm_bf16);
    k->rmsnorm = ISA(rmsnorm);
    k->layernorm = ISA(layernorm);
    k->rope_pairs = ISA(rope_pairs);
    k->rope_halves = ISA(rope_halves);
    k->silu_mul = ISA(silu_mul);
    k->gelu = ISA(gelu);
    k->add = ISA(add);
    k->widen[TFT_NUM_F16] = ISA(widen_f16);
    k->widen[TFT_NUM_BF16] = ISA(widen_bf16);
    k->narrow[TFT_NUM_F16] = ISA(narrow_f16);
    k->score[TFT_NUM_F32] = ISA(score_f32);
    k->score[TFT_NUM_F16] = ISA(score_f16);
    k->softmax = ISA(softmax);
    k->mix[TFT_NUM_F32] = ISA(mix_f32);
    k->mix[TFT_NUM_F16] = ISA(mix_f16);
    k->blend = ISA(blend);
    k->scale = ISA(scale);
}
