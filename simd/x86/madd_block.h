/*
 * gemm_i8 for many tokens on x86 without dot products of bytes. Bytes are widened to
 * 16 bits, and vpmaddwd adds two products in 32 bits. A block of BLOCK_TOKENS tokens, BLOCK_PANELS
 * panels and BLOCK_K columns widens each byte once, and a tile's input fits an L1 cache of 32 KB.
 * The inner loop is then one vpmaddwd and one vpaddd for 16 products. Sums wait in memory from one
 * BLOCK_K columns to the next.
 *
 * Parameters: as for gemm_i8.h, which must be included first, and DOT_FLIP 128.
 */
enum { BLOCK_TOKENS = 48, BLOCK_PANELS = 8, BLOCK_K = 128, BLOCK_QUADS = BLOCK_K / TFT_QUAD };

/* Tokens of a tile: 12 registers of sums, 2 of weights, one of a token, products: all 16. */
enum { BLOCK_TILE = 6 };

_Static_assert(BLOCK_K % TFT_K_PAD == 0, "madd_widen_tokens takes 16 columns at a time");
_Static_assert(DOT_FLIP == 128, "madd_widen_tokens takes x - 128");

/* w and x are pairs of int16: [0] has bytes 0 and 2 of a quad, [1] has bytes 1 and 3. */
struct madd_block {
    _Alignas(64) int32_t sum[BLOCK_PANELS][BLOCK_TOKENS][TFT_PANEL];
    _Alignas(64) int32_t w[2][BLOCK_QUADS][TFT_PANEL];
    _Alignas(64) int32_t x[BLOCK_TOKENS][2][BLOCK_QUADS];
};

/* w: `quads` quads of one panel */
static void madd_widen_panel(struct madd_block *b, const int8_t *w, size_t quads)
{
    for (size_t q = 0; q < quads; q++)
        for (size_t n = 0; n < TFT_PANEL; n += LANES) {
            ireg v = i_load(w + (q * TFT_PANEL + n) * TFT_QUAD);
            i_store(b->w[0][q] + n, i_even(v));
            i_store(b->w[1][q] + n, i_odd(v));
        }
}

/* x: [tokens, 4 quads], rows ldx apart. Stores x - 128. quads is a multiple of 4. */
static void madd_widen_tokens(struct madd_block *b, const uint8_t *x, size_t ldx, size_t tokens,
                              size_t quads)
{
    for (size_t m = 0; m < tokens; m++, x += ldx)
        for (size_t q = 0; q < quads; q += 4) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(x + q * TFT_QUAD));
            v = _mm_xor_si128(v, _mm_set1_epi8(-128));
            _mm_store_si128((__m128i *)(void *)(b->x[m][0] + q),
                            _mm_srai_epi16(_mm_slli_epi16(v, 8), 8));
            _mm_store_si128((__m128i *)(void *)(b->x[m][1] + q), _mm_srai_epi16(v, 8));
        }
}

/* sum: [n, 16]. Adds the products of tokens m .. m + n - 1 and the panel; n is a constant after
   inlining. */
FORCE_INLINE void madd_tile(int32_t *sum, const struct madd_block *b, size_t m, size_t quads,
                            size_t n)
{
    ireg acc[BLOCK_TILE][PARTS];
    UNROLL for (size_t i = 0; i < n; i++)
        UNROLL for (size_t p = 0; p < PARTS; p++)
            acc[i][p] = i_load(sum + i * TFT_PANEL + p * LANES);
    for (size_t q = 0; q < quads; q++)
        UNROLL for (size_t half = 0; half < 2; half++) {
            ireg w[PARTS];
            UNROLL for (size_t p = 0; p < PARTS; p++)
                w[p] = i_load(b->w[half][q] + p * LANES);
            UNROLL for (size_t i = 0; i < n; i++) {
                ireg x = i_set(b->x[m + i][half][q]);
                UNROLL for (size_t p = 0; p < PARTS; p++) {
                    acc[i][p] = i_add(acc[i][p], i_madd(w[p], x));
                    /* keeps gcc from moving sums between registers */
                    __asm__("" : "+v"(acc[i][p]));
                }
            }
        }
    UNROLL for (size_t i = 0; i < n; i++)
        UNROLL for (size_t p = 0; p < PARTS; p++)
            i_store(sum + i * TFT_PANEL + p * LANES, acc[i][p]);
}

static void madd_tiles(int32_t (*sum)[TFT_PANEL], const struct madd_block *b, size_t tokens,
                       size_t quads)
{
    size_t m = 0;
    for (; m + BLOCK_TILE <= tokens; m += BLOCK_TILE)
        madd_tile(sum[m], b, m, quads, BLOCK_TILE);
    for (; m + 2 <= tokens; m += 2)
        madd_tile(sum[m], b, m, quads, 2);
    if (m < tokens)
        madd_tile(sum[m], b, m, quads, 1);
}

/* The outputs of `tokens` tokens from m on and of rows n .. end - 1, at most a block of each. */
static void madd_block(const struct tft_gemm_i8 *g, struct madd_block *b, size_t m, size_t tokens,
                       size_t n, size_t end)
{
    size_t cols = dot_cols(g), panels = (end - n + TFT_PANEL - 1) / TFT_PANEL;
    memset(b->sum, 0, panels * sizeof *b->sum);
    for (size_t k = 0; k < cols; k += BLOCK_K) {
        size_t quads = min_size(BLOCK_K, cols - k) / TFT_QUAD;
        madd_widen_tokens(b, g->x + m * g->ldx + k, g->ldx, tokens, quads);
        for (size_t p = 0; p < panels; p++) {
            const int8_t *w = g->w->data + (n + p * TFT_PANEL) * g->w->cols + k * TFT_PANEL;
            madd_widen_panel(b, w, quads);
            madd_tiles(b->sum[p], b, tokens, quads);
        }
    }
    for (size_t p = 0; p < panels; p++)
        ISA(dot_panel)(g, m, n + p * TFT_PANEL, tokens, b->sum[p][0], TFT_PANEL);
}

/* Fewer tokens are faster with gemm_i8.h, because few tokens share the widening. */
enum { BLOCK_MIN_TOKENS = 20 };

static void madd_blocks(const struct tft_gemm_i8 *g)
{
    enum { ROWS = BLOCK_PANELS * TFT_PANEL };
    struct madd_block b;
    for (size_t n = 0; n < g->N; n += ROWS)
        for (size_t m = 0; m < g->M; m += BLOCK_TOKENS)
            madd_block(g, &b, m, min_size(BLOCK_TOKENS, g->M - m), n,
                       min_size(g->N, n + ROWS));
}

/* Flattened: for one token of a small model, calls would take a noticeable part of the time. */
static __attribute__((flatten)) void ISA(gemm_i8_blocks)(const struct tft_gemm_i8 *g)
{
    if (g->M < BLOCK_MIN_TOKENS)
        ISA(gemm_i8)(g);
    else
        madd_blocks(g);
}
