/*
 * gemm_packed for one token. Reading the weights takes all the time, so this code reads at an even
 * pace: it unpacks and multiplies numbers in registers. A packing with a book or with three levels
 * has no function here; gemm_packed.h multiplies one token like many.
 *
 * Parameters, besides gemm_packed.h's: sums of codes that stay where they are in their bytes, so
 * that few instructions unpack them; for codes of at most DIRECT_BITS, DIRECT_PANELS at a time:
 *
 *   n_acc                        n_start(): zeros
 *   n_dot(acc, from, x, bits)    acc + products of a quad of codes and 4 signed bytes; 8 times
 *   n_floats(acc, minus, bits)   the sums of (code - 1) * byte as a v16; with 1 bit, of
 *                                (2 * code - 1) * byte; minus: the sum of all bytes, negated
 */
#ifndef TFT_TEMPLATE_PACKED_ONE_H
#define TFT_TEMPLATE_PACKED_ONE_H

#include "packed_unpack.h"

/* Bytes between a prefetch and the use: two pages, as in gemm_i8.h. */
enum { PACKED_AHEAD = 8192 };

/* Bytes of `quads` quads; none for TFT_BITS_COUNT. */
FORCE_INLINE size_t packed_plane(enum tft_bits bits, size_t quads)
{
    return bits == TFT_BITS_COUNT ? 0 : tft_codes_bytes(bits, quads);
}

/* Returns acc + the products of a group of weights and a token. x: the token's bytes of the group.
   codes, rest: the group's low and high bits. */
FORCE_INLINE p_acc packed_dot(p_acc acc, const int8_t *x, const uint8_t *codes,
                              const uint8_t *rest, const uint8_t *above,
                              const struct tft_packing *p, enum tft_bits low, enum tft_bits high,
                              size_t group, bool wide)
{
    UNROLL for (size_t q = 0; q < group / TFT_QUAD; q += 2) {
        breg a[2][QUAD_REGS];
        UNROLL for (size_t i = 0; i < 2; i++)
            packed_quad(a[i], codes + (q + i) * packed_plane(low, 1),
                        rest + (q + i) * packed_plane(high, 1), low, high, above, p->levels);
        acc = p_dot(acc, p_take(a[0], a[1], wide, p->zero), (const uint8_t *)x + q * TFT_QUAD,
                    wide);
    }
    return acc;
}

/* One panel. low_bits and the arguments after it are the fields of p as constants, for unrolled
   loops. */
FORCE_INLINE v16 packed_panel(v16 v, const struct tft_gemm_packed *g, const uint8_t *record,
                              const struct tft_packing *p, enum tft_bits low_bits,
                              enum tft_bits high_bits, size_t group, bool wide)
{
    const int32_t zero = PACKED_SIGNED && wide ? 0 : p->zero;
    const size_t scales = tft_packed_factor_bytes(p), codes = scales + tft_packed_scale_bytes(p),
                 rest = codes + tft_codes_bytes(low_bits, p->block / TFT_QUAD),
                 low = packed_plane(low_bits, group / TFT_QUAD),
                 high = packed_plane(high_bits, group / TFT_QUAD);
    const size_t size = tft_packed_record(p),
                 share = size / (p->block / group); /* of a group: within a line of low + high */
    const int32_t *minus = tft_groups_minus(g->x, g->K, group);
    const float *step = tft_groups_step(g->x, g->K), *fall = tft_groups_fall(g->x, g->K, group);
    uint8_t above[16];
    packed_above(above, p->low);
    for (size_t k = 0; k < g->K; k += p->block, record += size) {
        v16 factor = packed_factor(record, p), minimum = packed_minimum(record, p);
        for (size_t i = 0; i < p->block / group; i++) {
            size_t at = k / group + i;
            UNROLL for (size_t line = 0; line <= low + high; line += PACKED_LINE)
                __builtin_prefetch(record + i * share + line + PACKED_AHEAD);
            v16 scale, min, s = v_set(step[(k + i * group) / TFT_STEP_GROUP]);
            p_acc acc = p_start(minus[at] * zero, wide);
            acc = packed_dot(acc, (const int8_t *)g->x + k + i * group, record + codes + i * low,
                             record + rest + i * high, above, p, low_bits, high_bits, group, wide);
            packed_scale(&scale, &min, record + scales, i, factor, minimum, p);
            if (p->has_min)
                v = v_fma(min, v_set(fall[at]), v);
            v = v_fma(v_mul(p_floats(acc, wide), scale), s, v);
        }
    }
    return v;
}

/* All panels. The arguments replace fields of g->how by constants. */
FORCE_INLINE void packed_panels(const struct tft_gemm_packed *g, enum tft_bits low,
                                enum tft_bits high, uint8_t group, bool levels, bool wide,
                                enum tft_packed_scales scales, bool has_min)
{
    struct tft_packing p = *g->how;
    size_t size = tft_packed_panel(&p, g->K);
    const uint8_t *w = g->w;
    p.low = low;
    p.high = high;
    p.group = group;
    p.scales = scales;
    p.has_min = has_min;
    p.book = 0;
    if (!levels)
        p.levels = NULL;
    for (size_t n = 0; n < g->N; n += TFT_PANEL, w += size) {
        v16 v = packed_begin(g, g->y + n, n, g->N - n, true);
        v_store_n(g->y + n, packed_panel(v, g, w, &p, low, high, group, wide), g->N - n);
    }
}

/* np panels of codes of 1 or 2 bits without scales: the numbers are -1, 1 or -1 .. 2. np and `bits`
   are constants after inlining. */
FORCE_INLINE void packed_direct(v16 *v, const struct tft_gemm_packed *g, const uint8_t *w,
                                const struct tft_packing *p, size_t np, int bits)
{
    enum { QUADS = TFT_STEP_GROUP / TFT_QUAD };
    const size_t quad = 8 * (size_t)bits, size = tft_packed_record(p),
                 panel = tft_packed_panel(p, g->K), groups = p->block / TFT_STEP_GROUP,
                 share = size / groups, first = tft_packed_factor_bytes(p);
    const int32_t *minus = tft_groups_minus(g->x, g->K, TFT_STEP_GROUP);
    const float *step = tft_groups_step(g->x, g->K);
    const uint8_t *x = g->x;
    for (size_t k = 0; k < g->K; k += p->block, w += size) {
        const uint8_t *codes = w + first;
        v16 factor[DIRECT_PANELS];
        UNROLL for (size_t j = 0; j < np; j++)
            factor[j] = packed_factor(w + j * panel, p);
        for (size_t i = 0; i < groups; i++, codes += QUADS * quad, x += TFT_STEP_GROUP) {
            n_acc acc[DIRECT_PANELS];
            UNROLL for (size_t j = 0; j < np; j++) {
                acc[j] = n_start();
                UNROLL for (size_t line = 0; line <= QUADS * quad; line += PACKED_LINE)
                    __builtin_prefetch(w + j * panel + i * share + line + PACKED_AHEAD);
            }
            UNROLL for (size_t q = 0; q < QUADS; q++)
                UNROLL for (size_t j = 0; j < np; j++)
                    acc[j] = n_dot(acc[j], codes + j * panel + q * quad, x + q * TFT_QUAD, bits);
            UNROLL for (size_t j = 0; j < np; j++)
                v[j] = v_fma(v_mul(n_floats(acc[j], *minus, bits), factor[j]), v_set(*step), v[j]);
            minus++;
            step++;
        }
    }
}

/* np panels from row n on. */
FORCE_INLINE void packed_direct_rows(const struct tft_gemm_packed *g, const uint8_t *w,
                                     const struct tft_packing *p, size_t n, size_t np, int bits)
{
    v16 v[DIRECT_PANELS];
    UNROLL for (size_t j = 0; j < np; j++) {
        size_t at = n + j * TFT_PANEL;
        v[j] = packed_begin(g, g->y + at, at, g->N - at, true);
    }
    packed_direct(v, g, w, p, np, bits);
    UNROLL for (size_t j = 0; j < np; j++)
        v_store_n(g->y + n + j * TFT_PANEL, v[j], g->N - n - j * TFT_PANEL);
}

/* All panels: DIRECT_PANELS at a time share the loads of the token. What packed_is_direct says of a
   packing is here constants. */
FORCE_INLINE void packed_directs(const struct tft_gemm_packed *g, int bits)
{
    const struct tft_packing p = {.block = g->how->block,
                                  .group = TFT_STEP_GROUP,
                                  .unit = g->how->unit,
                                  .low = bits == 1 ? TFT_BITS_1 : TFT_BITS_2,
                                  .high = TFT_BITS_COUNT};
    const size_t size = tft_packed_panel(&p, g->K);
    const uint8_t *w = g->w;
    size_t n = 0;
    for (; n + (DIRECT_PANELS - 1) * TFT_PANEL < g->N; n += DIRECT_PANELS * TFT_PANEL) {
        packed_direct_rows(g, w, &p, n, DIRECT_PANELS, bits);
        w += DIRECT_PANELS * size;
    }
    if (n < g->N)
        packed_direct_rows(g, w, &p, n, 1, bits);
}

/* A function for each format's packing. Arguments: low, high, group, levels, wide, scales,
   has_min. */
#if DIRECT_BITS < 2
#define PACKED_TWO(X)                                                                              \
    X(2, TFT_BITS_2, TFT_BITS_COUNT, 32, false, false, TFT_SCALES_NONE, false)
#else
#define PACKED_TWO(X)
#endif
#define PACKED_ONES(X)                                                                             \
    X(8, TFT_BITS_8, TFT_BITS_COUNT, 32, false, true, TFT_SCALES_NONE, false)                      \
    X(6, TFT_BITS_4, TFT_BITS_2, 16, false, false, TFT_SCALES_BYTES, false)                        \
    X(5, TFT_BITS_4, TFT_BITS_1, 32, false, false, TFT_SCALES_NONE, false)                         \
    X(5_min, TFT_BITS_4, TFT_BITS_1, 32, false, false, TFT_SCALES_NONE, true)                      \
    X(5_scales, TFT_BITS_4, TFT_BITS_1, 32, false, false, TFT_SCALES_BYTES, true)                  \
    X(4, TFT_BITS_4, TFT_BITS_COUNT, 32, false, false, TFT_SCALES_NONE, false)                     \
    X(4_min, TFT_BITS_4, TFT_BITS_COUNT, 32, false, false, TFT_SCALES_NONE, true)                  \
    X(4_scales, TFT_BITS_4, TFT_BITS_COUNT, 32, false, false, TFT_SCALES_BYTES, true)              \
    X(4_levels, TFT_BITS_4, TFT_BITS_COUNT, 32, true, false, TFT_SCALES_NONE, false)               \
    X(4_wide, TFT_BITS_4, TFT_BITS_COUNT, 32, true, true, TFT_SCALES_NONE, false)                  \
    X(4_wide_scales, TFT_BITS_4, TFT_BITS_COUNT, 32, true, true, TFT_SCALES_BYTES, false)          \
    X(3, TFT_BITS_2, TFT_BITS_1, 16, false, false, TFT_SCALES_BYTES, false)                        \
    X(4_f8, TFT_BITS_4, TFT_BITS_COUNT, 16, true, false, TFT_SCALES_F8, false)                     \
    PACKED_TWO(X)                                                                                  \
    X(2_scales, TFT_BITS_2, TFT_BITS_COUNT, 16, false, false, TFT_SCALES_NIBBLES, true)

#define PACKED_ONE(name, ...)                                                                      \
    static __attribute__((noinline)) void ISA(packed_one_##name)(const struct tft_gemm_packed *g)  \
    {                                                                                              \
        packed_panels(g, __VA_ARGS__);                                                             \
    }
PACKED_ONES(PACKED_ONE)

static __attribute__((noinline)) void ISA(packed_direct_1)(const struct tft_gemm_packed *g)
{
    packed_directs(g, 1);
}

#if DIRECT_BITS >= 2
static __attribute__((noinline)) void ISA(packed_direct_2)(const struct tft_gemm_packed *g)
{
    packed_directs(g, 2);
}
#endif

/* Whether packed_direct has the numbers of p, whose codes have `bits`. */
FORCE_INLINE bool packed_is_direct(const struct tft_packing *p, enum tft_bits bits)
{
    bool ones = p->levels ? p->levels[0] == 0 && p->levels[1] == 2 : p->low == TFT_BITS_2;
    return !p->book && p->low == bits && p->high == TFT_BITS_COUNT && p->group == 32 && ones &&
           p->zero == 1 && p->scales == TFT_SCALES_NONE && !p->has_min && !p->exponent;
}

/* The function for p; NULL: none. */
static tft_gemm_packed_fn *ISA(packed_one)(const struct tft_packing *p)
{
#define PACKED_IS(name, l, h, g, v, w, s, m)                                                       \
    if (!p->book && p->low == l && p->high == h && p->group == g && !p->levels == !v &&            \
        (p->bits == 8) == w && p->scales == s && p->has_min == m)                                  \
        return ISA(packed_one_##name);
    PACKED_ONES(PACKED_IS)
    if (packed_is_direct(p, TFT_BITS_1))
        return ISA(packed_direct_1);
#if DIRECT_BITS >= 2
    if (packed_is_direct(p, TFT_BITS_2))
        return ISA(packed_direct_2);
#endif
    return NULL;
}

#endif
