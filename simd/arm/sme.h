/*
 * The ISA level sme: outer products of bytes (usmopa) in streaming mode, for gemm_i8 and gemm_low
 * of many tokens. Few tokens are i8mm's, whose file includes this one.
 *
 * usmopa adds to a tile of ZA, v rows by v columns of int32, the products of 4 bytes of v tokens by
 * 4 bytes of v rows of W. v is the number of int32 in a vector of streaming mode, at most 16: a
 * longer vector is used in part. The quads of a panel are such operands as they lie. The bytes of
 * the tokens are first rearranged to quads of v tokens, by writing rows of ZA and reading columns.
 * Four tiles, of 2 v tokens and 2 v rows, hide the latency of usmopa and share its operands.
 *
 * Streaming mode is one asm statement: NEON does not exist there, and a compiler might use it
 * between two. A statement enters and leaves once for SME_TOKENS tokens, SME_ROWS rows and SME_COLS
 * columns, 4 million products.
 */
#ifndef TFT_ARM_SME_H
#define TFT_ARM_SME_H

enum {
    SME_TOKENS = 64,
    SME_ROWS = 128,
    SME_COLS = 512,
    SME_WORDS = 16, /* v, at most */
    SME_FEW = 16,   /* with fewer tokens, tiles would be empty in part */
};

_Static_assert(SME_TOKENS % (2 * SME_WORDS) == 0 && SME_ROWS % (2 * SME_WORDS) == 0,
               "sums have room for whole tiles");

/* A product of bytes, of at most SME_TOKENS, SME_ROWS and SME_COLS. The asm statement knows the
   offsets of the members. */
struct sme_job {
    const uint8_t *x; /* [tokens, cols], rows ldx apart; NULL: `quads` has the bytes */
    size_t ldx;
    size_t tokens, cols;
    uint8_t *quads;  /* [tokens / v, cols / 4, v, 4] */
    const int8_t *w; /* [rows / 16] panels, `stride` bytes apart */
    size_t stride, rows;
    int32_t *sum; /* [tokens, rows], ld_sum bytes apart, written in whole squares of 2 v */
    size_t ld_sum;
    size_t more; /* 0: sums begin at 0; otherwise the products are added to `sum` */
};

/* Without x18, which some systems keep for themselves. */
#define SME_CLOBBERS                                                                               \
    "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",       \
        "x15", "x16", "x17", "x19", "x20", "x21", "x22", "x23", "x24", "v0", "v1", "v2", "v3",     \
        "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",       \
        "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", \
        "v30", "v31", "cc", "memory"

/* Enters streaming mode, with ZA all zeros. A caller may have left numbers in ZA: the procedure
   call standard (AAPCS64, "The ZA lazy saving scheme") has TPIDR2_EL0 point to a block that says
   where to save them. x1: v, x2: the bytes of v; p0, p1: the words and the bytes of v. */
#define SME_ENTER                                                                                  \
    ".arch_extension sme\n"                                                                        \
    "mrs x1, S3_3_C13_C0_5\n" /* TPIDR2_EL0 */                                                     \
    "cbz x1, 3f\n"                                                                                 \
    "ldr x2, [x1]\n"                                                                               \
    "cbz x2, 2f\n"                                                                                 \
    "ldrh w3, [x1, #8]\n"                                                                          \
    "rdsvl x4, #1\n"                                                                               \
    "mov w12, wzr\n"                                                                               \
    "1: cmp w12, w3\n"                                                                             \
    "b.hs 2f\n"                                                                                    \
    "str za[w12, 0], [x2]\n"                                                                       \
    "add x2, x2, x4\n"                                                                             \
    "add w12, w12, #1\n"                                                                           \
    "b 1b\n"                                                                                       \
    "2: msr S3_3_C13_C0_5, xzr\n"                                                                  \
    "smstop za\n"                                                                                  \
    "3: smstart\n"                                                                                 \
    "rdsvl x1, #1\n"                                                                               \
    "lsr x1, x1, #2\n"                                                                             \
    "mov x2, #16\n"                                                                                \
    "cmp x1, x2\n"                                                                                 \
    "csel x1, x1, x2, lo\n"                                                                        \
    "lsl x2, x1, #2\n"                                                                             \
    "whilelo p0.s, xzr, x1\n"                                                                      \
    "whilelo p1.b, xzr, x2\n"

/* x3: x, x4: ldx, x5: tokens left, x6: cols, x7: quads, x8: tokens of a tile, x9: a column, x10:
   quads from there on, at most v. */
#define SME_REARRANGE                                                                              \
    "ldp x3, x4, [%[job]]\n"                                                                       \
    "ldp x5, x6, [%[job], #16]\n"                                                                  \
    "ldr x7, [%[job], #32]\n"                                                                      \
    "cbz x3, 5f\n"                                                                                 \
    "1: cmp x5, x1\n"                                                                              \
    "csel x8, x5, x1, lo\n"                                                                        \
    "mov x9, xzr\n"                                                                                \
    "2: sub x10, x6, x9\n"                                                                         \
    "lsr x10, x10, #2\n"                                                                           \
    "cmp x10, x1\n"                                                                                \
    "csel x10, x10, x1, lo\n"                                                                      \
    "whilelo p2.s, xzr, x10\n"                                                                     \
    "add x11, x3, x9\n"                                                                            \
    "mov w12, wzr\n"                                                                               \
    "3: ld1w {za0h.s[w12, 0]}, p2/z, [x11]\n"                                                      \
    "add x11, x11, x4\n"                                                                           \
    "add w12, w12, #1\n"                                                                           \
    "cmp w12, w8\n"                                                                                \
    "b.lo 3b\n"                                                                                    \
    "mov w12, wzr\n"                                                                               \
    "4: st1w {za0v.s[w12, 0]}, p0, [x7]\n"                                                         \
    "add x7, x7, x2\n"                                                                             \
    "add w12, w12, #1\n"                                                                           \
    "cmp w12, w10\n"                                                                               \
    "b.lo 4b\n"                                                                                    \
    "add x9, x9, x2\n"                                                                             \
    "cmp x9, x6\n"                                                                                 \
    "b.lo 2b\n"                                                                                    \
    "madd x3, x8, x4, x3\n"                                                                        \
    "subs x5, x5, x8\n"                                                                            \
    "b.ne 1b\n"                                                                                    \
    "5:\n"

/* Four tiles, from or to sums: x14 first tokens, x15 v tokens after; x16: ld_sum. */
#define SME_TILES(move, pred)                                                                      \
    "mov x19, x14\n"                                                                               \
    "mov x20, x15\n"                                                                               \
    "mov w12, wzr\n"                                                                               \
    "8: " move " {za0h.s[w12, 0]}, " pred ", [x19]\n"                                              \
    move " {za1h.s[w12, 0]}, " pred ", [x19, x1, lsl #2]\n"                                        \
    move " {za2h.s[w12, 0]}, " pred ", [x20]\n"                                                    \
    move " {za3h.s[w12, 0]}, " pred ", [x20, x1, lsl #2]\n"                                        \
    "add x19, x19, x16\n"                                                                          \
    "add x20, x20, x16\n"                                                                          \
    "add w12, w12, #1\n"                                                                           \
    "cmp w12, w1\n"                                                                                \
    "b.lo 8b\n"

/* A quad of columns: x23 and x24 are its place in the tokens' quads and in the panels, in words. */
#define SME_QUAD(tokens0, tokens1, rows0, rows1, z0, z1, z2, z3)                                   \
    "ld1w {" z0 ".s}, p0/z, [" tokens0 ", x23, lsl #2]\n"                                          \
    "ld1w {" z1 ".s}, p0/z, [" tokens1 ", x23, lsl #2]\n"                                          \
    "ld1w {" z2 ".s}, p0/z, [" rows0 ", x24, lsl #2]\n"                                            \
    "ld1w {" z3 ".s}, p0/z, [" rows1 ", x24, lsl #2]\n"                                            \
    "usmopa za0.s, p1/m, p1/m, " z0 ".b, " z2 ".b\n"                                               \
    "usmopa za1.s, p1/m, p1/m, " z0 ".b, " z3 ".b\n"                                               \
    "usmopa za2.s, p1/m, p1/m, " z1 ".b, " z2 ".b\n"                                               \
    "usmopa za3.s, p1/m, p1/m, " z1 ".b, " z3 ".b\n"

/* x3: a row; x4, x5: its quads, and the quads v rows on, or its own again past the last panel. x6,
   x7: the quads of two tiles of tokens; x10: words of a panel; x11: tokens left; x13: bytes of a
   tile, v * cols; x14: sums; x16: ld_sum; x17: v * ld_sum. */
#define SME_PRODUCT                                                                                \
    "ldr x16, [%[job], #72]\n"                                                                     \
    "mul x17, x16, x1\n"                                                                           \
    "ldr x10, [%[job], #24]\n"                                                                     \
    "mul x13, x10, x1\n"                                                                           \
    "lsl x10, x10, #2\n" /* words of a panel's columns */                                          \
    "mov x3, xzr\n"                                                                                \
    "6: ldr x8, [%[job], #40]\n"                                                                   \
    "ldp x19, x20, [%[job], #48]\n"                                                                \
    "lsr x4, x3, #4\n"                                                                             \
    "madd x4, x4, x19, x8\n"                                                                       \
    "and x5, x3, #15\n"                                                                            \
    "add x4, x4, x5, lsl #2\n"                                                                     \
    "add x21, x3, x1\n"                                                                            \
    "lsr x5, x21, #4\n"                                                                            \
    "madd x5, x5, x19, x8\n"                                                                       \
    "and x22, x21, #15\n"                                                                          \
    "add x5, x5, x22, lsl #2\n"                                                                    \
    "cmp x21, x20\n"                                                                               \
    "csel x5, x5, x4, lo\n"                                                                        \
    "ldr x6, [%[job], #32]\n"                                                                      \
    "ldr x11, [%[job], #16]\n"                                                                     \
    "ldr x14, [%[job], #64]\n"                                                                     \
    "add x14, x14, x3, lsl #2\n"                                                                   \
    "7: add x7, x6, x13\n"                                                                         \
    "cmp x11, x1\n"                                                                                \
    "csel x7, x7, x6, hi\n" /* no second tile of tokens */                                         \
    "add x15, x14, x17\n"                                                                          \
    "zero {za}\n"                                                                                  \
    "ldr x8, [%[job], #80]\n"                                                                      \
    "cbz x8, 9f\n"                                                                                 \
    SME_TILES("ld1w", "p0/z")                                                                      \
    "9: add x19, x6, x2\n"                                                                         \
    "add x20, x7, x2\n"                                                                            \
    "add x21, x4, #64\n"                                                                           \
    "add x22, x5, #64\n"                                                                           \
    "mov x23, xzr\n"                                                                               \
    "mov x24, xzr\n"                                                                               \
    "9: " SME_QUAD("x6", "x7", "x4", "x5", "z0", "z1", "z2", "z3")                                 \
    SME_QUAD("x19", "x20", "x21", "x22", "z4", "z5", "z6", "z7")                                   \
    "add x23, x23, x1, lsl #1\n"                                                                   \
    "add x24, x24, #32\n"                                                                          \
    "cmp x24, x10\n"                                                                               \
    "b.lo 9b\n"                                                                                    \
    SME_TILES("st1w", "p0")                                                                        \
    "add x6, x6, x13, lsl #1\n"                                                                    \
    "add x14, x14, x17, lsl #1\n"                                                                  \
    "subs x11, x11, x2, lsr #1\n"                                                                  \
    "b.hi 7b\n"                                                                                    \
    "add x3, x3, x1, lsl #1\n"                                                                     \
    "ldr x8, [%[job], #56]\n"                                                                      \
    "cmp x3, x8\n"                                                                                 \
    "b.lo 6b\n"

static void sme_run(const struct sme_job *job)
{
    __asm__ volatile(SME_ENTER SME_REARRANGE SME_PRODUCT "smstop\n" ::[job] "r"(job)
                     : SME_CLOBBERS);
}

/* Whether usmopa multiplies right: QEMU before 9.1 adds products to other sums. A program that only
   counts its instructions is built with TFT_SME_TRUST. */
bool tft_sme_right(void)
{
#ifdef TFT_SME_TRUST
    return true;
#endif
    enum { N = TFT_PANEL };
    uint8_t x[N * N], quads[N * N];
    int8_t w[N * N];
    int32_t sum[4 * N * N];
    for (int i = 0; i < N * N; i++) {
        x[i] = (uint8_t)(7 * i + 5);
        w[i] = (int8_t)(i % 251 - 125);
    }
    sme_run(&(struct sme_job){x, N, N, N, quads, w, 0, N, sum, 2 * N * sizeof *sum, 0});
    for (size_t m = 0; m < N; m++)
        for (size_t n = 0; n < N; n++) {
            int32_t want = 0;
            for (size_t k = 0; k < N; k++)
                want += x[m * N + k] * w[tft_panel_at(n, k, N)];
            if (sum[m * 2 * N + n] != want)
                return false;
        }
    return true;
}

/* The outputs of `tokens` tokens from m on and `rows` rows from n on; sum: rows ld_sum apart. */
static void sme_finish(const struct tft_gemm_i8 *g, size_t m, size_t n, size_t tokens, size_t rows,
                       const int32_t *sum, size_t ld_sum)
{
    for (size_t p = 0; p < rows; p += TFT_PANEL)
        dot_panel_i8mm(g, m, n + p, tokens, sum + p, ld_sum);
}

struct sme_buffer {
    _Alignas(64) uint8_t quads[SME_TOKENS * SME_COLS];
    _Alignas(64) int32_t sum[SME_TOKENS * SME_ROWS];
};

/* Tokens m .. m + tokens - 1. */
static void sme_tokens(const struct tft_gemm_i8 *g, size_t m, size_t tokens, struct sme_buffer *b)
{
    size_t K = dot_cols(g), stride = TFT_PANEL * g->w->cols;
    struct sme_job j = {.ldx = g->ldx, .tokens = tokens, .quads = b->quads, .stride = stride,
                        .sum = b->sum, .ld_sum = SME_ROWS * sizeof *b->sum};
    for (size_t n = 0; n < g->N; n += SME_ROWS) {
        j.rows = tft_panel_rows(min_size(SME_ROWS, g->N - n));
        for (size_t k = 0; k < K; k += SME_COLS) {
            j.x = n == 0 || K > SME_COLS ? g->x + m * g->ldx + k : NULL;
            j.cols = min_size(SME_COLS, K - k);
            j.w = g->w->data + n / TFT_PANEL * stride + k * TFT_PANEL;
            j.more = k;
            sme_run(&j);
        }
        sme_finish(g, m, n, tokens, j.rows, b->sum, SME_ROWS);
    }
}

static void gemm_i8_sme(const struct tft_gemm_i8 *g)
{
    if (g->M < SME_FEW) {
        gemm_i8_mm(g);
        return;
    }
    struct sme_buffer b;
    for (size_t m = 0; m < g->M; m += SME_TOKENS)
        sme_tokens(g, m, min_size(SME_TOKENS, g->M - m), &b);
}

/* gemm_low: fewer rows and more tokens share the unpacking of codes. */
enum { SME_LOW_ROWS = 64, SME_LOW_TOKENS = 3 * SME_TOKENS };

struct sme_low_buffer {
    _Alignas(64) uint8_t quads[SME_TOKENS * SME_COLS];
    _Alignas(64) int8_t w[SME_LOW_ROWS * SME_COLS];
    _Alignas(64) int32_t sum[SME_LOW_TOKENS * SME_LOW_ROWS];
};

/* The products of columns k .. k + cols - 1, of the rows from n on and the tokens from m on. */
static void sme_low_range(const struct tft_gemm_i8 *g, const struct tft_low_panels *w, size_t m,
                          size_t n, size_t k, size_t cols, struct sme_low_buffer *b)
{
    size_t tokens = min_size(SME_LOW_TOKENS, g->M - m),
           rows = tft_panel_rows(min_size(SME_LOW_ROWS, g->N - n));
    for (size_t p = 0; p < rows; p += TFT_PANEL)
        low_unpack_i8mm(b->w + p * cols, w, n + p, k, cols);
    for (size_t i = 0; i < tokens; i += SME_TOKENS)
        sme_run(&(struct sme_job){.x = g->x + (m + i) * g->ldx + k,
                                  .ldx = g->ldx,
                                  .tokens = min_size(SME_TOKENS, tokens - i),
                                  .cols = cols,
                                  .quads = b->quads,
                                  .w = b->w,
                                  .stride = TFT_PANEL * cols,
                                  .rows = rows,
                                  .sum = b->sum + i * SME_LOW_ROWS,
                                  .ld_sum = SME_LOW_ROWS * sizeof *b->sum,
                                  .more = k});
}

static void gemm_low_sme(const struct tft_gemm_i8 *g, const struct tft_low_panels *w)
{
    if (g->M < SME_FEW) {
        gemm_low_i8mm(g, w);
        return;
    }
    struct sme_low_buffer b;
    for (size_t m = 0; m < g->M; m += SME_LOW_TOKENS)
        for (size_t n = 0; n < g->N; n += SME_LOW_ROWS) {
            for (size_t k = 0; k < g->w->cols; k += SME_COLS)
                sme_low_range(g, w, m, n, k, min_size(SME_COLS, g->w->cols - k), &b);
            sme_finish(g, m, n, min_size(SME_LOW_TOKENS, g->M - m),
                       tft_panel_rows(min_size(SME_LOW_ROWS, g->N - n)), b.sum, SME_LOW_ROWS);
        }
}

/* A loop of usmopa over the four tiles. */
static double peak_int8_sme(size_t rounds)
{
    size_t words, left = rounds;
    __asm__ volatile(SME_ENTER
                     "cbz %[left], 2f\n"
                     "1: usmopa za0.s, p1/m, p1/m, z0.b, z1.b\n"
                     "usmopa za1.s, p1/m, p1/m, z0.b, z2.b\n"
                     "usmopa za2.s, p1/m, p1/m, z3.b, z1.b\n"
                     "usmopa za3.s, p1/m, p1/m, z3.b, z2.b\n"
                     "subs %[left], %[left], #1\n"
                     "b.ne 1b\n"
                     "2: mov %[words], x1\n"
                     "smstop\n"
                     : [left] "+&r"(left), [words] "=&r"(words)::SME_CLOBBERS);
    return 2.0 * 4 * (double)(words * words * TFT_QUAD) * (double)rounds;
}

void tft_isa_sme(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    k->gemm_i8 = gemm_i8_sme;
    k->gemm_low = gemm_low_sme;
    k->peak_int8 = peak_int8_sme;
}

#endif
