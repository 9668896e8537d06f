/*
 * The float kernels, once for all vector units, in 16 lanes (lanes.h). A rung's .c file includes
 * its registers (reg_*.h), defines its tile sizes and the suffix of its names, and includes this
 * file.
 */
#include "lanes.h"

/* ------------------------------------------------------------------------------- matrix product */

/* A row of w is long from a page on. What is asked of memory ahead of its use: two pages. */
enum { STREAM_ROW = 4096, STREAM_AHEAD = 8192 };

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

/* One piece of mt tokens against nt rows of w, both constants after inlining, an accumulator of 16
   lanes each: x: [mt, ldx], w: [nt, ldw], n numbers of each. Every load of w serves mt products and
   every load of x nt of them; a register's share of the lanes at a time, so that few operands are
   live. A single token waits for memory, and asks for what comes `ahead` bytes further on. */
WIDE void gemm_tile(const struct gemm_out *o, size_t mt, size_t nt, const float *x, size_t ldx,
                    const void *w, size_t ldw, size_t n, enum tft_num num)
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
WIDE void gemm_tokens(struct gemm_out o, size_t nt, const float *x, size_t ldx, const void *w,
                      size_t ldw, size_t M, size_t n, enum tft_num num)
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
WIDE void gemm_rows(struct gemm_out o, const float *x, size_t ldx, const char *w, size_t ldw,
                    size_t M, size_t N, size_t n, enum tft_num num)
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

/* Rows of w that are taken through all their pieces before the next ones. Few tokens wait for w to
   come from memory, and read it front to back: a row at a time where rows are long (one stream
   comes faster than four: 41 against 32 GB/s), a tile's where they are short. Many tokens are a
   block whose share of x stays in the L2 cache while a piece of all rows goes by. */
WIDE size_t rows_at_once(size_t M, size_t N, size_t row_bytes)
{
    if (M > TILE_M)
        return N;
    return M == 1 && row_bytes >= STREAM_ROW ? 1 : TILE_N;
}

/* A block's share of x, 96 tokens x 1024 floats, is 384 KiB, and a tile's share of x and w, 40 KiB,
   about an L1. */
WIDE void gemm(float *y, size_t ldy, const float *x, size_t ldx, const void *w, const float *bias,
               int add, size_t M, size_t N, size_t K, enum tft_num num)
{
    enum { BLOCK = 96 };
    size_t size = tft_num_bytes(num), rows = rows_at_once(M, N, K * size);
    for (size_t m = 0; m < M; m += BLOCK)
        for (size_t n = 0; n < N; n += rows)
            for (size_t k = 0; k < K; k += TFT_PIECE) {
                struct gemm_out o = {y + m * ldy + n, ldy, bias && k == 0 ? bias + n : NULL,
                                     add || k};
                gemm_rows(o, x + m * ldx + k, ldx, (const char *)w + (n * K + k) * size, K,
                          least(BLOCK, M - m), least(rows, N - n), least(TFT_PIECE, K - k), num);
            }
}

#define GEMM(name, num)                                                                            \
    static void ISA(name)(float *y, size_t ldy, const float *x, size_t ldx, const void *w,         \
                          const float *bias, int add, size_t M, size_t N, size_t K)                \
    {                                                                                              \
        gemm(y, ldy, x, ldx, w, bias, add, M, N, K, num);                                          \
    }
GEMM(gemm_f32, TFT_NUM_F32)
GEMM(gemm_f16, TFT_NUM_F16)
GEMM(gemm_bf16, TFT_NUM_BF16)

/* ------------------------------------------------------------------------------ rows of numbers */

/* Where the results of a row go: numbers, or the bytes that q makes of them. Which of the two is
   known when the kernel is inlined. */
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
    return (sink){
        y, true, v_set(q->inverse), v_set((float)-q->zero), v_set((float)(255 - q->zero)), q->zero};
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

static void ISA(rmsnorm_u8)(uint8_t *y, const float *x, const float *w, size_t n, float eps,
                            const struct tft_affine *q)
{
    rmsnorm(to_bytes(y, q), x, w, n, eps);
}

static void ISA(layernorm)(float *y, const float *x, const float *w, const float *b, size_t n,
                           float eps)
{
    layernorm(to_numbers(y), x, w, b, n, eps);
}

static void ISA(layernorm_u8)(uint8_t *y, const float *x, const float *w, const float *b, size_t n,
                              float eps, const struct tft_affine *q)
{
    layernorm(to_bytes(y, q), x, w, b, n, eps);
}

static void ISA(silu_mul)(float *y, const float *a, const float *b, size_t n)
{
    silu_mul(to_numbers(y), a, b, n);
}

static void ISA(silu_mul_u8)(uint8_t *y, const float *a, const float *b, size_t n,
                             const struct tft_affine *q)
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

static void ISA(rope_pairs)(float *x, const float *c, const float *s, size_t n_head,
                            size_t head_dim, size_t n_rot)
{
    for (size_t h = 0; h < n_head; h++, x += head_dim)
        for (size_t i = 0; i < n_rot; i += 16) {
            size_t n = n_rot - i;
            v16 a = get(x + i, n);
            put(x + i, v_fma(a, get(c + i, n), v_mul(v_flip(a, 1), get(s + i, n))), n);
        }
}

static void ISA(rope_halves)(float *x, const float *c, const float *s, size_t n_head,
                             size_t head_dim, size_t n_rot)
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

/* --------------------------------------------------------------------------- Hadamard transform */

/* Stages h = 1 .. block / 2 inside 16 numbers: a lane becomes its partner plus itself, or minus
   itself where the lane has bit h; the product with 1 or -1 is exact, so the fma rounds as a
   sum. */
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

/* The stages among nv vectors that are `stride` numbers apart, 2 or 4 (or 1, which has none), after
   those inside each if `lanes`. */
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

/* Runs of 64 numbers, or of the block, are four vectors side by side; what is left to do are two
   stages at most, among their equals. */
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

/* ------------------------------------------------------------------------------------ attention */

/* nq queries against np panels of 16 keys, both constants after inlining. */
WIDE void score_tile(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq,
                     size_t np, size_t head_dim, float scale, enum tft_num num)
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
WIDE void score_panels(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq,
                       size_t n, size_t head_dim, float scale, enum tft_num num)
{
    const char *panel = k;
    size_t bytes = 16 * head_dim * tft_num_bytes(num), np = (n + 15) / 16;
    for (; np >= TILE_V; np -= TILE_V, panel += TILE_V * bytes, s += TILE_V * 16)
        score_tile(s, ns, q, ldq, panel, nq, TILE_V, head_dim, scale, num);
    for (; np; np--, panel += bytes, s += 16)
        score_tile(s, ns, q, ldq, panel, nq, 1, head_dim, scale, num);
}

WIDE void score(float *s, size_t ns, const float *q, size_t ldq, const void *k, size_t nq, size_t n,
                size_t head_dim, float scale, enum tft_num num)
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

static void ISA(score_f32)(float *s, size_t ns, const float *q, size_t ldq, const void *k,
                           size_t nq, size_t n, size_t head_dim, float scale)
{
    score(s, ns, q, ldq, k, nq, n, head_dim, scale, TFT_NUM_F32);
}

static void ISA(score_f16)(float *s, size_t ns, const float *q, size_t ldq, const void *k,
                           size_t nq, size_t n, size_t head_dim, float scale)
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
WIDE void mix_tile(float *o, size_t ldo, const float *w, size_t ldw, const void *v, size_t nq,
                   size_t nd, size_t n, size_t head_dim, enum tft_num num)
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
WIDE void mix_rest(float *o, size_t ldo, const float *w, size_t ldw, const void *v, size_t nq,
                   size_t n, size_t head_dim, size_t channels, enum tft_num num)
{
    for (size_t i = 0; i < nq; i++) {
        v16 acc = v_load_rest(o + i * ldo, 0, channels, TFT_NUM_F32);
        for (size_t j = 0; j < n; j++)
            acc = v_fma(v_set(w[i * ldw + j]), v_load_rest(v, j * head_dim, channels, num), acc);
        v_store_rest(o + i * ldo, acc, channels);
    }
}

/* nq rows of o, all channels. */
WIDE void mix_channels(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq,
                       size_t n, size_t head_dim, enum tft_num num)
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

WIDE void mix(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq, size_t n,
              size_t head_dim, enum tft_num num)
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

static void ISA(mix_f32)(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq,
                         size_t n, size_t head_dim)
{
    mix(o, ldo, p, ldp, v, nq, n, head_dim, TFT_NUM_F32);
}

static void ISA(mix_f16)(float *o, size_t ldo, const float *p, size_t ldp, const void *v, size_t nq,
                         size_t n, size_t head_dim)
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

/* ----------------------------------------------------------------------------------- quantizing */

static void ISA(widen_f8)(float *y, const uint8_t *x, size_t n, float unit)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(y + i, v_mul(v_load_f8(x + i), v_set(unit)));
    if (i < n) {
        uint8_t rest[16] = {0};
        memcpy(rest, x + i, n - i);
        v_store_rest(y + i, v_mul(v_load_f8(rest), v_set(unit)), n - i);
    }
}

/* Numbers as f16 or f8 keep them. An E4M3 has 3 bits after its first, or units of 2^-9: those of
   1.5 * 2^20 times its power of two. */
WIDE v16 kept(v16 a, bool f8, float unit)
{
    v16 most = v_set(f8 ? TFT_F8_MAX : 65504.0f), zero = v_set(0);
    a = f8 ? v_div(a, v_set(unit)) : a;
    a = v_min(v_max(a, v_sub(zero, most)), most);
    if (f8) {
        v16 power = v_mul(v_max(v_bits(a, 0x7f800000), v_set(0x1p-6f)), v_set(0x1.8p20f));
        a = v_mul(v_sub(v_add(a, power), power), v_set(unit));
    } else {
        uint16_t h[16];
        UNROLL for (int p = 0; p < PARTS; p++) r_store_f16(h + p * LANES, a.r[p]);
        a = v_load_num(h, 0, TFT_NUM_F16);
    }
    return v_add(a, zero); /* never -0 */
}

typedef struct {
    v16 scale, mid, inverse, half;
} fitted;

WIDE fitted clipped(v16 low, v16 high, v16 half, float clip, const struct tft_fit *how)
{
    v16 part = v_set(how->to_zero ? 1 : clip), end = v_set(how->to_zero ? clip : 1);
    low = v_mul(low, end);
    high = v_mul(high, end);
    v16 scale = v_mul(v_div(v_sub(high, low), v_add(half, half)), part),
        mid = v_mul(v_add(high, low), v_set(0.5f));
    fitted f = {kept(scale, how->f8, how->scale_unit), kept(mid, how->f8, how->mid_unit), v_set(0),
                half};
    f.inverse = v_pick(f.scale, v_set(FLT_MIN), v_set(0), v_div(v_set(1), f.scale));
    return f;
}

WIDE v16 code_of(v16 x, const fitted *f)
{
    v16 c = v_fma(v_sub(x, f->mid), f->inverse, f->half);
    return v_rint(v_min(v_max(c, v_set(0)), v_add(f->half, f->half)));
}

WIDE v16 error_of(const float *x, size_t ldx, size_t n, const fitted *f)
{
    v16 error = v_set(0);
    for (size_t k = 0; k < n; k++) {
        v16 a = v_load(x + k * ldx),
            e = v_sub(a, v_fma(v_sub(code_of(a, f), f->half), f->scale, f->mid));
        error = v_fma(e, e, error);
    }
    return error;
}

static void ISA(fit)(uint8_t *code, size_t ldc, float *scale, float *mid, const float *x,
                     size_t ldx, size_t n, const float *half, const struct tft_fit *how)
{
    v16 low = v_set(INFINITY), high = v_set(-INFINITY);
    for (size_t k = 0; k < n; k++) {
        low = v_min(v_load(x + k * ldx), low);
        high = v_max(v_load(x + k * ldx), high);
    }
    fitted best = clipped(low, high, v_load(half), how->clip[0], how);
    v16 least_error = how->n_clip > 1 ? error_of(x, ldx, n, &best) : v_set(0);
    for (size_t i = 1; i < how->n_clip; i++) {
        fitted f = clipped(low, high, best.half, how->clip[i], how);
        v16 error = error_of(x, ldx, n, &f);
        best.scale = v_pick(error, least_error, f.scale, best.scale);
        best.mid = v_pick(error, least_error, f.mid, best.mid);
        best.inverse = v_pick(error, least_error, f.inverse, best.inverse);
        least_error = v_pick(error, least_error, error, least_error);
    }
    v_store(scale, best.scale);
    v_store(mid, best.mid);
    for (size_t k = 0; k < n; k++) {
        v16 c = code_of(v_load(x + k * ldx), &best);
        UNROLL for (int p = 0; p < PARTS; p++) r_store_bytes(code + k * ldc + p * LANES, c.r[p], 0);
    }
}

/* --------------------------------------------------------------------------------------- limits */

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
    k->fit = ISA(fit);
    k->widen_f8 = ISA(widen_f8);
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
