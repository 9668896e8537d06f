/*
 * The integer matrix product, once for all vector units, as wide.h has the float kernels. A sum is
 * exact, so every order of its terms is the right one, and only the last few operations, in floats,
 * are those of the contract of kernels.h. A rung's .c file includes its registers (reg_*.h), says
 * how its unit multiplies a few quads (panel.h) of a panel by those of a token, defines its sizes
 * and the suffix of its names, and includes this file. What a unit must offer:
 *
 *   DOT_ROWS                    tokens that are multiplied at once: 1, or 2 where an instruction
 *                               multiplies small matrices
 *   d_acc                       the sums of DOT_ROWS tokens and a panel's 16 rows, however they
 *                               lie; d_zero() and d_add(a, b)
 *   d_store(sum, next, acc)     the 16 sums as they are in memory, those of a second token `next`
 *                               further on
 *   d_weights, d_load(p)        DOT_QUADS quads of a panel
 *   d_bytes, d_token(x, next)   16 bytes of DOT_ROWS tokens, the second one `next` further on
 *   d_dot(acc, w, x, s)         acc + the products of w and the s-th DOT_QUADS quads of x
 *   DOT_FLIP                    128 where d_dot takes the bytes of a token as x - 128, or 0
 *   DOT_TOKENS, DOT_PANELS      the largest tile, in units of DOT_ROWS tokens, and in panels: what
 *                               the registers hold
 */
#include <string.h>

#include "peak.h"

#define DOT static inline __attribute__((always_inline))

/* DOT_STEPS times d_dot is 16 bytes of a token: cols is a multiple of that. */
enum {
    DOT_STEPS = TFT_K_PAD / (TFT_QUAD * DOT_QUADS),
    DOT_BYTES = TFT_PANEL * TFT_QUAD * DOT_QUADS,
    DOT_ACCS = DOT_TOKENS * DOT_PANELS
};

/* What is asked for ahead of its use: few tokens wait for memory, two pages of it; many for the L2
   cache. */
enum { DOT_AHEAD_MEMORY = 8192, DOT_AHEAD_CACHE = 4096, DOT_LINE = 64 };

/* sum: [tokens, np, 16], x: [tokens, ldx], w: [np] panels. mt = ceil(tokens / DOT_ROWS) and np are
   constants after inlining; an odd token is multiplied twice. Where there are fewer sums than hide
   the latency of d_dot, each is made of `ways` that are added at the end. */
DOT void dot_tile(int32_t *sum, const uint8_t *x, size_t ldx, const int8_t *w, size_t cols,
                  size_t tokens, size_t mt, size_t np)
{
    size_t ways = DOT_ACCS / (mt * np) >= 4 && DOT_STEPS >= 4 ? 4
                  : DOT_ACCS / (mt * np) >= 2                 ? 2
                                                              : 1;
    d_acc acc[DOT_TOKENS][4];
    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t a = 0; a < np * ways; a++)
            acc[i][a] = d_zero();

    const uint8_t *row[DOT_TOKENS]; /* every third: x86 has no registers for all, but addresses of
                                       row + 0, 1, 2 times ldx */
    UNROLL for (size_t i = 0; i < mt; i += 3)
        row[i] = x + i * DOT_ROWS * ldx;
    for (size_t k = 0; k < cols; k += TFT_K_PAD) {
        d_bytes b[DOT_TOKENS];
        UNROLL for (size_t i = 0; i < mt; i++) b[i] = d_token(
            row[i - i % 3] + i % 3 * DOT_ROWS * ldx, (i + 1) * DOT_ROWS <= tokens ? ldx : 0);
        UNROLL for (size_t s = 0; s < DOT_STEPS; s++) {
            d_weights v[DOT_PANELS];
            UNROLL for (size_t j = 0; j < np; j++) {
                const int8_t *p = w + j * TFT_PANEL * cols + k * TFT_PANEL + s * DOT_BYTES;
                v[j] = d_load(p);
                UNROLL for (size_t line = 0; line < DOT_BYTES; line += DOT_LINE)
                    __builtin_prefetch(p + line + (np == 1 ? DOT_AHEAD_MEMORY : DOT_AHEAD_CACHE));
            }
            UNROLL for (size_t i = 0; i < mt; i++)
                UNROLL for (size_t j = 0; j < np; j++)
                    acc[i][j * ways + s % ways] = d_dot(acc[i][j * ways + s % ways], v[j], b[i], s);
        }
        UNROLL for (size_t i = 0; i < mt; i += 3) {
            row[i] += TFT_K_PAD;
            __asm__("" : "+r"(row[i])); /* or the compiler makes a pointer of each */
        }
    }

    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t j = 0; j < np; j++) {
            d_acc *a = &acc[i][j * ways];
            if (ways == 4)
                a[0] = d_add(d_add(a[0], a[2]), d_add(a[1], a[3]));
            else if (ways == 2)
                a[0] = d_add(a[0], a[1]);
            d_store(sum + (i * DOT_ROWS * np + j) * TFT_PANEL, np * TFT_PANEL, a[0]);
        }
}

/* The arguments of tft_gemm_i8_fn. */
struct dot_job {
    float *y;
    size_t ldy;
    const uint8_t *x;
    size_t ldx;
    const struct tft_affine *xq;
    size_t step;
    const struct tft_panels *w;
    const float *bias;
    int add;
    size_t N;
};

/* What a token's sums of a panel's rows become: (sum - shift) * by. */
struct dot_affine {
    _Alignas(64) int32_t shift[TFT_PANEL];
    _Alignas(64) float by[TFT_PANEL];
};

DOT void dot_affine(struct dot_affine *a, const struct tft_affine *q, const float *scale,
                    const int32_t *rowsum)
{
    for (size_t n = 0; n < TFT_PANEL; n++) {
        a->shift[n] = (int32_t)((uint32_t)(q->zero - DOT_FLIP) * (uint32_t)rowsum[n]);
        a->by[n] = q->scale * scale[n];
    }
}

/* From sums to numbers, the tokens of a tile. y: [tokens, ldy], sum: [tokens, lds], bias: [16] */
DOT void dot_finish(float *y, size_t ldy, const int32_t *sum, size_t lds,
                    const struct tft_affine *q, size_t step, const float *scale,
                    const int32_t *rowsum, const float *bias, int add, size_t tokens)
{
    struct dot_affine a;
    dot_affine(&a, q, scale, rowsum);
    for (size_t i = 0; i < tokens; i++, y += ldy, sum += lds) {
        if (step && i)
            dot_affine(&a, q + i, scale, rowsum);
        UNROLL for (size_t n = 0; n < TFT_PANEL; n += LANES) {
            reg v = r_mul(r_centre(sum + n, a.shift + n), r_load(a.by + n));
            if (bias)
                v = r_add(v, r_load(bias + n));
            if (add)
                v = r_add(r_load(y + n), v);
            r_store(y + n, v);
        }
    }
}

/* The last panel, of which only `rows` exist: y and bias have no padding, and go through memory of
   ours. */
DOT void dot_finish_rest(float *y, size_t ldy, const int32_t *sum, size_t lds,
                         const struct tft_affine *q, size_t step, const float *scale,
                         const int32_t *rowsum, const float *bias, int add, size_t tokens,
                         size_t rows)
{
    float b[TFT_PANEL] = {0}, t[TFT_PANEL] = {0};
    if (bias)
        bias = memcpy(b, bias, rows * sizeof *b);
    for (size_t i = 0; i < tokens; i++) {
        memcpy(t, y + i * ldy, rows * sizeof *t);
        dot_finish(t, 0, sum + i * lds, 0, q + i * step, 0, scale, rowsum, bias, add, 1);
        memcpy(y + i * ldy, t, rows * sizeof *t);
    }
}

/* sum: [tokens, lds], of the tokens from m on and the panel of row n. Not a part of the tiles,
   which are many. */
static __attribute__((noinline)) void ISA(dot_panel)(const struct dot_job *j, size_t m, size_t n,
                                                     size_t tokens, const int32_t *sum, size_t lds)
{
    float *y = j->y + m * j->ldy + n;
    const float *bias = j->bias ? j->bias + n : NULL, *scale = j->w->scale + n;
    const int32_t *rowsum = j->w->rowsum + n;
    const struct tft_affine *q = j->xq + m * j->step;
    if (j->N - n < TFT_PANEL)
        dot_finish_rest(y, j->ldy, sum, lds, q, j->step, scale, rowsum, bias, j->add, tokens,
                        j->N - n);
    else if (bias || j->add)
        dot_finish(y, j->ldy, sum, lds, q, j->step, scale, rowsum, bias, j->add, tokens);
    else
        dot_finish(y, j->ldy, sum, lds, q, j->step, scale, rowsum, NULL, 0, tokens);
}

/* The outputs of some tokens from m on and np panels from row n on; mt, their number in units of
   DOT_ROWS, and np are constants after inlining. */
DOT void dot_outputs(const struct dot_job *j, size_t m, size_t n, size_t tokens, size_t mt,
                     size_t np)
{
    _Alignas(64) int32_t sum[DOT_ACCS * DOT_ROWS * TFT_PANEL];
    size_t cols = j->w->cols;
    dot_tile(sum, j->x + m * j->ldx, j->ldx, j->w->data + n * cols, cols, tokens, mt, np);
    for (size_t p = 0; p < np; p++)
        ISA(dot_panel)(j, m, n + p * TFT_PANEL, tokens, sum + p * TFT_PANEL, np * TFT_PANEL);
}

/* The largest tile of one panel, where there are tiles of two: these are for more tokens. */
enum { DOT_SINGLE = DOT_PANELS == 1 ? DOT_TOKENS : 8 };

#define DOT_CASE(mt, np)                                                                           \
    case mt:                                                                                       \
        if (mt <= DOT_TOKENS && np <= DOT_PANELS)                                                  \
            dot_outputs(j, m, n, DOT_ROWS == 1 ? mt : tokens, mt, np);                             \
        break

static void ISA(dot_pair)(const struct dot_job *j, size_t m, size_t n, size_t tokens)
{
    switch ((tokens + DOT_ROWS - 1) / DOT_ROWS) {
        DOT_CASE(12, 2);
        DOT_CASE(11, 2);
        DOT_CASE(10, 2);
        DOT_CASE(9, 2);
    }
}

static void ISA(dot_single)(const struct dot_job *j, size_t m, size_t n, size_t tokens)
{
    switch ((tokens + DOT_ROWS - 1) / DOT_ROWS) {
        DOT_CASE(8, 1);
        DOT_CASE(7, 1);
        DOT_CASE(6, 1);
        DOT_CASE(5, 1);
        DOT_CASE(4, 1);
        DOT_CASE(3, 1);
        DOT_CASE(2, 1);
        DOT_CASE(1, 1);
    }
}

static inline size_t dot_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* At most DOT_TOKENS units of tokens against what there is of DOT_PANELS panels. */
static void ISA(dot_tokens)(const struct dot_job *j, size_t m, size_t n, size_t tokens)
{
    enum { MOST = DOT_SINGLE * DOT_ROWS };
    if (DOT_PANELS == 2 && tokens > MOST && n + TFT_PANEL < j->N)
        ISA(dot_pair)(j, m, n, tokens);
    else
        for (size_t end = dot_least(j->N, n + DOT_PANELS * TFT_PANEL); n < end; n += TFT_PANEL)
            for (size_t i = 0; i < tokens; i += MOST)
                ISA(dot_single)(j, m + i, n, dot_least(MOST, tokens - i));
}

/* A block is as many tokens as stay in an L2 cache of 1 MiB beside the panels that go by. */
static void ISA(gemm_i8)(float *y, size_t ldy, const uint8_t *x, size_t ldx,
                         const struct tft_affine *xq, size_t step, const struct tft_panels *w,
                         const float *bias, int add, size_t M, size_t N)
{
    enum { BLOCK_BYTES = 768 * 1024, TILE = DOT_TOKENS * DOT_ROWS };
    struct dot_job j = {y, ldy, x, ldx, xq, step, w, bias, add, N};
    size_t block = (BLOCK_BYTES / (w->cols + 1) / TILE + 1) * TILE;
    for (size_t first = 0; first < M; first += block)
        for (size_t n = 0, end = dot_least(M, first + block); n < N; n += DOT_PANELS * TFT_PANEL)
            for (size_t m = first; m < end; m += TILE)
                ISA(dot_tokens)(&j, m, n, dot_least(TILE, end - m));
}
