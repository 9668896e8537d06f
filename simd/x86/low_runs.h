/*
 * The many tokens of gemm_low.h on x86 without dot products of bytes. A weight is s * (c - z), and
 * c - z is at most 15 away from 0. vpmaddubsw adds the products of two bytes of a token, at most
 * 2 * 255 * 15, and an int16 holds four such sums: a run of four quads. vpmaddwd multiplies a run
 * by s, and adds two sums in 32 bits. A run is 10 instructions; with weights widened to 16 bits, as
 * in madd_block.h, it would be 16.
 *
 * Parameters: as for gemm_i8.h, which must be included first, and for low_unpack.h, and LOW_TILE,
 * the tokens of a tile.
 */
#include "simd/template/low_unpack.h"

enum { RUN = 4, RUN_RANGE = 512, RUN_TOKENS = 96 }; /* quads; columns and tokens of a block */

_Static_assert(RUN * TFT_QUAD == TFT_K_PAD, "a row is a whole number of runs");
_Static_assert(TFT_LOW_GROUP % TFT_K_PAD == 0, "so is a group");
_Static_assert(RUN_RANGE % TFT_LOW_MAX_GROUP == 0, "a range begins with a group");

/* A range of columns of one panel. */
struct low_runs {
    _Alignas(64) int32_t sum[RUN_TOKENS][TFT_PANEL];
    _Alignas(64) int8_t number[RUN_RANGE * TFT_PANEL];            /* c - z, in quads */
    _Alignas(64) int32_t s[RUN_RANGE / TFT_LOW_GROUP][TFT_PANEL]; /* twice, as int16 */
    size_t columns, group;
};

/* b->columns columns from k on of the panel of row n; k is a multiple of the group. */
static void ISA(low_runs_take)(struct low_runs *b, const struct tft_low_panels *w, size_t n,
                               size_t k)
{
    const size_t size = tft_low_group_bytes(&w->how);
    const uint8_t *from = w->codes + n / TFT_PANEL * tft_low_panel(&w->how, w->cols) +
                          k / w->how.group * size;
    b->group = w->how.group;
    for (size_t at = 0; at < b->columns && k + at < w->cols; at += b->group, from += size)
        UNROLL for (int p = 0; p < PARTS; p++) {
            ireg s = i_and(i_widen_u8(from + p * LANES), i_set(15));
            i_store(b->s[at / b->group] + p * LANES, i_mullo(s, i_set(0x00010001)));
        }
    ISA(low_unpack)(b->number, w, n, k, b->columns);
}

/* sum: [n, 16]. Adds the products of n tokens and the panel; n is a constant after inlining. */
FORCE_INLINE void low_runs_tile(int32_t *sum, const struct low_runs *b, const uint8_t *x,
                                size_t ldx, size_t n)
{
    ireg total[LOW_TILE][PARTS];
    const int8_t *number = b->number;
    UNROLL for (size_t i = 0; i < n; i++)
        UNROLL for (size_t p = 0; p < PARTS; p++)
            total[i][p] = i_load(sum + i * TFT_PANEL + p * LANES);
    for (size_t k = 0; k < b->columns; k += TFT_K_PAD, x += TFT_K_PAD) {
        ireg run[LOW_TILE][PARTS];
        UNROLL for (size_t q = 0; q < RUN; q++, number += TFT_QUAD_CODES)
            UNROLL for (size_t i = 0; i < n; i++) {
                int32_t quad;
                memcpy(&quad, x + i * ldx + q * TFT_QUAD, 4);
                UNROLL for (size_t p = 0; p < PARTS; p++) {
                    ireg pairs = i_maddubs(i_set(quad), i_load(number + p * BYTES));
                    run[i][p] = q ? i_add16(run[i][p], pairs) : pairs;
                    /* keeps gcc from moving sums between registers */
                    __asm__("" : "+v"(run[i][p]));
                }
            }
        const int32_t *s = b->s[k / b->group];
        UNROLL for (size_t i = 0; i < n; i++)
            UNROLL for (size_t p = 0; p < PARTS; p++) {
                total[i][p] = i_add(total[i][p], i_madd(run[i][p], i_load(s + p * LANES)));
                __asm__("" : "+v"(total[i][p]));
            }
    }
    UNROLL for (size_t i = 0; i < n; i++)
        UNROLL for (size_t p = 0; p < PARTS; p++)
            i_store(sum + i * TFT_PANEL + p * LANES, total[i][p]);
}

static void ISA(low_runs_tiles)(struct low_runs *b, const uint8_t *x, size_t ldx, size_t tokens)
{
    size_t m = 0;
    for (; m + LOW_TILE <= tokens; m += LOW_TILE)
        low_runs_tile(b->sum[m], b, x + m * ldx, ldx, LOW_TILE);
    for (; m + 2 <= tokens; m += 2)
        low_runs_tile(b->sum[m], b, x + m * ldx, ldx, 2);
    if (m < tokens)
        low_runs_tile(b->sum[m], b, x + m * ldx, ldx, 1);
}

/* Tokens m .. m + tokens - 1 and the panel of row n. */
static void ISA(low_runs_panel)(const struct tft_gemm_i8 *g, const struct tft_low_panels *w,
                                struct low_runs *b, size_t m, size_t tokens, size_t n)
{
    memset(b->sum, 0, tokens * sizeof *b->sum);
    for (size_t k = 0; k < g->w->cols; k += RUN_RANGE) {
        b->columns = min_size(RUN_RANGE, g->w->cols - k);
        ISA(low_runs_take)(b, w, n, k);
        ISA(low_runs_tiles)(b, g->x + m * g->ldx + k, g->ldx, tokens);
    }
    for (size_t i = 0; DOT_FLIP && i < tokens; i++) /* dot_panel takes sums of x - DOT_FLIP */
        for (size_t r = 0; r < TFT_PANEL; r++)
            b->sum[i][r] = (int32_t)((uint32_t)b->sum[i][r] -
                                     DOT_FLIP * (uint32_t)g->w->rowsum[n + r]);
    ISA(dot_panel)(g, m, n, tokens, b->sum[0], TFT_PANEL);
}

static void ISA(low_many)(const struct tft_gemm_i8 *g, const struct tft_low_panels *w)
{
    struct low_runs b;
    for (size_t m = 0; m < g->M; m += RUN_TOKENS)
        for (size_t n = 0; n < g->N; n += TFT_PANEL)
            ISA(low_runs_panel)(g, w, &b, m, min_size(RUN_TOKENS, g->M - m), n);
}
