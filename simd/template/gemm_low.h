/*
 * gemm_low of kernels.h. A few tokens wait for memory: codes are unpacked and multiplied in
 * registers. With A = sum of c * x and X = sum of x over a group, the group adds s * (A - z * X) to
 * a sum. Many tokens share the unpacking: a range of columns of DOT_PANELS panels becomes int8 in a
 * buffer that stays in the cache, and the tiles of gemm_i8.h multiply the buffer. All sums are
 * exact modulo 2^32, so both ways give the bits of gemm_i8.
 *
 * Parameters, besides gemm_i8.h's and low_unpack.h's:
 *
 *   l_part, l_run(acc)        sums of the products of a run of at most LOW_RUN(bits) quads, a power
 *                             of two up to LOW_STEP; a run starts from zeros, or from acc
 *   l_dot(part, a, x)         part + products of the codes a: [QUAD_REGS] and the bytes x: [4]
 *   l_acc, l_zero()           sums of 16 rows: int32
 *   l_sum(acc, part)          acc + the products of the run, after l_run(acc)
 *   l_total                   sums of 16 rows, one for each row; l_begin(): zeros
 *   l_group(t, acc, bytes, x) t + s * (acc - z * x), s and z of the 16 bytes of a group;
 *                             x is at most 255 * 128
 *   l_store(sum, t)           the 16 sums in order
 *   LOW_FENCE()               comes after each quad, if a compiler needs a fence
 *   LOW_TILE                  0; else ISA(low_many) is defined elsewhere: x86/low_runs.h
 */
#ifndef TFT_TEMPLATE_GEMM_LOW_H
#define TFT_TEMPLATE_GEMM_LOW_H

#include "gemm_i8.h"
#include "low_unpack.h"

/* ---- a few tokens */

enum { LOW_FEW = 4, LOW_GROUPS = TFT_PANEL_MAX_K / TFT_LOW_GROUP };

/* Data shared by all panels. */
struct low_few {
    const struct tft_gemm_i8 *g;
    const struct tft_low_panels *w;
    size_t groups, whole;                     /* groups; groups without padding */
    uint8_t tail[LOW_FEW][TFT_LOW_MAX_GROUP]; /* the rest of each token, padded with zeros */
    int32_t sum[LOW_FEW][LOW_GROUPS];         /* of the bytes of each group */
};

static int32_t ISA(low_sum)(const uint8_t *x, size_t n)
{
    int32_t sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += x[k];
    return sum;
}

static void ISA(low_begin)(struct low_few *f, const struct tft_gemm_i8 *g,
                           const struct tft_low_panels *w)
{
    size_t group = w->how.group;
    f->g = g;
    f->w = w;
    f->groups = tft_low_groups(&w->how, w->cols);
    f->whole = w->cols / group;
    for (size_t m = 0; m < g->M; m++) {
        const uint8_t *x = g->x + m * g->ldx;
        for (size_t i = 0; i < f->groups; i++)
            f->sum[m][i] = ISA(low_sum)(x + i * group, min_size(group, w->cols - i * group));
        if (f->whole < f->groups) {
            memset(f->tail[m], 0, sizeof f->tail[m]);
            memcpy(f->tail[m], x + f->whole * group, w->cols - f->whole * group);
        }
    }
}

/* The panel at w; sum: [mt, 16]. mt and bits are constants after inlining. */
FORCE_INLINE void low_panel(int32_t *sum, const struct low_few *f, const uint8_t *w, size_t mt,
                            enum tft_bits bits)
{
    const size_t group = f->w->how.group, size = tft_codes_bytes(bits, 1), ldx = f->g->ldx,
                 run = LOW_RUN(bits);
    l_total total[LOW_FEW];
    UNROLL for (size_t i = 0; i < mt; i++)
        total[i] = l_begin();
    for (size_t at = 0; at < f->groups; at++) {
        const uint8_t *bytes = w, *x = f->g->x + at * group;
        size_t next = ldx;
        if (at >= f->whole)
            x = f->tail[0], next = TFT_LOW_MAX_GROUP;
        l_acc acc[LOW_FEW];
        UNROLL for (size_t i = 0; i < mt; i++)
            acc[i] = l_zero();
        __builtin_prefetch(w + LOW_AHEAD);
        w += TFT_PANEL;
        for (size_t k = 0; k < group; k += TFT_LOW_GROUP, w += LOW_STEP * size) {
            low_prefetch(w, bits);
            UNROLL for (size_t first = 0; first < LOW_STEP; first += run) {
                l_part part[LOW_FEW];
                UNROLL for (size_t i = 0; i < mt; i++)
                    part[i] = l_run(acc[i]);
                UNROLL for (size_t q = first; q < first + run; q++) {
                    breg a[QUAD_REGS];
                    unpack_quad(a, w + q * size, bits);
                    UNROLL for (size_t t = 0; t < mt; t++)
                        part[t] = l_dot(part[t], a, x + t * next + k + q * TFT_QUAD);
                    LOW_FENCE();
                }
                UNROLL for (size_t i = 0; i < mt; i++)
                    acc[i] = l_sum(acc[i], part[i]);
            }
        }
        UNROLL for (size_t i = 0; i < mt; i++)
            total[i] = l_group(total[i], acc[i], bytes, f->sum[i][at]);
    }
    UNROLL for (size_t i = 0; i < mt; i++)
        l_store(sum + i * TFT_PANEL, total[i]);
}

/* All panels. The sums here are of x, but dot_panel takes sums of x - DOT_FLIP. */
FORCE_INLINE void low_panels(const struct low_few *f, size_t mt, enum tft_bits bits)
{
    const struct tft_gemm_i8 *g = f->g;
    const size_t panel = tft_low_panel(&f->w->how, f->w->cols);
    const uint8_t *w = f->w->codes;
    for (size_t n = 0; n < g->N; n += TFT_PANEL, w += panel) {
        _Alignas(64) int32_t sum[LOW_FEW * TFT_PANEL];
        low_panel(sum, f, w, mt, bits);
        for (size_t i = 0; DOT_FLIP && i < mt * TFT_PANEL; i++)
            sum[i] = (int32_t)((uint32_t)sum[i] -
                               DOT_FLIP * (uint32_t)g->w->rowsum[n + i % TFT_PANEL]);
        ISA(dot_panel)(g, 0, n, mt, sum, TFT_PANEL);
    }
}

#define LOW_FEW_OF(bits)                                                                           \
    static __attribute__((noinline)) void ISA(low_few_##bits)(const struct low_few *f)             \
    {                                                                                              \
        switch (f->g->M) {                                                                         \
        case 1: low_panels(f, 1, TFT_BITS_##bits); break;                                       \
        case 2: low_panels(f, 2, TFT_BITS_##bits); break;                                       \
        case 3: low_panels(f, 3, TFT_BITS_##bits); break;                                       \
        case 4: low_panels(f, 4, TFT_BITS_##bits); break;                                       \
        }                                                                                          \
    }

LOW_FEW_OF(4)
LOW_FEW_OF(3)
LOW_FEW_OF(2)

static void ISA(low_few)(const struct tft_gemm_i8 *g, const struct tft_low_panels *w)
{
    struct low_few f;
    ISA(low_begin)(&f, g, w);
    switch (w->how.bits) {
    case TFT_BITS_4: ISA(low_few_4)(&f); break;
    case TFT_BITS_3: ISA(low_few_3)(&f); break;
    default: ISA(low_few_2)(&f);
    }
}

#if !LOW_TILE
/* ---- many tokens */

/* Columns to unpack at once, and the most tokens to multiply: a multiple of most DOT_TILEs. */
enum { LOW_RANGE = 1024, LOW_TOKENS = 240 };

_Static_assert(LOW_RANGE % TFT_LOW_MAX_GROUP == 0, "a range begins with a group");
_Static_assert((int)LOW_TOKENS >= (int)DOT_TILE, "a block has a tile at least");

struct low_buffer {
    _Alignas(64) int8_t w[DOT_PANELS * TFT_PANEL * LOW_RANGE];
    _Alignas(64) int32_t carry[LOW_TOKENS * DOT_PANELS * TFT_PANEL];
};

/* The beginning of the range after column k, in the same panels or the next panels. */
FORCE_INLINE size_t low_next(const struct tft_low *how, size_t K, size_t k)
{
    return k + LOW_RANGE < K ? (k + LOW_RANGE) / how->group * tft_low_group_bytes(how)
                             : DOT_PANELS * tft_low_panel(how, K);
}

/* A tile's share of a panel's next range: it comes from memory during the tile's products. */
FORCE_INLINE size_t low_share(const struct tft_low *how, size_t tokens)
{
    size_t tiles = (tokens + DOT_TILE - 1) / DOT_TILE,
           range = LOW_RANGE / how->group * tft_low_group_bytes(how);
    return (range / tiles + LOW_LINE) / LOW_LINE * LOW_LINE;
}

/* g and low have the tokens of one block and up to DOT_PANELS panels. */
static void ISA(low_block)(const struct tft_gemm_i8 *g, const struct tft_low_panels *low,
                           struct low_buffer *b)
{
    size_t K = g->w->cols, panel = tft_low_panel(&low->how, K);
    for (size_t k = 0; k < K; k += LOW_RANGE) {
        struct tft_panels w = *g->w;
        struct tft_gemm_i8 part = *g;
        struct dot_job j = {&part, K > LOW_RANGE ? b->carry : NULL, k == 0, k + LOW_RANGE >= K,
                            DOT_READY};
        w.data = b->w;
        w.cols = min_size(LOW_RANGE, K - k);
        part.w = &w;
        part.x += k;
        for (size_t n = 0; n < g->N; n += TFT_PANEL)
            ISA(low_unpack)(b->w + n * w.cols, low, n, k, w.cols);
        if (DOT_READY)
            d_ready(b->w, b->w, DOT_PANELS * TFT_PANEL * w.cols);
        size_t share = low_share(&low->how, g->M);
        const uint8_t *next = low->codes + low_next(&low->how, K, k);
        for (size_t m = 0; m < g->M; m += DOT_TILE, next += share) {
            for (size_t n = 0; n < g->N; n += TFT_PANEL)
                for (size_t line = 0; line < share; line += LOW_LINE)
                    __builtin_prefetch(next + n / TFT_PANEL * panel + line);
            ISA(dot_tokens)(&j, m, 0, min_size(DOT_TILE, g->M - m));
        }
    }
}

static void ISA(low_many)(const struct tft_gemm_i8 *g, const struct tft_low_panels *w)
{
    enum { ROWS = DOT_PANELS * TFT_PANEL };
    size_t K = g->w->cols,
           block = min_size(dot_block(K), LOW_TOKENS / DOT_TILE * DOT_TILE);
    struct low_buffer b;
    for (size_t m = 0; m < g->M; m += block)
        for (size_t n = 0; n < g->N; n += ROWS) {
            struct tft_panels panels = {NULL, g->w->scale + n, g->w->rowsum + n, K};
            struct tft_gemm_i8 part = *g;
            struct tft_low_panels low = {w->codes + n / TFT_PANEL * tft_low_panel(&w->how, K),
                                         w->how, w->cols};
            part.y += m * g->ldy + n;
            part.x += m * g->ldx;
            part.xq += m * g->xq_step;
            part.w = &panels;
            part.bias = g->bias ? g->bias + n : NULL;
            part.M = min_size(block, g->M - m);
            part.N = min_size(ROWS, g->N - n);
            ISA(low_block)(&part, &low, &b);
        }
}

#endif

static void ISA(gemm_low)(const struct tft_gemm_i8 *g, const struct tft_low_panels *w)
{
    if (!g->M || !g->N)
        return;
    if (g->M <= LOW_FEW)
        ISA(low_few)(g, w);
    else
        ISA(low_many)(g, w);
}

#endif
