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
 *   PACKED_TOKENS               of a tile: at most 6
 *   PACKED_PANELS               1 or 2
 */
#ifndef TFT_TEMPLATE_GEMM_PACKED_H
#define TFT_TEMPLATE_GEMM_PACKED_H

#include "packed_unpack.h"

enum { PACKED_RANGE = 512, PACKED_GROUPS = PACKED_RANGE / TFT_PACKED_GROUP };

_Static_assert(PACKED_RANGE % TFT_PACKED_BLOCK == 0, "a range is a whole number of records");
_Static_assert(PACKED_TOKENS >= 1 && PACKED_TOKENS <= 6, "packed_tokens has the smaller tiles");
_Static_assert(PACKED_PANELS == 1 || PACKED_PANELS == 2, "packed_tokens has a case for each");

/* A range of columns of some panels, unpacked. */
struct packed_range {
    _Alignas(64) uint8_t number[PACKED_PANELS][PACKED_RANGE * TFT_PANEL];
    _Alignas(64) float scale[PACKED_PANELS][PACKED_GROUPS * TFT_PANEL];
    _Alignas(64) float min[PACKED_PANELS][PACKED_GROUPS * TFT_PANEL];
    size_t first, end; /* columns */
    size_t n;          /* the first panel's first row of W */
};

/* y before the first column. */
FORCE_INLINE v16 packed_begin(const struct tft_gemm_packed *g, const float *y, size_t n,
                              size_t rows)
{
    v16 v = g->add ? v_load_n(y, rows) : v_set(0);
    return g->bias ? v_add(v, v_load_n(g->bias + n, rows)) : v;
}

FORCE_INLINE p_quads packed_load(const uint8_t *number, bool wide, uint8_t zero)
{
    breg a[2][QUAD_REGS];
    UNROLL for (int i = 0; i < 2; i++)
        UNROLL for (int r = 0; r < QUAD_REGS; r++)
            a[i][r] = b_repeat(number + i * TFT_QUAD_CODES, r, 64);
    return p_take(a[0], a[1], wide, zero);
}

/* Tokens m .. m + mt - 1, and np panels from panel `first` of the range on; mt, np, group and wide
   are constants after inlining. */
FORCE_INLINE void packed_tile(const struct tft_gemm_packed *g, const struct packed_range *w,
                              size_t m, size_t first, size_t mt, size_t np, size_t group,
                              bool wide)
{
    const int32_t zero = PACKED_SIGNED && wide ? 0 : g->how->zero;
    const bool has_min = g->how->has_min;
    const size_t n = w->n + first * TFT_PANEL, end = n + np * TFT_PANEL,
                 last = end <= g->N ? TFT_PANEL : TFT_PANEL - (end - g->N);
    v16 v[PACKED_TOKENS][PACKED_PANELS];
    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t p = 0; p < np; p++) {
            size_t at = n + p * TFT_PANEL, rows = p + 1 < np ? TFT_PANEL : last;
            const float *y = g->y + (m + i) * g->ldy + at;
            v[i][p] = w->first ? v_load_n(y, rows) : packed_begin(g, y, at, rows);
        }

    const uint8_t *row = g->x + m * g->ldx;
    for (size_t k = w->first; k < w->end; k += group) {
        size_t at = (k - w->first) / group * TFT_PANEL;
        p_acc acc[PACKED_TOKENS][PACKED_PANELS];
        UNROLL for (size_t i = 0; i < mt; i++) {
            int32_t minus = tft_groups_minus(row + i * g->ldx, g->K, group)[k / group];
            UNROLL for (size_t p = 0; p < np; p++)
                acc[i][p] = p_start(minus * zero, wide);
        }
        UNROLL for (size_t j = 0; j < group; j += 2 * TFT_QUAD) {
            p_quads q[PACKED_PANELS];
            UNROLL for (size_t p = 0; p < np; p++)
                q[p] = packed_load(w->number[first + p] + (k - w->first + j) * TFT_PANEL, wide,
                                   g->how->zero);
            UNROLL for (size_t i = 0; i < mt; i++)
                UNROLL for (size_t p = 0; p < np; p++)
                    acc[i][p] = p_dot(acc[i][p], q[p], row + i * g->ldx + k + j, wide);
        }
        UNROLL for (size_t i = 0; i < mt; i++) {
            float step = tft_groups_step(row + i * g->ldx, g->K)[k / TFT_STEP_GROUP];
            if (has_min) {
                int32_t minus = tft_groups_minus(row + i * g->ldx, g->K, group)[k / group];
                v16 t = v_set((float)minus * step);
                UNROLL for (size_t p = 0; p < np; p++)
                    v[i][p] = v_fma(v_load(w->min[first + p] + at), t, v[i][p]);
            }
            UNROLL for (size_t p = 0; p < np; p++) {
                v16 sum = v_mul(p_floats(acc[i][p], wide), v_load(w->scale[first + p] + at));
                v[i][p] = v_fma(sum, v_set(step), v[i][p]);
            }
        }
    }
    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t p = 0; p < np; p++)
            v_store_n(g->y + (m + i) * g->ldy + n + p * TFT_PANEL, v[i][p],
                      p + 1 < np ? TFT_PANEL : last);
}

#define PACKED_CASE(mt)                                                                            \
    case mt:                                                                                       \
        if (mt <= PACKED_TOKENS)                                                                   \
            packed_tile(g, w, m, p, mt <= PACKED_TOKENS ? mt : 1, 1, group, wide);                 \
        break

/* All tokens with np panels. */
FORCE_INLINE void packed_tokens(const struct tft_gemm_packed *g, const struct packed_range *w,
                                size_t np, size_t group, bool wide)
{
    size_t begin = 0;
    if (np == PACKED_PANELS)
        for (; begin + PACKED_TOKENS <= g->M; begin += PACKED_TOKENS)
            packed_tile(g, w, begin, 0, PACKED_TOKENS, PACKED_PANELS, group, wide);
    for (size_t p = 0; p < np; p++)
        for (size_t m = begin; m < g->M; m += PACKED_TOKENS)
            switch (min_size(PACKED_TOKENS, g->M - m)) {
                PACKED_CASE(1);
                PACKED_CASE(2);
                PACKED_CASE(3);
                PACKED_CASE(4);
                PACKED_CASE(5);
                PACKED_CASE(6);
            }
}

/* A function for each kind of tile: the compiler gives up on one function with all kinds. */
#define PACKED_TOKENS_OF(name, group, wide)                                                        \
    static __attribute__((noinline)) void ISA(name)(const struct tft_gemm_packed *g,               \
                                                    const struct packed_range *w, size_t np)       \
    {                                                                                              \
        packed_tokens(g, w, np, group, wide);                                                      \
    }

PACKED_TOKENS_OF(packed_narrow16, 16, false)
PACKED_TOKENS_OF(packed_narrow32, 32, false)
#if PACKED_SIGNED
PACKED_TOKENS_OF(packed_wide16, 16, true)
PACKED_TOKENS_OF(packed_wide32, 32, true)
#endif

static void ISA(packed_product)(const struct tft_gemm_packed *g, const struct packed_range *w,
                                size_t np)
{
#if PACKED_SIGNED
    if (g->how->wide && g->how->group == 16)
        ISA(packed_wide16)(g, w, np);
    else if (g->how->wide)
        ISA(packed_wide32)(g, w, np);
    else
#endif
    if (g->how->group == 16)
        ISA(packed_narrow16)(g, w, np);
    else
        ISA(packed_narrow32)(g, w, np);
}

#include "packed_one.h"

/* A few tokens one by one, 64 rows at a time: the codes come from memory for the first token, and
   from a cache for the others. To unpack the codes once for all tokens would take longer. */
enum { PACKED_FEW = 4, PACKED_FEW_ROWS = 4 * TFT_PANEL };

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

static void ISA(gemm_packed)(const struct tft_gemm_packed *g)
{
    const struct tft_packing *how = g->how;
    tft_gemm_packed_fn *one = g->M <= PACKED_FEW ? ISA(packed_one)(how) : NULL;
    if (one) {
        ISA(packed_few)(g, one);
        return;
    }
    size_t panel = tft_packed_panel(how, g->K), record = tft_packed_record(how);
    struct packed_range w;
    for (w.n = 0; w.n < g->N; w.n += PACKED_PANELS * TFT_PANEL) {
        size_t np = min_size(PACKED_PANELS, (g->N - w.n + TFT_PANEL - 1) / TFT_PANEL);
        for (w.first = 0; w.first < g->K; w.first = w.end) {
            w.end = min_size(g->K, w.first + PACKED_RANGE);
            for (size_t p = 0; p < np; p++)
                ISA(unpack)(&(struct tft_unpack){
                    .number = w.number[p],
                    .scale = w.scale[p],
                    .min = w.min[p],
                    .how = how,
                    .w = g->w + (w.n / TFT_PANEL + p) * panel + w.first / how->block * record,
                    .K = w.end - w.first,
                });
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
