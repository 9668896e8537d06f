/*
 * The ISA level amx: products of tiles of bytes (tdpbusd), for gemm_i8 and gemm_low of many tokens.
 * Few tokens are avx512vnni's; its file includes this one.
 *
 * A tile register has 16 rows of 64 bytes. tdpbusd adds to a tile of int32, 16 tokens by 16 rows of
 * W, the products of 64 columns. Its operands are the 16 tokens and 16 quads of a panel, both as
 * they lie in memory. Four sums, of 32 tokens and two panels, share the loads of their operands and
 * hide the latency.
 *
 * All tiles are whole. The last 16 tokens are a tile of their own, so some of them may be computed
 * twice. The last columns are copied, with zeros after them. A last panel without a second one
 * stands for both, and half of the sums are not read.
 *
 * tdpbusd does not saturate: sums are exact modulo 2^32.
 */
#ifndef TFT_X86_AMX_H
#define TFT_X86_AMX_H

#include "tiles.h"

enum {
    AMX_TOKENS = 256,      /* share a range of a panel; a multiple of AMX_TILE */
    AMX_TILE = 16,         /* tokens, rows or quads of a tile */
    AMX_COLS = 64,         /* columns of a tile */
    AMX_RANGE = LOW_RANGE, /* columns: two panels of them fill two thirds of an L1 cache */
    AMX_ROWS = 2 * TFT_PANEL,
};

_Static_assert((int)AMX_TILE == (int)TFT_PANEL && (int)AMX_COLS == AMX_TILE * (int)TFT_QUAD,
               "a panel has whole tiles");
_Static_assert(AMX_RANGE % AMX_COLS == 0, "only the last range has columns to copy");

struct amx_buffer {
    _Alignas(64) int32_t sum[AMX_TOKENS * AMX_ROWS];
    _Alignas(64) int8_t w[AMX_ROWS * AMX_RANGE]; /* of gemm_low */
    _Alignas(64) uint8_t last_x[2 * AMX_TILE * AMX_COLS];
    _Alignas(64) int8_t last_w[2 * AMX_TILE * AMX_COLS];
};

/* A range of columns of AMX_TILE to AMX_TOKENS tokens and two panels. */
struct amx_job {
    const uint8_t *x; /* [tokens, cols], rows ldx apart */
    size_t ldx, tokens;
    size_t cols;     /* a multiple of 16, at most AMX_RANGE */
    const int8_t *w; /* two panels, `stride` bytes apart; 0: one panel, which stands for both */
    size_t stride;
    bool first;           /* the sums begin at 0, or else with those of the ranges before */
    struct amx_buffer *b; /* the sums go to b->sum: [tiles, 16, AMX_ROWS] */
    /* to prefetch for the next job: `bytes` bytes of each of two panels, next_stride bytes apart */
    const void *next;
    size_t bytes, next_stride;
};

/* 64 columns, of the tiles in tmm0 (first tokens, first panel), tmm1 (the second panel), and, if
   two, tmm2 and tmm3 (tokens at `next`). */
FORCE_INLINE void amx_dot(const uint8_t *x, const uint8_t *next, size_t ldx, const int8_t *w,
                          const int8_t *partner, bool two)
{
    TILE_LOAD("tmm4", x, ldx);
    TILE_LOAD("tmm6", w, (size_t)AMX_COLS);
    TILE_DOT("tmm0", "tmm4", "tmm6");
    TILE_LOAD("tmm7", partner, (size_t)AMX_COLS);
    TILE_DOT("tmm1", "tmm4", "tmm7");
    if (two) {
        TILE_LOAD("tmm5", next, ldx);
        TILE_DOT("tmm2", "tmm5", "tmm6");
        TILE_DOT("tmm3", "tmm5", "tmm7");
    }
}

/* to: [16, 64] <- [16, bytes], rows `step` apart, then zeros */
FORCE_INLINE void amx_copy(void *to, const void *from, size_t step, size_t bytes)
{
    for (size_t i = 0; i < AMX_TILE; i++) {
        memset((uint8_t *)to + i * AMX_COLS, 0, AMX_COLS);
        memcpy((uint8_t *)to + i * AMX_COLS, (const uint8_t *)from + i * step, bytes);
    }
}

/* The token at which tile t begins. */
FORCE_INLINE size_t amx_token(size_t t, size_t tokens)
{
    return min_size(t * AMX_TILE, tokens - AMX_TILE);
}

/* Tile t of the tokens and, if two, tile t + 1. */
FORCE_INLINE void amx_step(const struct amx_job *j, size_t t, bool two)
{
    const size_t step = AMX_ROWS * sizeof(int32_t), cols = j->cols / AMX_COLS * AMX_COLS,
                 left = j->cols - cols;
    int32_t *sum = j->b->sum + t * AMX_TILE * AMX_ROWS, *below = sum + AMX_TILE * AMX_ROWS;
    const uint8_t *x = j->x + amx_token(t, j->tokens) * j->ldx,
                  *next = two ? j->x + amx_token(t + 1, j->tokens) * j->ldx : x;
    const int8_t *w = j->w, *partner = j->w + j->stride;
    if (j->first) {
        TILE_ZERO("tmm0");
        TILE_ZERO("tmm1");
        TILE_ZERO("tmm2");
        TILE_ZERO("tmm3");
    } else {
        TILE_LOAD("tmm0", sum, step);
        TILE_LOAD("tmm1", sum + TFT_PANEL, step);
        if (two) {
            TILE_LOAD("tmm2", below, step);
            TILE_LOAD("tmm3", below + TFT_PANEL, step);
        }
    }
    for (size_t k = 0; k < cols; k += AMX_COLS)
        amx_dot(x + k, next + k, j->ldx, w + k * TFT_PANEL, partner + k * TFT_PANEL, two);
    if (left) {
        uint8_t *last_x = j->b->last_x, *last_next = last_x + AMX_TILE * AMX_COLS;
        int8_t *last_w = j->b->last_w, *last_partner = last_w + AMX_TILE * AMX_COLS;
        amx_copy(last_x, x + cols, j->ldx, left);
        if (two)
            amx_copy(last_next, next + cols, j->ldx, left);
        size_t bytes = left * TFT_PANEL;
        memcpy(last_w, w + cols * TFT_PANEL, bytes);
        memset(last_w + bytes, 0, AMX_TILE * AMX_COLS - bytes);
        memcpy(last_partner, partner + cols * TFT_PANEL, bytes);
        memset(last_partner + bytes, 0, AMX_TILE * AMX_COLS - bytes);
        amx_dot(last_x, last_next, AMX_COLS, last_w, last_partner, two);
    }
    TILE_STORE("tmm0", sum, step);
    TILE_STORE("tmm1", sum + TFT_PANEL, step);
    if (two) {
        TILE_STORE("tmm2", below, step);
        TILE_STORE("tmm3", below + TFT_PANEL, step);
    }
}

static void amx_run(const struct amx_job *j)
{
    size_t tiles = (j->tokens + AMX_TILE - 1) / AMX_TILE;
    size_t share = (j->bytes / ((tiles + 1) / 2) + DOT_LINE) / DOT_LINE * DOT_LINE;
    const uint8_t *next = j->next;
    for (size_t t = 0; t < tiles; t += 2, next += share) {
        for (size_t line = 0; line < share; line += DOT_LINE) {
            __builtin_prefetch(next + line);
            __builtin_prefetch(next + j->next_stride + line);
        }
        if (t + 1 < tiles)
            amx_step(j, t, true);
        else
            amx_step(j, t, false);
    }
}

/* Writes outputs after the last range of columns: of the rows from n and the tokens from m on. */
static void amx_finish(const struct tft_gemm_i8 *g, size_t m, size_t n, size_t tokens,
                       const int32_t *sum)
{
    size_t whole = tokens / AMX_TILE * AMX_TILE, rest = tokens - whole;
    for (size_t p = 0; p < AMX_ROWS && n + p < g->N; p += TFT_PANEL) {
        ISA(dot_panel)(g, m, n + p, whole, sum + p, AMX_ROWS);
        if (rest)
            ISA(dot_panel)(g, m + whole, n + p, rest,
                           sum + (whole + AMX_TILE - rest) * AMX_ROWS + p, AMX_ROWS);
    }
}

/* The tokens of the block at m: none has less than a tile. */
FORCE_INLINE size_t amx_block(size_t M, size_t m)
{
    size_t left = M - m;
    if (left > AMX_TOKENS && left < AMX_TOKENS + AMX_TILE)
        return AMX_TOKENS - AMX_TILE;
    return min_size(left, AMX_TOKENS);
}

static void gemm_i8_amx(const struct tft_gemm_i8 *g)
{
    if (g->M < AMX_TILE) {
        ISA(gemm_i8)(g);
        return;
    }
    struct amx_buffer b;
    size_t K = dot_cols(g), panel = TFT_PANEL * g->w->cols;
    tiles_begin();
    for (size_t m = 0, tokens; m < g->M; m += tokens) {
        tokens = amx_block(g->M, m);
        for (size_t n = 0; n < g->N; n += AMX_ROWS) {
            const int8_t *w = g->w->data + n / TFT_PANEL * panel;
            size_t stride = n + TFT_PANEL < g->N ? panel : 0;
            for (size_t k = 0; k < K; k += AMX_RANGE)
                amx_run(&(struct amx_job){
                    .x = g->x + m * g->ldx + k,
                    .ldx = g->ldx,
                    .tokens = tokens,
                    .cols = min_size(AMX_RANGE, K - k),
                    .w = w + k * TFT_PANEL,
                    .stride = stride,
                    .first = k == 0,
                    .b = &b,
                    .next = k + AMX_RANGE < K ? w + (k + AMX_RANGE) * TFT_PANEL : w + 2 * panel,
                    .bytes = AMX_RANGE * TFT_PANEL,
                    .next_stride = stride,
                });
            amx_finish(g, m, n, tokens, b.sum);
        }
    }
    tiles_end();
}

static void gemm_low_amx(const struct tft_gemm_i8 *g, const struct tft_low_panels *w)
{
    if (g->M < AMX_TILE) {
        ISA(gemm_low)(g, w);
        return;
    }
    struct amx_buffer b;
    size_t K = g->w->cols, low_stride = tft_low_panel(&w->how, w->cols),
           bytes = AMX_RANGE / w->how.group * tft_low_group_bytes(&w->how);
    tiles_begin();
    for (size_t m = 0, tokens; m < g->M; m += tokens) {
        tokens = amx_block(g->M, m);
        for (size_t n = 0; n < g->N; n += AMX_ROWS) {
            bool two = n + TFT_PANEL < g->N;
            const uint8_t *codes = w->codes + n / TFT_PANEL * low_stride;
            for (size_t k = 0; k < K; k += AMX_RANGE) {
                size_t cols = min_size(AMX_RANGE, K - k), panel = cols * TFT_PANEL;
                ISA(low_unpack)(b.w, w, n, k, cols);
                if (two)
                    ISA(low_unpack)(b.w + panel, w, n + TFT_PANEL, k, cols);
                amx_run(&(struct amx_job){
                    .x = g->x + m * g->ldx + k,
                    .ldx = g->ldx,
                    .tokens = tokens,
                    .cols = cols,
                    .w = b.w,
                    .stride = two ? panel : 0,
                    .first = k == 0,
                    .b = &b,
                    .next = codes + low_next(&w->how, K, k),
                    .bytes = bytes,
                    .next_stride = two ? low_stride : 0,
                });
            }
            amx_finish(g, m, n, tokens, b.sum);
        }
    }
    tiles_end();
}

/* A loop of tdpbusd over four sums, of zeros: its time does not depend on the numbers. */
static double peak_int8_amx(size_t rounds)
{
    tiles_begin();
    for (size_t i = 0; i < rounds; i++) {
        TILE_DOT("tmm0", "tmm4", "tmm6");
        TILE_DOT("tmm1", "tmm4", "tmm7");
        TILE_DOT("tmm2", "tmm5", "tmm6");
        TILE_DOT("tmm3", "tmm5", "tmm7");
    }
    tiles_end();
    return 2.0 * 4 * AMX_TILE * AMX_TILE * AMX_COLS * (double)rounds;
}

void tft_isa_amx(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    k->gemm_i8 = gemm_i8_amx;
    k->gemm_low = gemm_low_amx;
    k->peak_int8 = peak_int8_amx;
}

#endif
