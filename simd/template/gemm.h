/*
 * gemm of kernels.h: the matrix product of floats, for f32, f16 and bf16 weights.
 *
 * A tile is TILE_M tokens by TILE_N rows of w. Its sums are TILE_M * TILE_N accumulators of 16
 * lanes, in registers during the loop over the tile's piece of K.
 *
 * Parameters, besides lanes.h:
 *
 *   ISA(name)   the name of a function of this ISA level: name_avx2 ..
 *   TILE_M      tokens of a tile, at most 6
 *   TILE_N      rows of w of a tile, at most 4
 */
#ifndef TFT_TEMPLATE_GEMM_H
#define TFT_TEMPLATE_GEMM_H

#include "lanes.h"

_Static_assert(TILE_M >= 1 && TILE_M <= 6, "GEMM_CASE has the smaller tiles");
_Static_assert(TILE_N >= 1 && TILE_N <= 4, "r_hsum4 sums a tile of 4 rows");

/* Bytes. From STREAM_ROW on, a row of w is long enough to stream alone; one token prefetches a long
   row STREAM_AHEAD before its use (two pages). */
enum { STREAM_ROW = 4096, STREAM_AHEAD = 8192 };

/* A piece of a product: n columns of some tokens and some rows of w. The outputs start from 0, or,
   if `add`, from y, plus bias. */
struct gemm_piece {
    float *y;
    size_t ldy;
    const float *x;
    size_t ldx;
    const char *w; /* rows ldw numbers apart */
    size_t ldw, n;
    const float *bias; /* of the first row, or NULL */
    bool add;
};

/* sum: [nt] of token m */
FORCE_INLINE void gemm_store(const struct gemm_piece *g, size_t m, size_t nt, const float *sum)
{
    float *y = g->y + m * g->ldy, start[TILE_N];
    for (size_t j = 0; j < nt; j++)
        start[j] = g->add ? y[j] : 0;
    if (g->bias)
        for (size_t j = 0; j < nt; j++)
            start[j] += g->bias[j];
    for (size_t j = 0; j < nt; j++)
        y[j] = start[j] + sum[j];
}

/* mt tokens by nt rows of w; both are constants after inlining. A load of w serves mt products, and
   a load of x serves nt. The v16 are processed a register at a time, so few operands are live. One
   token waits for memory, so it prefetches the next rows. */
FORCE_INLINE void gemm_tile(const struct gemm_piece *g, size_t mt, size_t nt, enum tft_num num)
{
    size_t size = tft_num_bytes(num), n = g->n, ahead = nt > 1 ? nt * g->ldw * size : STREAM_AHEAD;
    const char *row[TILE_N];
    v16 acc[TILE_M][TILE_N];
    UNROLL for (size_t j = 0; j < nt; j++)
        row[j] = g->w + j * g->ldw * size;
    UNROLL for (size_t i = 0; i < mt; i++)
        UNROLL for (size_t j = 0; j < nt; j++)
            acc[i][j] = v_set(0);

    size_t k = 0;
    for (; k + 16 <= n; k += 16) {
        if (mt == 1)
            UNROLL for (size_t j = 0; j < nt; j++)
                __builtin_prefetch(row[j] + ahead + k * size);
        UNROLL for (size_t p = 0; p < PARTS; p++) {
            reg b[TILE_N];
            UNROLL for (size_t j = 0; j < nt; j++)
                b[j] = r_load_num(row[j], k + p * LANES, num);
            UNROLL for (size_t i = 0; i < mt; i++) {
                reg a = r_load(g->x + i * g->ldx + k + p * LANES);
                UNROLL for (size_t j = 0; j < nt; j++)
                    acc[i][j].r[p] = r_fma(a, b[j], acc[i][j].r[p]);
            }
        }
    }
    if (k < n)
        UNROLL for (size_t j = 0; j < nt; j++) {
            v16 b = v_load_buffer(row[j], k, n - k, num);
            UNROLL for (size_t i = 0; i < mt; i++) {
                v16 a = v_load_part(g->x + i * g->ldx + k, n - k);
                acc[i][j] = v_select_part(v_fma(a, b, acc[i][j]), acc[i][j], n - k);
            }
        }

    UNROLL for (size_t i = 0; i < mt; i++) {
        float sum[TILE_N];
#ifdef HAVE_HSUM4
        if (nt == 4)
            r_hsum4(sum, acc[i][0].r[0], acc[i][1].r[0], acc[i][2].r[0], acc[i][3].r[0]);
        else
#endif
            UNROLL for (size_t j = 0; j < nt; j++)
                sum[j] = v_hsum(acc[i][j]);
        gemm_store(g, i, nt, sum);
    }
}

#define GEMM_CASE(mt)                                                                              \
    case mt:                                                                                       \
        if (mt < TILE_M)                                                                           \
            gemm_tile(&g, mt, nt, num);                                                            \
        break

/* M tokens by nt rows of w. */
FORCE_INLINE void gemm_tokens(struct gemm_piece g, size_t M, size_t nt, enum tft_num num)
{
    for (; M >= TILE_M; M -= TILE_M) {
        gemm_tile(&g, TILE_M, nt, num);
        g.x += TILE_M * g.ldx;
        g.y += TILE_M * g.ldy;
    }
    switch (M) {
        GEMM_CASE(5);
        GEMM_CASE(4);
        GEMM_CASE(3);
        GEMM_CASE(2);
        GEMM_CASE(1);
    }
}

/* M tokens by N rows of w. */
FORCE_INLINE void gemm_rows(struct gemm_piece g, size_t M, size_t N, enum tft_num num)
{
    for (size_t nt; N; N -= nt) {
        nt = N >= TILE_N ? TILE_N : 1;
        if (nt == TILE_N)
            gemm_tokens(g, M, TILE_N, num);
        else
            gemm_tokens(g, M, 1, num);
        g.w += nt * g.ldw * tft_num_bytes(num);
        g.y += nt;
        g.bias = g.bias ? g.bias + nt : NULL;
    }
}

/* The number of rows of w that pass through all their pieces before the next rows. Few tokens wait
   for w from memory, so they read w front to back: one row at a time if rows are long (one stream
   is faster than four: 41 against 32 GB/s), otherwise a tile. Many tokens take a piece of all rows,
   while their share of x stays in the L2 cache. */
FORCE_INLINE size_t gemm_rows_at_once(size_t M, size_t N, size_t row_bytes)
{
    if (M > TILE_M)
        return N;
    return M == 1 && row_bytes >= STREAM_ROW ? 1 : TILE_N;
}

/* A block's share of x, 96 tokens x 1024 floats, is 384 KiB; a tile's share of x and w is about
   40 KiB, the size of an L1 cache. */
FORCE_INLINE void gemm(struct tft_gemm g, enum tft_num num)
{
    enum { BLOCK = 96 };
    size_t size = tft_num_bytes(num), rows = gemm_rows_at_once(g.M, g.N, g.K * size);
    for (size_t m = 0; m < g.M; m += BLOCK)
        for (size_t n = 0; n < g.N; n += rows)
            for (size_t k = 0; k < g.K; k += TFT_PIECE) {
                struct gemm_piece piece = {
                    .y = g.y + m * g.ldy + n,
                    .ldy = g.ldy,
                    .x = g.x + m * g.ldx + k,
                    .ldx = g.ldx,
                    .w = (const char *)g.w + (n * g.K + k) * size,
                    .ldw = g.K,
                    .n = min_size(TFT_PIECE, g.K - k),
                    .bias = g.bias && k == 0 ? g.bias + n : NULL,
                    .add = g.add || k,
                };
                gemm_rows(piece, min_size(BLOCK, g.M - m), min_size(rows, g.N - n), num);
            }
}

static void ISA(gemm_f32)(const struct tft_gemm *g)
{
    gemm(*g, TFT_NUM_F32);
}

static void ISA(gemm_f16)(const struct tft_gemm *g)
{
    gemm(*g, TFT_NUM_F16);
}

static void ISA(gemm_bf16)(const struct tft_gemm *g)
{
    gemm(*g, TFT_NUM_BF16);
}

#endif
