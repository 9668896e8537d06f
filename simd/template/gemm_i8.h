/*
 * gemm_i8 of kernels.h: the product of bytes and panels of int8. Sums of integers are exact, so any
 * order of terms gives the same result; only the few float operations at the end follow the order
 * of the contract.
 *
 * A tile is up to DOT_TOKENS units of DOT_ROWS tokens, by up to DOT_PANELS panels. Its sums stay in
 * registers during the loop over K. One dot product multiplies a quad (panel.h) of a panel by 4
 * bytes of a token.
 *
 * Parameters, besides LANES and r_difference .. r_store of lanes.h:
 *
 *   ISA(name)                   the name of a function of this ISA level
 *   DOT_ROWS                    tokens multiplied by one instruction: 1, or 2 for products of small
 *                               matrices
 *   d_acc                       sums of DOT_ROWS tokens by the 16 rows of a panel, in any layout;
 *                               d_zero(), d_add(a, b)
 *   d_store(sum, next, acc)     stores the 16 sums in order, and a second token's sums at
 *                               sum + next
 *   d_floats(acc, shift)        (float)(sum - shift[i]) of the 16 sums, a v16; if HAVE_DOT_FLOATS,
 *                               which requires DOT_ROWS of 1
 *   DOT_QUADS                   quads of a panel in a d_weights: 1 or 2
 *   d_weights, d_load(p)        loads DOT_QUADS quads
 *   d_bytes, d_token(x, next)   16 bytes of DOT_ROWS tokens, the second token at x + next
 *   d_dot(acc, w, x, s)         acc + products of w and the s-th DOT_QUADS quads of x
 *   DOT_FLIP                    128 if d_dot takes the bytes of a token as x - 128, otherwise 0
 *   DOT_TOKENS                  at most 8, or at most 12 with two panels, limited by registers
 *   DOT_PANELS                  1 or 2
 *
 * If d_load must rearrange the quads, an ISA level may define DOT_READY, d_load_ready(p), and
 * d_ready(to, from, bytes), which stores panels in the order of d_load_ready; to may be from.
 */
#ifndef TFT_TEMPLATE_GEMM_I8_H
#define TFT_TEMPLATE_GEMM_I8_H

#include "lanes.h"

/* DOT_STEPS times d_dot consume 16 bytes of a token; K is a multiple of 16. */
enum {
    DOT_STEPS = TFT_K_PAD / (TFT_QUAD * DOT_QUADS),
    DOT_BYTES = TFT_PANEL * TFT_QUAD * DOT_QUADS,
    DOT_ACCS = DOT_TOKENS * DOT_PANELS
};

_Static_assert(DOT_STEPS * DOT_QUADS * TFT_QUAD == TFT_K_PAD, "quads fill the padding of K");
_Static_assert(TFT_PANEL % LANES == 0, "gemm_i8_finish takes whole registers of a panel's rows");
_Static_assert(DOT_ROWS == 1 || DOT_ROWS == 2, "d_store has one `next`");
_Static_assert(DOT_PANELS == 1 ? DOT_TOKENS <= 8 : DOT_PANELS == 2 && DOT_TOKENS <= 12,
               "DOT_CASE has the smaller tiles");

#ifdef DOT_READY
#define DOT_LOAD(p, ready) ((ready) ? d_load_ready(p) : d_load(p))
#else
#define DOT_READY 0
#define d_ready(to, from, bytes) (void)0
#define DOT_LOAD(p, ready) d_load(p)
#endif

/* Bytes between a prefetch of weights and their use: few tokens wait for memory, and prefetch two
   pages ahead; many tokens wait for the L2 cache. */
enum { DOT_AHEAD_MEMORY = 8192, DOT_AHEAD_CACHE = 4096, DOT_LINE = 64 };

/* Columns to multiply. Bytes of 0 add nothing, unless d_dot takes them as -128. */
FORCE_INLINE size_t dot_cols(const struct tft_gemm_i8 *g)
{
    return g->cols && DOT_FLIP == 0 ? g->cols : g->w->cols;
}

/* acc: sums of [tokens / DOT_ROWS, np], in the first np of each row; x: [tokens, ldx]; w: [np]
   panels of `stride` columns; the first `cols` columns are multiplied. mt = ceil(tokens / DOT_ROWS)
   and np are constants after inlining; an odd last token is multiplied twice. If a tile has too few
   sums to hide the latency of d_dot, each sum is split into `ways` sums, added at the end. ready, a
   constant too: d_ready has stored the panels, in the cache. */
FORCE_INLINE void dot_tile(d_acc acc[DOT_TOKENS][4], const uint8_t *x, size_t ldx, const int8_t *w,
                           size_t stride, size_t cols, size_t tokens, size_t mt, size_t np,
                           bool ready)
{
    size_t ways = DOT_ACCS / (mt * np) >= 4 && DOT_STEPS >= 4 ? 4
                  : DOT_ACCS / (mt * np) >= 2                 ? 2
                                                              : 1;
    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t a = 0; a < np * ways; a++)
            acc[i][a] = d_zero();

    /* A pointer to every third unit: x86 has too few registers for all units, but can address
       row + 0, 1 and 2 times ldx. */
    const uint8_t *row[DOT_TOKENS];
    UNROLL for (size_t i = 0; i < mt; i += 3)
        row[i] = x + i * DOT_ROWS * ldx;
    for (size_t k = 0; k < cols; k += TFT_K_PAD) {
        d_bytes b[DOT_TOKENS];
        UNROLL for (size_t i = 0; i < mt; i++)
            b[i] = d_token(row[i - i % 3] + i % 3 * DOT_ROWS * ldx,
                           (i + 1) * DOT_ROWS <= tokens ? ldx : 0);
        UNROLL for (size_t s = 0; s < DOT_STEPS; s++) {
            d_weights v[DOT_PANELS];
            UNROLL for (size_t j = 0; j < np; j++) {
                const int8_t *p = w + j * TFT_PANEL * stride + k * TFT_PANEL + s * DOT_BYTES;
                v[j] = DOT_LOAD(p, ready);
                UNROLL for (size_t line = 0; !ready && line < DOT_BYTES; line += DOT_LINE)
                    __builtin_prefetch(p + line + (np == 1 ? DOT_AHEAD_MEMORY : DOT_AHEAD_CACHE));
            }
            UNROLL for (size_t i = 0; i < mt; i++)
                UNROLL for (size_t j = 0; j < np; j++)
                    acc[i][j * ways + s % ways] = d_dot(acc[i][j * ways + s % ways], v[j], b[i], s);
        }
        UNROLL for (size_t i = 0; i < mt; i += 3) {
            row[i] += TFT_K_PAD;
            __asm__("" : "+r"(row[i])); /* keeps the compiler from making a pointer for each unit */
        }
    }

    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t j = 0; j < np; j++) {
            d_acc *a = &acc[i][j * ways];
            if (ways == 4)
                a[0] = d_add(d_add(a[0], a[2]), d_add(a[1], a[3]));
            else if (ways == 2)
                a[0] = d_add(a[0], a[1]);
            acc[i][j] = a[0];
        }
}

/* The outputs of some tokens and one panel. */
struct dot_outputs {
    float *y; /* [tokens, 16], rows ldy apart */
    size_t ldy;
    const int32_t *sum; /* [tokens, 16], rows ld_sum apart */
    size_t ld_sum;
    const struct tft_affine *q; /* of the first token, xq_step apart */
    size_t xq_step;
    const float *scale, *bias; /* [16]; bias may be NULL */
    const int32_t *rowsum;     /* [16] */
    bool add;
    size_t tokens;
};

/* The contribution of a token's zero to the token's sums of a panel. */
FORCE_INLINE void dot_shift(int32_t shift[TFT_PANEL], int32_t zero, const int32_t *rowsum)
{
    for (size_t n = 0; n < TFT_PANEL; n++)
        shift[n] = (int32_t)((uint32_t)(zero - DOT_FLIP) * (uint32_t)rowsum[n]);
}

/* Turns sums into floats, (sum - shift) * (the token's scale * the row's scale). bias and add are
   o's own, or NULL and false as constants. */
FORCE_INLINE void dot_finish(struct dot_outputs o, const float *bias, bool add)
{
    _Alignas(64) int32_t shift[TFT_PANEL];
    int32_t zero = o.q->zero;
    dot_shift(shift, zero, o.rowsum);
    for (size_t i = 0; i < o.tokens; i++, o.y += o.ldy, o.sum += o.ld_sum, o.q += o.xq_step) {
        if (o.q->zero != zero) /* seldom: attention's tokens have one zero */
            dot_shift(shift, zero = o.q->zero, o.rowsum);
        reg scale = r_set(o.q->scale);
        UNROLL for (size_t n = 0; n < TFT_PANEL; n += LANES) {
            reg factor = r_mul(scale, r_load(o.scale + n));
            reg v = r_mul(r_difference(o.sum + n, shift + n), factor);
            if (bias)
                v = r_add(v, r_load(bias + n));
            if (add)
                v = r_add(r_load(o.y + n), v);
            r_store(o.y + n, v);
        }
    }
}

/* The last panel, with only `rows` rows. y and bias have no padding, so they go through buffers. */
FORCE_INLINE void dot_finish_last(struct dot_outputs o, size_t rows)
{
    float bias[TFT_PANEL] = {0}, y[TFT_PANEL] = {0};
    struct dot_outputs one = o;
    one.y = y;
    one.tokens = 1;
    if (o.bias)
        one.bias = memcpy(bias, o.bias, rows * sizeof *bias);
    for (size_t i = 0; i < o.tokens; i++) {
        one.sum = o.sum + i * o.ld_sum;
        one.q = o.q + i * o.xq_step;
        memcpy(y, o.y + i * o.ldy, rows * sizeof *y);
        dot_finish(one, one.bias, o.add);
        memcpy(o.y + i * o.ldy, y, rows * sizeof *y);
    }
}

/* sum: [tokens, 16], rows ld_sum apart, of the tokens from m on and the panel of row n. Not
   inlined, because there are many tiles. */
static __attribute__((noinline)) void ISA(dot_panel)(const struct tft_gemm_i8 *g, size_t m,
                                                     size_t n, size_t tokens, const int32_t *sum,
                                                     size_t ld_sum)
{
    struct dot_outputs o = {
        .y = g->y + m * g->ldy + n,
        .ldy = g->ldy,
        .sum = sum,
        .ld_sum = ld_sum,
        .q = g->xq + m * g->xq_step,
        .xq_step = g->xq_step,
        .scale = g->w->scale + n,
        .bias = g->bias ? g->bias + n : NULL,
        .rowsum = g->w->rowsum + n,
        .add = g->add,
        .tokens = tokens,
    };
    if (g->N - n < TFT_PANEL)
        dot_finish_last(o, g->N - n);
    else if (o.bias || o.add)
        dot_finish(o, o.bias, o.add);
    else
        dot_finish(o, NULL, false);
}

/* A product, or a range of its columns: sums of earlier ranges wait in `carry`. */
struct dot_job {
    const struct tft_gemm_i8 *g; /* of the columns of the range */
    int32_t *carry;              /* [M, DOT_PANELS, 16], NULL if the range is all columns */
    bool first, last;            /* range of the product, with carry */
    bool ready;                  /* d_ready has stored the panels */
};

FORCE_INLINE void dot_carry(const struct dot_job *j, int32_t *sum, size_t m, size_t n,
                            size_t tokens, size_t np)
{
    int32_t *carry = j->carry + m * DOT_PANELS * TFT_PANEL + n;
    for (size_t i = 0; i < tokens; i++, carry += DOT_PANELS * TFT_PANEL, sum += np * TFT_PANEL)
        UNROLL for (size_t l = 0; l < np * TFT_PANEL; l++) {
            sum[l] = (int32_t)((j->first ? 0 : (uint32_t)carry[l]) + (uint32_t)sum[l]);
            carry[l] = sum[l];
        }
}

#ifdef HAVE_DOT_FLOATS
/* Whether tokens m .. m + tokens - 1 have the same zero point. */
FORCE_INLINE bool one_zero(const struct tft_gemm_i8 *g, size_t m, size_t tokens)
{
    int32_t differ = 0;
    for (size_t i = 1; i < tokens && g->xq_step; i++)
        differ |= g->xq[m + i].zero ^ g->xq[m].zero;
    return differ == 0;
}

/* dot_finish of a tile of whole panels, without bias and with one zero for all tokens: the sums are
   still in registers. */
FORCE_INLINE void dot_finish_tile(const struct tft_gemm_i8 *g, size_t m, size_t n, size_t mt,
                                  size_t np, d_acc acc[DOT_TOKENS][4])
{
    _Alignas(64) int32_t shift[DOT_PANELS][TFT_PANEL];
    v16 scale[DOT_PANELS];
    const struct tft_affine *q = g->xq + m * g->xq_step;
    UNROLL for (size_t p = 0; p < np; p++) {
        dot_shift(shift[p], q->zero, g->w->rowsum + n + p * TFT_PANEL);
        scale[p] = v_load(g->w->scale + n + p * TFT_PANEL);
    }
    float *y = g->y + m * g->ldy + n;
    UNROLL for (size_t i = 0; i < mt; i++, y += g->ldy, q += g->xq_step)
        UNROLL for (size_t p = 0; p < np; p++) {
            v16 v = v_mul(d_floats(acc[i][p], shift[p]), v_mul(v_set(q->scale), scale[p]));
            if (g->add)
                v = v_add(v_load(y + p * TFT_PANEL), v);
            v_store(y + p * TFT_PANEL, v);
        }
}
#endif

/* The outputs of `tokens` tokens from m on and np panels from row n on. mt = ceil(tokens /
   DOT_ROWS), np and ready are constants after inlining. */
FORCE_INLINE void dot_store_tile(const struct dot_job *j, size_t m, size_t n, size_t tokens,
                                 size_t mt, size_t np, bool ready)
{
    _Alignas(64) int32_t sum[DOT_ACCS * DOT_ROWS * TFT_PANEL];
    d_acc acc[DOT_TOKENS][4];
    const struct tft_gemm_i8 *g = j->g;
    size_t stride = g->w->cols;
    dot_tile(acc, g->x + m * g->ldx, g->ldx, g->w->data + n * stride, stride, dot_cols(g), tokens,
             mt, np, ready);
#ifdef HAVE_DOT_FLOATS
    if (np == DOT_PANELS && !j->carry && !g->bias && g->N - n >= np * TFT_PANEL &&
        one_zero(g, m, tokens)) {
        dot_finish_tile(g, m, n, mt, np, acc);
        return;
    }
#endif
    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t p = 0; p < np; p++)
            d_store(sum + (i * DOT_ROWS * np + p) * TFT_PANEL, np * TFT_PANEL, acc[i][p]);
    if (j->carry)
        dot_carry(j, sum, m, n, tokens, np);
    if (j->carry && !j->last)
        return;
    for (size_t p = 0; p < np; p++)
        ISA(dot_panel)(g, m, n + p * TFT_PANEL, tokens, sum + p * TFT_PANEL, np * TFT_PANEL);
}

/* Tiles of two panels are for more than DOT_SINGLE tokens; tiles of one panel for at most that. */
enum { DOT_SINGLE = DOT_PANELS == 1 ? DOT_TOKENS : 8 };

#define DOT_CASE(mt, np)                                                                           \
    case mt:                                                                                       \
        if (mt > DOT_TOKENS || np > DOT_PANELS)                                                    \
            break;                                                                                 \
        if (DOT_READY && j->ready)                                                                 \
            dot_store_tile(j, m, n, DOT_ROWS == 1 ? mt : tokens, mt, np, true);                    \
        else                                                                                       \
            dot_store_tile(j, m, n, DOT_ROWS == 1 ? mt : tokens, mt, np, false);                   \
        break

static void ISA(dot_two_panels)(const struct dot_job *j, size_t m, size_t n, size_t tokens)
{
    switch ((tokens + DOT_ROWS - 1) / DOT_ROWS) {
        DOT_CASE(12, 2);
        DOT_CASE(11, 2);
        DOT_CASE(10, 2);
        DOT_CASE(9, 2);
    }
}

static void ISA(dot_one_panel)(const struct dot_job *j, size_t m, size_t n, size_t tokens)
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

/* At most DOT_TOKENS units of tokens by DOT_PANELS panels, or the last panel. */
static void ISA(dot_tokens)(const struct dot_job *j, size_t m, size_t n, size_t tokens)
{
    enum { MAX = DOT_SINGLE * DOT_ROWS };
    if (DOT_PANELS == 2 && tokens > MAX && n + TFT_PANEL < j->g->N)
        ISA(dot_two_panels)(j, m, n, tokens);
    else
        for (size_t end = min_size(j->g->N, n + DOT_PANELS * TFT_PANEL); n < end; n += TFT_PANEL)
            for (size_t i = 0; i < tokens; i += MAX)
                ISA(dot_one_panel)(j, m + i, n, min_size(MAX, tokens - i));
}

enum { DOT_TILE = DOT_TOKENS * DOT_ROWS };

/* The units in each tile of a block: least + 1 in the first `more` tiles, then `least`. */
struct dot_split {
    size_t least, more;
};

/* Splits evenly, so no tile of few tokens remains, unless tiles become so small that they have one
   panel. */
FORCE_INLINE struct dot_split dot_split(size_t tokens)
{
    size_t units = (tokens + DOT_ROWS - 1) / DOT_ROWS,
           tiles = (units + DOT_TOKENS - 1) / DOT_TOKENS, least = units / tiles;
    return DOT_PANELS == 2 && least > DOT_SINGLE ? (struct dot_split){least, units % tiles}
                                                 : (struct dot_split){DOT_TOKENS, 0};
}

/* The tokens of a block: as many as stay in an L2 cache of 1 MiB during the loop over panels. */
FORCE_INLINE size_t dot_block(size_t cols)
{
    enum { BYTES_OF_BLOCK = 768 * 1024 };
    return (BYTES_OF_BLOCK / (cols + 1) / DOT_TILE + 1) * DOT_TILE;
}

static void ISA(gemm_i8)(const struct tft_gemm_i8 *g)
{
    const struct dot_job j = {.g = g};
    size_t block = dot_block(dot_cols(g));
    for (size_t first = 0; first < g->M; first += block) {
        size_t end = min_size(g->M, first + block);
        struct dot_split split = dot_split(end - first);
        for (size_t n = 0; n < g->N; n += DOT_PANELS * TFT_PANEL)
            for (size_t m = first, t = 0, tokens; m < end; m += tokens, t++) {
                tokens = min_size((split.least + (t < split.more)) * DOT_ROWS, end - m);
                ISA(dot_tokens)(&j, m, n, tokens);
            }
    }
}

#endif
