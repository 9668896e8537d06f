/*
 * The float kernels, once for all vector units. The contract of kernels.h is written in 16 lanes, so the code is too: a v16 is one
 * register of AVX-512, two of AVX2, four of NEON. A rung's .c file includes its registers (reg_*.h), defines its tile sizes and
 * the suffix of its names, and includes this file. What a register must offer:
 *
 *   reg, LANES                          4, 8 or 16 floats
 *   r_set, r_add .. r_fma               in every lane what the contract says one operation does; r_fma(a, b, c) is a * b + c
 *   r_max, r_min                        of a NaN and b it is b
 *   r_flip(a, h)                        lanes i and i ^ h exchanged, h = 1, 2 .. LANES / 2, a constant
 *   r_load, r_load_f16, r_load_bf16     LANES numbers, unaligned; r_store and r_store_f16 likewise
 *   r_store_bytes(p, a, zero)           (int)rint(a) + zero, which is in 0 .. 255
 *   r_centre                            for dot.h, the integer product
 *   r_sum, r_top                        the rest of sum16's tree, and the maximum over the lanes
 *   r_exp, with SLEEF or HAVE_EXP       tft_expf in every lane; without, the compiler makes it here from the C function
 */
#include <math.h>
#include <string.h>

#include "expf.h"
#include "half.h"
#include "peak.h"

#define WIDE static inline __attribute__((always_inline))
enum { PARTS = 16 / LANES };

typedef struct {
    reg r[PARTS];
} v16;

#if !TFT_SLEEF && !defined HAVE_EXP
WIDE reg r_exp(reg a)
{
    float t[LANES];
    r_store(t, a);
    for (int i = 0; i < LANES; i++)
        t[i] = tft_expf(t[i]);
    return r_load(t);
}
#endif

#define EACH_PART(expr)                                                                                              \
    v16 y;                                                                                                           \
    UNROLL for (int p = 0; p < PARTS; p++) y.r[p] = (expr);                                                          \
    return y

WIDE v16 v_set(float x) { EACH_PART(r_set(x)); }
WIDE v16 v_add(v16 a, v16 b) { EACH_PART(r_add(a.r[p], b.r[p])); }
WIDE v16 v_sub(v16 a, v16 b) { EACH_PART(r_sub(a.r[p], b.r[p])); }
WIDE v16 v_mul(v16 a, v16 b) { EACH_PART(r_mul(a.r[p], b.r[p])); }
WIDE v16 v_div(v16 a, v16 b) { EACH_PART(r_div(a.r[p], b.r[p])); }
WIDE v16 v_max(v16 a, v16 b) { EACH_PART(r_max(a.r[p], b.r[p])); }
WIDE v16 v_min(v16 a, v16 b) { EACH_PART(r_min(a.r[p], b.r[p])); }
WIDE v16 v_fma(v16 a, v16 b, v16 c) { EACH_PART(r_fma(a.r[p], b.r[p], c.r[p])); }
WIDE v16 v_flip(v16 a, int h) { EACH_PART(h < LANES ? r_flip(a.r[p], h) : a.r[p ^ h / LANES]); }
WIDE v16 v_exp(v16 a) { EACH_PART(r_exp(a.r[p])); }
WIDE v16 v_load(const float *x) { EACH_PART(r_load(x + p * LANES)); }
WIDE void v_store(float *y, v16 a)
{
    UNROLL for (int p = 0; p < PARTS; p++) r_store(y + p * LANES, a.r[p]);
}

WIDE float v_sum(v16 a)
{
    UNROLL for (int half = PARTS / 2; half; half /= 2)
        UNROLL for (int p = 0; p < half; p++) a.r[p] = r_add(a.r[p], a.r[p + half]);
    return r_sum(a.r[0]);
}

WIDE float v_top(v16 a)
{
    UNROLL for (int p = 1; p < PARTS; p++) a.r[0] = r_max(a.r[0], a.r[p]);
    return r_top(a.r[0]);
}

/* LANES numbers of the slot's type. */
WIDE reg r_load_num(const void *x, size_t k, enum tft_num num)
{
    return num == TFT_NUM_F32   ? r_load((const float *)x + k)
           : num == TFT_NUM_F16 ? r_load_f16((const uint16_t *)x + k)
                                : r_load_bf16((const uint16_t *)x + k);
}

WIDE v16 v_load_num(const void *x, size_t k, enum tft_num num)
{
    EACH_PART(r_load_num(x, k + (size_t)p * LANES, num));
}

/* The last n < 16 numbers of a row go through memory of ours, so that nothing past them is touched; the other lanes are 0. */
WIDE v16 v_load_rest(const void *x, size_t k, size_t n, enum tft_num num)
{
    char t[16 * sizeof(float)] = {0};
    memcpy(t, (const char *)x + k * tft_num_bytes(num), n * tft_num_bytes(num));
    return v_load_num(t, 0, num);
}

WIDE void v_store_rest(float *y, v16 a, size_t n)
{
    float t[16];
    v_store(t, a);
    memcpy(y, t, n * sizeof *t);
}

/* The next 16 numbers of a row, or the n that are left. */
WIDE v16 get(const float *x, size_t n)
{
    return n >= 16 ? v_load(x) : v_load_rest(x, 0, n, TFT_NUM_F32);
}

WIDE void put(float *y, v16 a, size_t n)
{
    if (n >= 16)
        v_store(y, a);
    else
        v_store_rest(y, a, n);
}

WIDE v16 keep_rest(v16 sum, v16 old, size_t n)
{
    float t[16];
    v_store(t, old);
    v_store_rest(t, sum, n);
    return v_load(t);
}

/* The sum, but the old value in lanes past the end of the row. */
WIDE v16 keep(v16 sum, v16 old, size_t n)
{
    return n >= 16 ? sum : keep_rest(sum, old, n);
}

/* ------------------------------------------------------------------------------------------ matrix product */

/* A row of w is long from a page on. What is asked of memory ahead of its use: two pages. */
enum { STREAM_ROW = 4096, STREAM_AHEAD = 8192 };

static inline size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* One tile of outputs: where it goes, and what it starts from. */
struct gemm_out {
    float *y;
    size_t ldy;
    const float *bias; /* of the first row of w in hand, or NULL */
    int add;           /* to y */
};

WIDE void put_sums(const struct gemm_out *o, size_t m, size_t nt, const float *sum)
{
    float *y = o->y + m * o->ldy, start[TILE_N];
    for (size_t j = 0; j < nt; j++)
        start[j] = o->add ? y[j] : 0;
    if (o->bias)
        for (size_t j = 0; j < nt; j++)
            start[j] += o->bias[j];
    for (size_t j = 0; j < nt; j++)
        y[j] = start[j] + sum[j];
}

/* One piece of mt tokens against nt rows of w, both constants after inlining, an accumulator of 16 lanes each: x: [mt, ldx],
   w: [nt, ldw], n numbers of each. Every load of w serves mt products and every load of x nt of them; a register's share of the lanes
   at a time, so that few operands are live. A single token waits for memory, and asks for what comes `ahead` bytes further on. */
WIDE void gemm_tile(const struct gemm_out *o, size_t mt, size_t nt, const float *x, size_t ldx, const void *w, size_t ldw, size_t n,
                    enum tft_num num)
{
    size_t ahead = nt > 1 ? nt * ldw * tft_num_bytes(num) : STREAM_AHEAD;
    const char *row[TILE_N];
    v16 acc[TILE_M][TILE_N];
    UNROLL for (size_t j = 0; j < nt; j++)
        row[j] = (const char *)w + j * ldw * tft_num_bytes(num);
    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t j = 0; j < nt; j++)
            acc[i][j] = v_set(0);

    size_t k = 0;
    for (; k + 16 <= n; k += 16) {
        if (mt == 1)
            UNROLL for (size_t j = 0; j < nt; j++)
                __builtin_prefetch(row[j] + ahead + k * tft_num_bytes(num));
        UNROLL for (size_t p = 0; p < PARTS; p++) {
            reg b[TILE_N];
            UNROLL for (size_t j = 0; j < nt; j++)
                b[j] = r_load_num(row[j], k + p * LANES, num);
            UNROLL for (size_t i = 0; i < mt; i++) {
                reg a = r_load(x + i * ldx + k + p * LANES);
                UNROLL for (size_t j = 0; j < nt; j++)
                    acc[i][j].r[p] = r_fma(a, b[j], acc[i][j].r[p]);
            }
        }
    }
    if (k < n)
        UNROLL for (size_t j = 0; j < nt; j++) {
            v16 b = v_load_rest(row[j], k, n - k, num);
            UNROLL for (size_t i = 0; i < mt; i++) {
                v16 a = v_load_rest(x + i * ldx, k, n - k, TFT_NUM_F32);
                acc[i][j] = keep_rest(v_fma(a, b, acc[i][j]), acc[i][j], n - k);
            }
        }

    UNROLL for (size_t i = 0; i < mt; i++) {
        float sum[TILE_N];
#ifdef HAVE_SUM4
        if (nt == 4)
            r_sum4(sum, acc[i][0].r[0], acc[i][1].r[0], acc[i][2].r[0], acc[i][3].r[0]);
        else
#endif
            UNROLL for (size_t j = 0; j < nt; j++)
                sum[j] = v_sum(acc[i][j]);
        put_sums(o, i, nt, sum);
    }
}

/* One piece of M tokens against nt rows of w. */
WIDE void gemm_tokens(struct gemm_out o, size_t nt, const float *x, size_t ldx, const void *w, size_t ldw, size_t M, size_t n,
                      enum tft_num num)
{
    for (; M >= TILE_M; M -= TILE_M) {
        gemm_tile(&o, TILE_M, nt, x, ldx, w, ldw, n, num);
        x += TILE_M * ldx;
        o.y += TILE_M * o.ldy;
    }
    switch (M) {
#if TILE_M > 4
    case 5: gemm_tile(&o, 5, nt, x, ldx, w, ldw, n, num); break;
    case 4: gemm_tile(&o, 4, nt, x, ldx, w, ldw, n, num); break;
    case 3: gemm_tile(&o, 3, nt, x, ldx, w, ldw, n, num); break;
#endif
    case 2: gemm_tile(&o, 2, nt, x, ldx, w, ldw, n, num); break;
    case 1: gemm_tile(&o, 1, nt, x, ldx, w, ldw, n, num); break;
    }
}

/* One piece of M tokens against N rows of w. */
WIDE void gemm_rows(struct gemm_out o, const float *x, size_t ldx, const char *w, size_t ldw, size_t M, size_t N, size_t n,
                    enum tft_num num)
{
    for (size_t nt; N; N -= nt) {
        nt = N >= TILE_N ? TILE_N : 1;
        if (nt == TILE_N)
            gemm_tokens(o, TILE_N, x, ldx, w, ldw, M, n, num);
        else
            gemm_tokens(o, 1, x, ldx, w, ldw, M, n, num);
        w += nt * ldw * tft_num_bytes(num);
        o.y += nt;
        o.bias = o.bias ? o.bias + nt : NULL;
    }
}

/* Rows of w that are taken through all their pieces before the next ones. Few tokens wait for w to come from memory, and read it front to
   back: a row at a time where rows are long (one stream comes faster than four: 41 against 32 GB/s), a tile's where they are short. Many
   tokens are a block whose share of x stays in the L2 cache while a piece of all rows goes by. */
WIDE size_t rows_at_once(size_t M, size_t N, size_t row_bytes)
{
    if (M > TILE_M)
        return N;
    return M == 1 && row_bytes >= STREAM_ROW ? 1 : TILE_N;
}

/* A block's share of x, 96 tokens x 1024 floats, is 384 KiB, and a tile's share of x and w, 40 KiB, about an L1. */
WIDE void gemm(float *y, size_t ldy, const float *x, size_t ldx, const void *w, const float *bias, int add, size_t M, size_t N,
               size_t K, enum tft_num num)
{
    enum { BLOCK = 96 };
    size_t size = tft_num_bytes(num), rows = rows_at_once(M, N, K * size);
    for (size_t m = 0; m < M; m += BLOCK)
        for (size_t n = 0; n < N; n += rows)
            for (size_t k = 0; k < K; k += TFT_PIECE) {
                struct gemm_out o = {y + m * ldy + n, ldy, bias && k == 0 ? bias + n : NULL, add || k};
                gemm_rows(o, x + m * ldx + k, ldx, (const char *)w + (n * K + k) * size, K, least(BLOCK, M - m), least(rows, N - n),
                          least(TFT_PIECE, K - k), num);
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

/* Where the results of a row go: numbers, or the bytes that q makes of them. Which of the two is known when the kernel is inlined. */
typedef struct {
    void *y;
    bool bytes;
    v16 inverse, low, high;
    int32_t zero;
} sink;

WIDE sink to_numbers(float *y)
{
    return (sink){.y = y};
}

WIDE sink to_bytes(uint8_t *y, const struct tft_affine *q)
{
    return (sink){y, true, v_set(q->inverse), v_set((float)-q->zero), v_set((float)(255 - q->zero)), q->zero};
}

WIDE void put_bytes(const sink *s, size_t i, v16 a, size_t n)
{
    v16 t = v_min(v_max(v_mul(a, s->inverse), s->low), s->high); /* NaN becomes low */
    uint8_t rest[16], *y = n >= 16 ? (uint8_t *)s->y + i : rest;
    UNROLL for (int p = 0; p < PARTS; p++) r_store_bytes(y + p * LANES, t.r[p], s->zero);
    if (n < 16)
        memcpy((uint8_t *)s->y + i, rest, n);
}

/* Results i .. i + 15, or the n that are left. */
WIDE void emit(const sink *s, size_t i, v16 a, size_t n)
{
    if (s->bytes)
        put_bytes(s, i, a, n);
    else
        put((float *)s->y + i, a, n);
}

static void ISA(quantize)(uint8_t *y, const float *x, size_t n, const struct tft_affine *q)
{
    sink s = to_bytes(y, q);
    for (size_t i = 0; i < n; i += 16)
        emit(&s, i, get(x + i, n - i), n - i);
}

WIDE void rmsnorm(sink y, const float *x, const float *w, size_t n, float eps)
{
    v16 sum = v_set(0);
    for (size_t i = 0; i < n; i += 16) {
        v16 a = get(x + i, n - i);
        sum = keep(v_fma(a, a, sum), sum, n - i);
    }
    v16 r = v_set(1.0f / sqrtf(v_sum(sum) / (float)n + eps));
    for (size_t i = 0; i < n; i += 16)
        emit(&y, i, v_mul(v_mul(get(x + i, n - i), r), get(w + i, n - i)), n - i);
}

WIDE void layernorm(sink y, const float *x, const float *w, const float *b, size_t n, float eps)
{
    v16 sum = v_set(0), squares = v_set(0);
    for (size_t i = 0; i < n; i += 16)
        sum = keep(v_add(sum, get(x + i, n - i)), sum, n - i);
    v16 mean = v_set(v_sum(sum) / (float)n);
    for (size_t i = 0; i < n; i += 16) {
        v16 d = v_sub(get(x + i, n - i), mean);
        squares = keep(v_fma(d, d, squares), squares, n - i);
    }
    v16 r = v_set(1.0f / sqrtf(v_sum(squares) / (float)n + eps));
    for (size_t i = 0; i < n; i += 16) {
        v16 d = v_sub(get(x + i, n - i), mean);
        emit(&y, i, v_fma(v_mul(d, r), get(w + i, n - i), get(b + i, n - i)), n - i);
    }
}

/* a / (1 + exp(-u)) */
WIDE v16 gated(v16 a, v16 u)
{
    return v_div(a, v_add(v_set(1.0f), v_exp(v_sub(v_set(-0.0f), u))));
}

WIDE void silu_mul(sink y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        v16 g = get(a + i, n - i);
        emit(&y, i, v_mul(gated(g, g), get(b + i, n - i)), n - i);
    }
}

WIDE void gelu(sink y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        v16 a = get(x + i, n - i);
        v16 u = v_mul(a, v_fma(v_mul(a, a), v_set(TFT_GELU_G3), v_set(TFT_GELU_G1)));
        emit(&y, i, gated(a, u), n - i);
    }
}

static void ISA(rmsnorm)(float *y, const float *x, const float *w, size_t n, float eps)
{
    rmsnorm(to_numbers(y), x, w, n, eps);
}

static void ISA(rmsnorm_u8)(uint8_t *y, const float *x, const float *w, size_t n, float eps, const struct tft_affine *q)
{
    rmsnorm(to_bytes(y, q), x, w, n, eps);
}

static void ISA(layernorm)(float *y, const float *x, const float *w, const float *b, size_t n, float eps)
{
    layernorm(to_numbers(y), x, w, b, n, eps);
}

static void ISA(layernorm_u8)(uint8_t *y, const float *x, const float *w, const float *b, size_t n, float eps,
                              const struct tft_affine *q)
{
    layernorm(to_bytes(y, q), x, w, b, n, eps);
}

static void ISA(silu_mul)(float *y, const float *a, const float *b, size_t n)
{
    silu_mul(to_numbers(y), a, b, n);
}

static void ISA(silu_mul_u8)(uint8_t *y, const float *a, const float *b, size_t n, const struct tft_affine *q)
{
    silu_mul(to_bytes(y, q), a, b, n);
}

static void ISA(gelu)(float *y, const float *x, size_t n)
{
    gelu(to_numbers(y), x, n);
}

static void ISA(gelu_u8)(uint8_t *y, const float *x, size_t n, const struct tft_affine *q)
{
    gelu(to_bytes(y, q), x, n);
}

static void ISA(rope_pairs)(float *x, const float *c, const float *s, size_t n_head, size_t head_dim, size_t n_rot)
{
    for (size_t h = 0; h < n_head; h++, x += head_dim)
        for (size_t i = 0; i < n_rot; i += 16) {
            size_t n = n_rot - i;
            v16 a = get(x + i, n);
            put(x + i, v_fma(a, get(c + i, n), v_mul(v_flip(a, 1), get(s + i, n))), n);
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

static void ISA(add)(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        put(y + i, v_add(get(y + i, n - i), get(x + i, n - i)), n - i);
}

WIDE void widen(float *y, const void *x, size_t n, enum tft_num num)
{
    for (size_t i = 0; i < n; i += 16)
        put(y + i, n - i >= 16 ? v_load_num(x, i, num) : v_load_rest(x, i, n - i, num), n - i);
}

static void ISA(widen_f16)(float *y, const void *x, size_t n)
{
    widen(y, x, n, TFT_NUM_F16);
}

static void ISA(widen_bf16)(float *y, const void *x, size_t n)
{
    widen(y, x, n, TFT_NUM_BF16);
}

static void ISA(narrow_f16)(void *y, const float *x, size_t n)
{
    uint16_t *h = y;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        r_store_f16(h + i, r_load(x + i));
    for (; i < n; i++)
        h[i] = tft_f32_to_f16(x[i]);
}

static void ISA(range)(const float *x, size_t n, float *min, float *max)
{
    v16 low = v_set(0), high = v_set(0); /* a lane past the end holds 0 */
    for (size_t i = 0; i < n; i += 16) {
        v16 a = get(x + i, n - i);
        low = v_min(a, low);
        high = v_max(a, high);
    }
    *min = 0.0f - v_top(v_sub(v_set(-0.0f), low)); /* never -0 */
    *max = v_top(high) + 0.0f;
}

/* -------------------------------------------------------------------------------------- Hadamard transform */

/* Stages h = 1 .. block / 2 inside 16 numbers: a lane becomes its partner plus itself, or minus itself where the lane has bit h; the product
   with 1 or -1 is exact, so the fma rounds as a sum. */
WIDE v16 hadamard_lanes(v16 a, int block)
{
    static const float sign[4][16] = {{1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
                                      {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
                                      {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
                                      {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1}};
    if (block > 1)
        a = v_fma(a, v_load(sign[0]), v_flip(a, 1));
    if (block > 2)
        a = v_fma(a, v_load(sign[1]), v_flip(a, 2));
    if (block > 4)
        a = v_fma(a, v_load(sign[2]), v_flip(a, 4));
    if (block > 8)
        a = v_fma(a, v_load(sign[3]), v_flip(a, 8));
    return a;
}

WIDE void butterfly(v16 *a, v16 *b)
{
    v16 sum = v_add(*a, *b);
    *b = v_sub(*a, *b);
    *a = sum;
}

/* The stages among nv vectors that are `stride` numbers apart, 2 or 4 of them (or 1, which has none), after those inside each if `lanes`. */
WIDE void hadamard_vectors(float *x, size_t stride, int nv, bool lanes)
{
    v16 a[4];
    UNROLL for (int v = 0; v < nv; v++) {
        a[v] = v_load(x + v * stride);
        if (lanes)
            a[v] = hadamard_lanes(a[v], 16);
    }
    if (nv > 1)
        butterfly(&a[0], &a[1]);
    if (nv > 2) {
        butterfly(&a[2], &a[3]);
        butterfly(&a[0], &a[2]);
        butterfly(&a[1], &a[3]);
    }
    UNROLL for (int v = 0; v < nv; v++)
        v_store(x + v * stride, a[v]);
}

WIDE void hadamard_some(float *x, size_t stride, size_t nv, bool lanes)
{
    switch (nv) {
    case 4: hadamard_vectors(x, stride, 4, lanes); break;
    case 2: hadamard_vectors(x, stride, 2, lanes); break;
    default: hadamard_vectors(x, stride, 1, lanes);
    }
}

/* Runs of 64 numbers, or of the block, are four vectors side by side; what is left to do are two stages at most, among their equals. */
static void ISA(hadamard)(float *x, size_t n, size_t block)
{
    if (block < 16) {
        for (size_t i = 0; i < n; i += 16)
            put(x + i, hadamard_lanes(get(x + i, n - i), (int)block), n - i);
        return;
    }
    for (size_t run = least(block, 64); n; n -= block, x += block) {
        for (size_t i = 0; i < block; i += run)
            hadamard_some(x + i, 16, run / 16, true);
        if (block > run)
            for (size_t i = 0; i < run; i += 16)
                hadamard_some(x + i, run, block / run, false);
    }
}

/* ----------------------------------------------------------------------------------------------- attention */

/* nq queries against np panels of 16 keys, both constants after inlining. */
WIDE void score_tile(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq, size_t np, size_t head_dim,
                     float scale, enum tft_num num)
{
    v16 acc[TILE_Q][TILE_V];
    UNROLL for (size_t i = 0; i < nq; i++)
        UNROLL for (size_t j = 0; j < np; j++)
            acc[i][j] = v_set(0);

    for (size_t d = 0; d < head_dim; d++)
        UNROLL for (size_t p = 0; p < PARTS; p++) {
            reg b[TILE_V];
            UNROLL for (size_t j = 0; j < np; j++)
                b[j] = r_load_num(k, (j * head_dim + d) * 16 + p * LANES, num);
            UNROLL for (size_t i = 0; i < nq; i++) {
                reg a = r_set(q[i * ldq + d]);
                UNROLL for (size_t j = 0; j < np; j++)
                    acc[i][j].r[p] = r_fma(a, b[j], acc[i][j].r[p]);
            }
        }

    UNROLL for (size_t i = 0; i < nq; i++)
        UNROLL for (size_t j = 0; j < np; j++)
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
    switch (nq) {
#if TILE_Q > 3
    case 3: score_panels(s, ns, q, ldq, k, 3, n, head_dim, scale, num); break;
#endif
    case 2: score_panels(s, ns, q, ldq, k, 2, n, head_dim, scale, num); break;
    case 1: score_panels(s, ns, q, ldq, k, 1, n, head_dim, scale, num); break;
    }
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

    v16 m = v_set(*max), total = v_set(0);
    for (size_t j = 0; j < n; j += 16) {
        v16 e = v_exp(v_sub(get(p + j, n - j), m));
        put(p + j, e, n - j);
        total = keep(v_add(total, e), total, n - j);
    }
    *sum = v_sum(total);
}

/* nq rows of o, nd vectors of their channels, both constants after inlining. */
WIDE void mix_tile(float *o, size_t ldo, const float *w, size_t ldw, const void *v, size_t nq, size_t nd, size_t n,
                   size_t head_dim, enum tft_num num)
{
    v16 acc[TILE_Q][TILE_V];
    UNROLL for (size_t i = 0; i < nq; i++)
        UNROLL for (size_t d = 0; d < nd; d++)
            acc[i][d] = v_load(o + i * ldo + d * 16);

    for (size_t j = 0; j < n; j++)
        UNROLL for (size_t p = 0; p < PARTS; p++) {
            reg b[TILE_V];
            UNROLL for (size_t d = 0; d < nd; d++)
                b[d] = r_load_num(v, j * head_dim + d * 16 + p * LANES, num);
            UNROLL for (size_t i = 0; i < nq; i++) {
                reg a = r_set(w[i * ldw + j]);
                UNROLL for (size_t d = 0; d < nd; d++)
                    acc[i][d].r[p] = r_fma(a, b[d], acc[i][d].r[p]);
            }
        }

    UNROLL for (size_t i = 0; i < nq; i++)
        UNROLL for (size_t d = 0; d < nd; d++)
            v_store(o + i * ldo + d * 16, acc[i][d]);
}

/* The last few channels of a head whose size is no multiple of 16. */
WIDE void mix_rest(float *o, size_t ldo, const float *w, size_t ldw, const void *v, size_t nq, size_t n, size_t head_dim,
                   size_t channels, enum tft_num num)
{
    for (size_t i = 0; i < nq; i++) {
        v16 acc = v_load_rest(o + i * ldo, 0, channels, TFT_NUM_F32);
        for (size_t j = 0; j < n; j++)
            acc = v_fma(v_set(w[i * ldw + j]), v_load_rest(v, j * head_dim, channels, num), acc);
        v_store_rest(o + i * ldo, acc, channels);
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
    switch (nq) {
#if TILE_Q > 3
    case 3: mix_channels(o, ldo, p, ldp, v, 3, n, head_dim, num); break;
#endif
    case 2: mix_channels(o, ldo, p, ldp, v, 2, n, head_dim, num); break;
    case 1: mix_channels(o, ldo, p, ldp, v, 1, n, head_dim, num); break;
    }
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

/* ------------------------------------------------------------------------------------------------ limits */

TFT_PEAK(ISA(peak_fma), reg, r_set(1), r_fma(a, acc[i], a), 2 * LANES)

static float ISA(read)(const float *x, size_t n)
{
    v16 sum[4];
    UNROLL for (int i = 0; i < 4; i++) sum[i] = v_set(0);
    for (size_t k = 0; k < n; k += 64)
        UNROLL for (int i = 0; i < 4; i++) sum[i] = v_max(sum[i], v_load(x + k + i * 16));
    return v_top(v_max(v_max(sum[0], sum[1]), v_max(sum[2], sum[3])));
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
    k->quantize = ISA(quantize);
    k->rmsnorm_u8 = ISA(rmsnorm_u8);
    k->layernorm_u8 = ISA(layernorm_u8);
    k->silu_mul_u8 = ISA(silu_mul_u8);
    k->gelu_u8 = ISA(gelu_u8);
    k->hadamard = ISA(hadamard);
    k->range = ISA(range);
    k->peak_fma = ISA(peak_fma);
    k->read = ISA(read);
}
