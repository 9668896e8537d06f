/* The case of gemm_low: the numbers of the reference, and of gemm_i8 on the same weights. */
#include "data.h"

#include <stdio.h>
#include <string.h>

static const struct tft_low hows[] = {
    {TFT_BITS_4, 32},  {TFT_BITS_4, 64},  {TFT_BITS_4, 128}, {TFT_BITS_3, 32}, {TFT_BITS_3, 64},
    {TFT_BITS_3, 128}, {TFT_BITS_2, 32},  {TFT_BITS_2, 64},  {TFT_BITS_2, 128},
};
enum { HOWS = sizeof hows / sizeof *hows };

/* s and z of a group with all weights in -127 .. 127: the largest codes, if all are the same, would
   be too large with most. */
static uint8_t factors(struct check *c, unsigned levels, size_t kind)
{
    int s, z, last = (int)levels - 1;
    do {
        s = 1 + (int)check_below(c, 15);
        z = kind < 2 ? kind ? 0 : 15 : (int)check_below(c, 16);
    } while (s * z > 127 || s * (last - z) > 127);
    return (uint8_t)(s | z << 4);
}

/* Replaces the weights of o, without padding [N, cols]: as codes, and as the int8 that they stand
   for. Codes are all 0 if kind is 0, the largest if it is 1, otherwise random, as is padding. */
static uint8_t *weights(struct check *c, struct check_product *o, const struct tft_low *how,
                        size_t kind, size_t cols)
{
    size_t panels = tft_panel_rows(o->N) / TFT_PANEL, K = o->cols;
    size_t panel = tft_low_panel(how, K), quads = how->group / TFT_QUAD;
    unsigned levels = tft_bits_levels(how->bits);
    uint8_t *codes = check_buf(c, panels * panel, 1), *to = codes,
            code[TFT_LOW_MAX_GROUP * TFT_PANEL];
    for (size_t i = 0; i < panels * tft_low_groups(how, K); i++, to += tft_low_group_bytes(how)) {
        for (size_t r = 0; r < TFT_PANEL; r++)
            to[r] = factors(c, levels, kind);
        for (size_t j = 0; j < quads * TFT_QUAD_CODES; j++)
            code[j] = (uint8_t)(kind == 0   ? 0
                                : kind == 1 ? levels - 1
                                            : check_below(c, levels));
        tft_codes_pack(to + TFT_PANEL, code, how->bits, quads);
    }
    int8_t *data = (int8_t *)o->w.data;
    int32_t *rowsum = (int32_t *)o->w.rowsum;
    memset(data, 0, tft_panel_rows(o->N) * K);
    memset(rowsum, 0, tft_panel_rows(o->N) * sizeof *rowsum);
    for (size_t n = 0; n < o->N; n++)
        for (size_t k = 0; k < cols; k++) {
            int w = tft_low_at(codes, how, n, k, K);
            data[tft_panel_at(n, k, K)] = (int8_t)w;
            rowsum[n] += w;
        }
    return codes;
}

static void one_shape(struct check *c, const struct tft_low *how, size_t M, size_t N, size_t cols,
                      size_t byte_kind, size_t kind)
{
    struct check_product o = check_product(c, M, N, cols, byte_kind, 3);
    size_t real = cols - check_below(c, 16);
    struct tft_low_panels w = {weights(c, &o, how, kind, real), *how, real};
    size_t ny = M ? (M - 1) * o.ldy + N : 0;
    float *want = check_buf(c, ny, 4), *got = check_buf(c, ny, 4), *i8 = check_buf(c, ny, 4);
    memcpy(want, o.y, ny * 4);
    memcpy(got, o.y, ny * 4);
    memcpy(i8, o.y, ny * 4);
    struct tft_gemm_i8 g = {want, o.ldy, o.x, o.ldx, o.xq, o.step, &o.w, o.bias, o.add, M, N, 0};
    struct tft_panels none = o.w;
    none.data = NULL;
    g.w = &none;
    c->ref->gemm_low(&g, &w);
    g.y = got;
    c->now->gemm_low(&g, &w);
    g.y = i8;
    g.w = &o.w;
    c->now->gemm_i8(&g);
    unsigned bits = tft_bits_levels(how->bits);
    check_same(c, want, got, ny * 4, "%u levels, groups of %u: M %zu N %zu cols %zu", bits,
               how->group, M, N, cols);
    check_same(c, i8, got, ny * 4, "%u levels, groups of %u, as int8: M %zu N %zu cols %zu", bits,
               how->group, M, N, cols);
    check_free();
}

/* Times a shape. */
static void bench(struct check *c, const struct tft_low *how, size_t M, size_t N, size_t K)
{
    const struct tft_kernels *ref = c->ref, *now = c->now;
    struct check_product o = check_product(c, M, N, K, 2, 3);
    size_t bytes = tft_panel_rows(N) / TFT_PANEL * tft_low_panel(how, K);
    uint8_t *codes = check_buf(c, bytes, 1);
    for (size_t i = 0; i < bytes; i++)
        codes[i] = (uint8_t)check_rand(c);
    struct tft_low_panels w = {codes, *how, K};
    struct tft_gemm_i8 g = {o.y, o.ldy, o.x, o.ldx, o.xq, o.step, &o.w, NULL, false, M, N, 0};
    char what[64];
    snprintf(what, sizeof what, "%u levels of %u, %zu x %zu x %zu", tft_bits_levels(how->bits),
             how->group, M, N, K);
    CHECK_TIME(c, what, 2.0 * (double)(M * N * K), (double)bytes, ref->gemm_low(&g, &w),
               now->gemm_low(&g, &w));
    check_free();
}

void check_low(struct check *c)
{
    if (!check_begin(c, "gemm_low", &c->now->gemm_low))
        return;
    for (size_t i = 0; i < HOWS; i++) {
        const struct tft_low *how = &hows[i];
        for (size_t M = 0; M <= 26; M++) /* every tile */
            one_shape(c, how, M, check_size(c, 50), 16 * check_size(c, 30), check_below(c, 6),
                      check_below(c, 6));
        for (size_t kind = 0; kind < 3; kind++) /* the largest sums */
            for (size_t m = 0; m < 3; m++)
                if (c->thorough || (m + kind + i) % 3 == 0)
                    one_shape(c, how, 1 + 3 * m, 17, 8192, 1, kind);
        if (c->thorough || i % 2 == 0)
            one_shape(c, how, 1, 16, TFT_PANEL_MAX_K, 1, 1);
        if (c->thorough || i % 2 == 1)
            one_shape(c, how, 6, 16, TFT_PANEL_MAX_K, 1, 0);
        if (c->thorough || i % 4 == 0) /* several blocks of tokens, ranges of columns */
            one_shape(c, how, 265, 85, 1040, 2, 3);
    }
    for (size_t i = 0; c->bench && i < HOWS; i++) {
        bench(c, &hows[i], 1, 32000, 2048);
        bench(c, &hows[i], 4, 2048, 2048);
        bench(c, &hows[i], 8, 2048, 2048);
        bench(c, &hows[i], 512, 2048, 2048);
    }
}
