/*
 * gemm_packed of kernels.h, for many tokens; packed_one.h is for one or a few. PACKED_RANGE columns
 * of one or two panels are unpacked into a buffer that stays in an L1 cache, and all tokens are
 * multiplied by the buffer. A tile keeps its sums in registers: integers within a group, floats
 * over groups. From one range of columns to the next, y holds the sums.
 *
 * Parameters, besides packed_unpack.h's:
 *
 *   p_acc                       sums of 16 rows, in any layout; p_start(n, wide): all are n
 *   p_quads                     two quads of a panel; p_take(a, b, wide, zero) of registers
 *   p_dot(acc, w, x, wide)      acc + products with 8 signed bytes
 *   p_floats(acc, wide)         the sums as a v16
 *   PACKED_SIGNED               1 if p_take subtracts zero from wide numbers; else 0: sums start at
 *                               -zero times the sum of x instead
 *   PACKED_RUNS                 1 if there are p_run, sums of four quads of numbers up to 31:
 *                               p_run_dot(sum, w, x, first), and p_run_add(acc, sum); else 0
 *   PACKED_TOKENS               of a tile: at most 6
 *   PACKED_REST                 of a tile of weights in groups of 16, and of the last tiles of
 *                               other weights: at most PACKED_TOKENS, the default
 *   PACKED_PANELS               1 or 2
 */
#ifndef TFT_TEMPLATE_GEMM_PACKED_H
#define TFT_TEMPLATE_GEMM_PACKED_H

#include "packed_unpack.h"

#ifndef PACKED_REST
#define PACKED_REST PACKED_TOKENS
#endif

enum {
    PACKED_RANGE = 512,
    PACKED_SCALES = PACKED_RANGE / TFT_PACKED_GROUP * TFT_PANEL /* of a panel, at most */
};

_Static_assert(PACKED_RANGE % TFT_PACKED_BLOCK == 0, "a range is a whole number of records");
_Static_assert(PACKED_TOKENS >= 1 && PACKED_TOKENS <= 6, "packed_tokens has the smaller tiles");
_Static_assert(PACKED_REST >= 1 && PACKED_REST <= PACKED_TOKENS, "so are those of the rest");
_Static_assert(PACKED_PANELS == 1 || PACKED_PANELS == 2, "packed_tokens has a case for each");

/* A range of columns of some panels, unpacked. */
struct packed_range {
    _Alignas(64) uint8_t number[PACKED_PANELS][PACKED_RANGE * TFT_PANEL];
    _Alignas(64) float scale[PACKED_PANELS][PACKED_SCALES];
    _Alignas(64) float min[PACKED_PANELS][PACKED_SCALES];
    size_t first, end;                   /* columns */
    size_t n;                            /* the first panel's first row of W */
    const uint8_t *next[PACKED_PANELS];  /* the codes to unpack after this range, */
    size_t next_bytes;                   /* of each panel; 0: none */
    size_t fetch; /* how many of them to prefetch for each TFT_STEP_GROUP columns of a tile */
};

/* y before a range of columns; `first`: the range is the first. */
FORCE_INLINE v16 packed_begin(const struct tft_gemm_packed *g, const float *y, size_t n,
                              size_t rows, bool first)
{
    v16 v = g->add || !first ? v_load_n(y, rows) : v_set(0);
    return g->bias && first ? v_add(v, v_load_n(g->bias + n, rows)) : v;
}

FORCE_INLINE p_quads packed_load(const uint8_t *number, bool wide, uint8_t zero)
{
    breg a[2][QUAD_REGS];
    UNROLL for (int i = 0; i < 2; i++)
        UNROLL for (int r = 0; r < QUAD_REGS; r++)
            a[i][r] = b_repeat(number + i * TFT_QUAD_CODES, r, 64);
    return p_take(a[0], a[1], wide, zero);
}

/* How a tile sums; a constant after inlining. With `min`, zero is 0. */
struct packed_kind {
    size_t group;
    bool wide, min, runs;
};

/* The tokens of a tile: pointers for every third token, as in gemm_i8.h. They point to the bytes,
   to the steps, and to minus or, with `min`, to fall (packed.h). */
struct packed_x {
    const uint8_t *row[PACKED_TOKENS], *step[PACKED_TOKENS], *sum[PACKED_TOKENS];
    size_t ldx;
};

FORCE_INLINE const void *packed_of(const struct packed_x *x, const uint8_t *const *third, size_t i)
{
    return third[i - i % 3] + i % 3 * x->ldx;
}

/* mt tokens from m on, at column k. */
FORCE_INLINE void packed_point(struct packed_x *x, const struct tft_gemm_packed *g, size_t m,
                               size_t mt, size_t k, struct packed_kind kind)
{
    x->ldx = g->ldx;
    UNROLL for (size_t i = 0; i < mt; i += 3) {
        const uint8_t *row = g->x + (m + i) * g->ldx;
        const void *step = tft_groups_step(row, g->K) + k / TFT_STEP_GROUP,
                   *fall = tft_groups_fall(row, g->K, kind.group) + k / kind.group,
                   *minus = tft_groups_minus(row, g->K, kind.group) + k / kind.group;
        x->row[i] = row + k;
        x->step[i] = step;
        x->sum[i] = kind.min ? fall : minus;
    }
}

/* To the next TFT_STEP_GROUP columns. */
FORCE_INLINE void packed_next(struct packed_x *x, size_t mt, struct packed_kind kind)
{
    UNROLL for (size_t i = 0; i < mt; i += 3) {
        x->row[i] += TFT_STEP_GROUP;
        x->step[i] += sizeof(float);
        x->sum[i] += TFT_STEP_GROUP / kind.group * sizeof(int32_t);
        /* keeps the compiler from making pointers for each token */
        __asm__("" : "+r"(x->row[i]), "+r"(x->step[i]), "+r"(x->sum[i]));
    }
}

/* A group of a panel in the range, and the same group of the next panel after it. */
struct packed_group {
    const uint8_t *number;
    const float *scale, *min;
};

#if PACKED_RUNS
enum { PACKED_RUN = 4 }; /* quads */

/* Adds the products of a group to acc. */
FORCE_INLINE void packed_runs(p_acc acc[PACKED_TOKENS][PACKED_PANELS], const struct packed_x *x,
                              const uint8_t *number, size_t h, size_t mt, size_t np,
                              struct packed_kind kind)
{
    UNROLL for (size_t j = 0; j < kind.group; j += PACKED_RUN * TFT_QUAD) {
        p_run run[PACKED_TOKENS][PACKED_PANELS];
        UNROLL for (size_t q = 0; q < PACKED_RUN; q++)
            UNROLL for (size_t p = 0; p < np; p++) {
                breg w[QUAD_REGS];
                size_t at = j + q * TFT_QUAD;
                UNROLL for (int r = 0; r < QUAD_REGS; r++)
                    w[r] = b_repeat(number + (p * PACKED_RANGE + at) * TFT_PANEL, r, 64);
                UNROLL for (size_t i = 0; i < mt; i++) {
                    const uint8_t *row = packed_of(x, x->row, i);
                    run[i][p] = p_run_dot(run[i][p], w, row + h * kind.group + at, q == 0);
                }
            }
        UNROLL for (size_t i = 0; i < mt; i++)
            UNROLL for (size_t p = 0; p < np; p++)
                acc[i][p] = p_run_add(acc[i][p], run[i][p]);
    }
}
#endif

/* acc = the integer sums of a group; h: which one of TFT_STEP_GROUP columns. */
FORCE_INLINE void packed_sums(p_acc acc[PACKED_TOKENS][PACKED_PANELS], const struct packed_x *x,
                              const uint8_t *number, size_t h, size_t mt, size_t np, uint8_t zero,
                              struct packed_kind kind)
{
    UNROLL for (size_t i = 0; i < mt; i++) {
        const int32_t *minus = packed_of(x, x->sum, i);
        int32_t start = kind.min || kind.wide ? 0 : minus[h] * zero;
        UNROLL for (size_t p = 0; p < np; p++)
            acc[i][p] = p_start(start, kind.wide);
    }
#if PACKED_RUNS
    if (kind.runs) {
        packed_runs(acc, x, number, h, mt, np, kind);
        return;
    }
#endif
    UNROLL for (size_t j = 0; j < kind.group; j += 2 * TFT_QUAD) {
        p_quads q[PACKED_PANELS];
        UNROLL for (size_t p = 0; p < np; p++)
            q[p] = packed_load(number + (p * PACKED_RANGE + j) * TFT_PANEL, kind.wide, zero);
        UNROLL for (size_t i = 0; i < mt; i++) {
            const uint8_t *row = packed_of(x, x->row, i);
            UNROLL for (size_t p = 0; p < np; p++)
                acc[i][p] = p_dot(acc[i][p], q[p], row + h * kind.group + j, kind.wide);
        }
    }
}

/* Adds the sums of a group to v. */
FORCE_INLINE void packed_add(v16 v[PACKED_TOKENS][PACKED_PANELS],
                             p_acc acc[PACKED_TOKENS][PACKED_PANELS], const struct packed_x *x,
                             struct packed_group w, size_t h, size_t mt, size_t np,
                             struct packed_kind kind)
{
    UNROLL for (size_t i = 0; i < mt; i++) {
        const float *step = packed_of(x, x->step, i), *fall = packed_of(x, x->sum, i);
        if (kind.min)
            UNROLL for (size_t p = 0; p < np; p++)
                v[i][p] = v_fma(v_load(w.min + p * PACKED_SCALES), v_set(fall[h]), v[i][p]);
        UNROLL for (size_t p = 0; p < np; p++) {
            v16 sum = v_mul(p_floats(acc[i][p], kind.wide), v_load(w.scale + p * PACKED_SCALES));
            v[i][p] = v_fma(sum, v_set(*step), v[i][p]);
        }
    }
}

/* v = y; whole: all of np panels' rows are there. */
FORCE_INLINE void packed_take(v16 v[PACKED_TOKENS][PACKED_PANELS], const struct tft_gemm_packed *g,
                              const float *y, size_t n, size_t mt, size_t np, bool first,
                              bool whole)
{
    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t p = 0; p < np; p++) {
            size_t at = n + p * TFT_PANEL;
            const float *from = y + i * g->ldy + p * TFT_PANEL;
            v[i][p] = whole && !first ? v_load(from)
                                      : packed_begin(g, from, at, g->N - at, first);
        }
}

FORCE_INLINE void packed_put(v16 v[PACKED_TOKENS][PACKED_PANELS], const struct tft_gemm_packed *g,
                             float *y, size_t n, size_t mt, size_t np, bool whole)
{
    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t p = 0; p < np; p++) {
            float *to = y + i * g->ldy + p * TFT_PANEL;
            if (whole)
                v_store(to, v[i][p]);
            else
                v_store_n(to, v[i][p], g->N - n - p * TFT_PANEL);
        }
}

enum { PACKED_LINE = 64 };

/* Prefetches a part of the next codes, from byte `at` of each panel on; else a few tokens would
   wait for memory. Returns the end of the part. */
FORCE_INLINE size_t packed_fetch(const struct packed_range *w, size_t at)
{
    size_t end = min_size(w->next_bytes, at + w->fetch);
    for (; at < end; at += PACKED_LINE)
        UNROLL for (size_t p = 0; p < PACKED_PANELS; p++)
            __builtin_prefetch(w->next[p] + at, 0, 2);
    return at;
}

/* Tokens m .. m + mt - 1, and np panels from panel p of the range on; mt, np and kind are constants
   after inlining. Few instructions come before the loop and after it: they would wait for the sums
   of the tile before. */
FORCE_INLINE void packed_tile(const struct tft_gemm_packed *g, const struct packed_range *w,
                              size_t m, size_t p, size_t mt, size_t np, size_t *fetched,
                              struct packed_kind kind)
{
    const size_t n = w->n + p * TFT_PANEL, each = TFT_STEP_GROUP / kind.group;
    const bool whole = g->N - n >= np * TFT_PANEL;
    float *y = g->y + m * g->ldy + n;
    v16 v[PACKED_TOKENS][PACKED_PANELS];
    if (w->first == 0)
        packed_take(v, g, y, n, mt, np, true, whole);
    else if (whole)
        packed_take(v, g, y, n, mt, np, false, true);
    else
        packed_take(v, g, y, n, mt, np, false, false);

    struct packed_x x;
    struct packed_group at = {w->number[p], w->scale[p], w->min[p]};
    packed_point(&x, g, m, mt, w->first, kind);
    for (size_t k = w->first; k < w->end; k += TFT_STEP_GROUP) {
        UNROLL for (size_t i = 0; i < mt; i++) /* of the next tile */
            __builtin_prefetch((const uint8_t *)packed_of(&x, x.row, i) + mt * x.ldx);
        *fetched = packed_fetch(w, *fetched);
        UNROLL for (size_t h = 0; h < each; h++) {
            p_acc acc[PACKED_TOKENS][PACKED_PANELS];
            packed_sums(acc, &x, at.number, h, mt, np, g->how->zero, kind);
            packed_add(v, acc, &x, at, h, mt, np, kind);
            at.number += kind.group * TFT_PANEL;
            at.scale += TFT_PANEL;
            at.min += TFT_PANEL;
        }
        packed_next(&x, mt, kind);
    }
    if (whole)
        packed_put(v, g, y, n, mt, np, true);
    else
        packed_put(v, g, y, n, mt, np, false);
}

#define PACKED_CASE(tokens)                                                                        \
    case tokens:                                                                                   \
        if (!PACKED_HAS(tokens))                                                                   \
            break;                                                                                 \
        if (2 * tokens >= PACKED_TOKENS && np == PACKED_PANELS)                                    \
            packed_tile(g, w, m, 0, PACKED_MOST(tokens), PACKED_PANELS, &fetched, kind);           \
        else                                                                                       \
            for (size_t p = 0; p < np; p++)                                                        \
                packed_tile(g, w, m, p, PACKED_MOST(tokens), 1, &fetched, kind);                   \
        break
#define PACKED_HAS(tokens) ((tokens) <= PACKED_REST || (tokens) == most)
#define PACKED_MOST(tokens) (PACKED_HAS(tokens) ? (tokens) : 1)

FORCE_INLINE size_t packed_most(size_t group)
{
    return group == TFT_PACKED_GROUP ? PACKED_REST : PACKED_TOKENS;
}

/* The tokens of the next tile, at most `most`. Tiles are of about equal size. Where PACKED_REST is
   smaller, whole tiles come first, and the rest is cut into tiles of PACKED_REST. */
FORCE_INLINE size_t packed_tile_tokens(size_t left, size_t most)
{
    if (PACKED_REST < most && left >= most)
        return most;
    size_t tiles = (left + PACKED_REST - 1) / PACKED_REST;
    return (left + tiles - 1) / tiles;
}

/* All tokens with np panels. Fewer tokens than half of PACKED_TOKENS are a single tile, and take
   one panel at a time. */
FORCE_INLINE void packed_tokens(const struct tft_gemm_packed *g, const struct packed_range *w,
                                size_t np, struct packed_kind kind)
{
    const size_t most = packed_most(kind.group);
    size_t fetched = 0;
    for (size_t m = 0, mt; m < g->M; m += mt) {
        mt = packed_tile_tokens(g->M - m, most);
        switch (mt) {
            PACKED_CASE(1);
            PACKED_CASE(2);
            PACKED_CASE(3);
            PACKED_CASE(4);
            PACKED_CASE(5);
            PACKED_CASE(6);
        }
    }
}

/* A function for each kind of tile: the compiler gives up on one function with all kinds. */
#define PACKED_TOKENS_OF(name, ...)                                                                \
    static __attribute__((noinline)) void ISA(name)(const struct tft_gemm_packed *g,               \
                                                    const struct packed_range *w, size_t np)       \
    {                                                                                              \
        packed_tokens(g, w, np, (struct packed_kind){__VA_ARGS__});                                \
    }

#if PACKED_RUNS /* only Q6_K, in groups of 16, has narrow numbers above 31 */
PACKED_TOKENS_OF(packed_middle16, 16, false, false, false)
#endif
PACKED_TOKENS_OF(packed_narrow16, 16, false, false, PACKED_RUNS)
PACKED_TOKENS_OF(packed_narrow32, 32, false, false, PACKED_RUNS)
PACKED_TOKENS_OF(packed_min16, 16, false, true, PACKED_RUNS)
PACKED_TOKENS_OF(packed_min32, 32, false, true, PACKED_RUNS)
#if PACKED_SIGNED
PACKED_TOKENS_OF(packed_wide16, 16, true, false, false)
PACKED_TOKENS_OF(packed_wide32, 32, true, false, false)
#endif

static void ISA(packed_product)(const struct tft_gemm_packed *g, const struct packed_range *w,
                                size_t np)
{
#if PACKED_RUNS
    if (g->how->bits == 6)
        ISA(packed_middle16)(g, w, np);
    else
#endif
#if PACKED_SIGNED
    if (g->how->bits == 8 && g->how->group == 16)
        ISA(packed_wide16)(g, w, np);
    else if (g->how->bits == 8)
        ISA(packed_wide32)(g, w, np);
    else
#endif
    if (g->how->has_min && g->how->group == 16)
        ISA(packed_min16)(g, w, np);
    else if (g->how->has_min)
        ISA(packed_min32)(g, w, np);
    else if (g->how->group == 16)
        ISA(packed_narrow16)(g, w, np);
    else
        ISA(packed_narrow32)(g, w, np);
}

#include "packed_one.h"

/* A few tokens one by one, 64 rows at a time: the codes come from memory for the first token, and
   from a cache for the others. */
enum { PACKED_FEW_ROWS = 4 * TFT_PANEL };

/* The most tokens for which to unpack the codes once for all would take longer. */
FORCE_INLINE size_t packed_most_few(const struct tft_packing *p)
{
    return packed_is_direct(p, TFT_BITS_1) ? 4 : 2;
}

static void ISA(packed_few)(const struct tft_gemm_packed *g, tft_gemm_packed_fn *one)
{
    size_t panel = tft_packed_panel(g->how, g->K), rows = g->M == 1 ? g->N : PACKED_FEW_ROWS;
    for (size_t n = 0; n < g->N; n += rows)
        for (size_t m = 0; m < g->M; m++) {
            struct tft_gemm_packed token = *g;
            token.y = g->y + m * g->ldy + n;
            token.x = g->x + m * g->ldx;
            token.w = g->w + n / TFT_PANEL * panel;
            token.bias = g->bias ? g->bias + n : NULL;
            token.M = 1;
            token.N = min_size(rows, g->N - n);
            one(&token);
        }
}

/* The bytes of packed_range.fetch: all tiles together prefetch `bytes`. */
FORCE_INLINE size_t packed_part(size_t bytes, size_t M, size_t most, size_t steps)
{
    size_t times = (M + most - 1) / most * steps;
    return (bytes / times + PACKED_LINE) / PACKED_LINE * PACKED_LINE;
}

static void ISA(gemm_packed)(const struct tft_gemm_packed *g)
{
    const struct tft_packing *how = g->how;
    tft_gemm_packed_fn *one = g->M <= packed_most_few(how) ? ISA(packed_one)(how) : NULL;
    if (one) {
        ISA(packed_few)(g, one);
        return;
    }
    if (!g->M)
        return;
    size_t panel = tft_packed_panel(how, g->K), record = tft_packed_record(how);
    struct packed_range w;
    for (w.n = 0; w.n < g->N; w.n += PACKED_PANELS * TFT_PANEL) {
        size_t np = min_size(PACKED_PANELS, (g->N - w.n + TFT_PANEL - 1) / TFT_PANEL);
        for (w.first = 0; w.first < g->K; w.first = w.end) {
            w.end = min_size(g->K, w.first + PACKED_RANGE);
            size_t bytes = (w.end - w.first) / how->block * record;
            bool done = w.end == g->K;
            w.fetch = packed_part(bytes, g->M, packed_most(how->group),
                                  (w.end - w.first) / TFT_STEP_GROUP);
            w.next_bytes = done && w.n + PACKED_PANELS * TFT_PANEL >= g->N ? 0 : bytes;
            for (size_t p = 0; p < PACKED_PANELS; p++) {
                const uint8_t *from =
                    g->w + (w.n / TFT_PANEL + p) * panel + w.first / how->block * record;
                w.next[p] = from + bytes + (done ? (PACKED_PANELS - 1) * panel : 0);
                if (p < np)
                    ISA(unpack)(&(struct tft_unpack){.number = w.number[p],
                                                     .scale = w.scale[p],
                                                     .min = w.min[p],
                                                     .how = how,
                                                     .w = from,
                                                     .K = w.end - w.first});
            }
            ISA(packed_product)(g, &w, np);
        }
    }
}

static void fill_packed(struct tft_kernels *k)
{
    k->gemm_packed = ISA(gemm_packed);
    k->unpack = ISA(unpack);
}

#endif
