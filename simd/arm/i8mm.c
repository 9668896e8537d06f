/* The ISA level i8mm: products of small matrices of bytes (usmmla), for gemm_i8. */
#include "simd/isas.h"

#include "reg_neon.h"
#include "simd/template/lanes.h"

#if !defined __ARM_FEATURE_MATMUL_INT8
#error "build this file with -march=armv8.2-a+dotprod+i8mm"
#endif

/* gemm_i8: usmmla multiplies 8 bytes of two tokens by 8 bytes of two rows. The bytes of the rows
   are the zip of two adjacent quads. */
typedef struct {
    int8x16_t r[8]; /* two rows, 8 columns each */
} d_weights;
typedef struct {
    int32x4_t r[8]; /* two rows of the first token, two rows of the second */
} d_acc;
typedef struct {
    uint8x16_t half[2]; /* 8 columns of each token */
} d_bytes;

static inline d_acc d_zero(void)
{
    d_acc a;
    UNROLL for (int i = 0; i < 8; i++)
        a.r[i] = vdupq_n_s32(0);
    return a;
}

static inline d_acc d_add(d_acc a, d_acc b)
{
    UNROLL for (int i = 0; i < 8; i++)
        a.r[i] = vaddq_s32(a.r[i], b.r[i]);
    return a;
}

static inline void d_store(int32_t *sum, size_t next, d_acc a)
{
    UNROLL for (int i = 0; i < 4; i++) {
        int64x2_t b = vreinterpretq_s64_s32(a.r[2 * i]), c = vreinterpretq_s64_s32(a.r[2 * i + 1]);
        vst1q_s32(sum + 4 * i, vreinterpretq_s32_s64(vzip1q_s64(b, c)));
        vst1q_s32(sum + next + 4 * i, vreinterpretq_s32_s64(vzip2q_s64(b, c)));
    }
}

static inline d_weights d_load(const int8_t *p)
{
    d_weights w;
    UNROLL for (int i = 0; i < 4; i++) {
        int32x4_t a = vreinterpretq_s32_s8(vld1q_s8(p + 16 * i)),
                  b = vreinterpretq_s32_s8(vld1q_s8(p + 64 + 16 * i));
        w.r[2 * i] = vreinterpretq_s8_s32(vzip1q_s32(a, b));
        w.r[2 * i + 1] = vreinterpretq_s8_s32(vzip2q_s32(a, b));
    }
    return w;
}

static inline d_weights d_load_ready(const int8_t *p)
{
    d_weights w;
    UNROLL for (int i = 0; i < 8; i++)
        w.r[i] = vld1q_s8(p + 16 * i);
    return w;
}

static void d_ready(int8_t *to, const int8_t *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(d_weights)) {
        d_weights w = d_load(from + i);
        __builtin_prefetch(from + i + 4096);
        __builtin_prefetch(from + i + 4096 + 64);
        UNROLL for (int r = 0; r < 8; r++)
            vst1q_s8(to + i + 16 * r, w.r[r]);
    }
}

static inline d_bytes d_token(const uint8_t *x, size_t next)
{
    uint64x2_t a = vreinterpretq_u64_u8(vld1q_u8(x)), b = vreinterpretq_u64_u8(vld1q_u8(x + next));
    return (d_bytes){
        {vreinterpretq_u8_u64(vzip1q_u64(a, b)), vreinterpretq_u8_u64(vzip2q_u64(a, b))}};
}

static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    UNROLL for (int i = 0; i < 8; i++)
        acc.r[i] = vusmmlaq_s32(acc.r[i], x.half[s], w.r[i]);
    TOGETHER(acc.r);
    TOGETHER(acc.r + 4);
    return acc;
}

#define ISA(name) name##_i8mm
#define DOT_ROWS 2
#define DOT_QUADS 2
#define DOT_FLIP 0
/* 16 registers of sums, 8 of weights, 4 of tokens: 28 of 32 */
#define DOT_TOKENS 2
#define DOT_PANELS 1
#define DOT_READY 1
#include "simd/template/gemm_i8.h"

/* gemm_low */
#include "coded_neon.h"
#include "low_udot.h"

/* g has the tokens of one block and one panel. */
static void mm_block(const struct tft_gemm_i8 *g, struct low_buffer *b)
{
    size_t K = dot_cols(g);
    for (size_t k = 0; k < K; k += LOW_RANGE) {
        struct tft_panels w = *g->w;
        struct tft_gemm_i8 part = *g;
        struct dot_job j = {&part, K > LOW_RANGE ? b->carry : NULL, k == 0, k + LOW_RANGE >= K,
                            true};
        w.data = b->w;
        w.cols = min_size(LOW_RANGE, K - k);
        part.w = &w;
        part.cols = 0;
        part.x += k;
        d_ready(b->w, g->w->data + k * TFT_PANEL, w.cols * TFT_PANEL);
        for (size_t m = 0; m < g->M; m += DOT_TILE)
            dot_tokens_i8mm(&j, m, 0, min_size(DOT_TILE, g->M - m));
    }
}

/* Three or more tiles share the rearranging of a panel, a range of columns at a time. */
static void gemm_i8_mm(const struct tft_gemm_i8 *g)
{
    if (g->M <= 2 * DOT_TILE) {
        gemm_i8_i8mm(g);
        return;
    }
    size_t block = min_size(dot_block(dot_cols(g)), LOW_TOKENS / DOT_TILE * DOT_TILE);
    struct low_buffer b;
    for (size_t m = 0; m < g->M; m += block)
        for (size_t n = 0; n < g->N; n += TFT_PANEL) {
            struct tft_panels panel = {g->w->data + n * g->w->cols, g->w->scale + n,
                                       g->w->rowsum + n, g->w->cols};
            struct tft_gemm_i8 part = *g;
            part.y += m * g->ldy + n;
            part.x += m * g->ldx;
            part.xq += m * g->xq_step;
            part.w = &panel;
            part.bias = g->bias ? g->bias + n : NULL;
            part.M = min_size(block, g->M - m);
            part.N = min_size(TFT_PANEL, g->N - n);
            mm_block(&part, &b);
        }
}

TFT_PEAK(peak_int8_i8mm, int32x4_t, vdupq_n_s32(0x01010101),
         vmmlaq_s32(acc[i], vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(a)), 2 * 32)

void tft_isa_i8mm(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    k->gemm_i8 = gemm_i8_mm;
    k->gemm_low = gemm_low_i8mm;
    k->peak_int8 = peak_int8_i8mm;
}

#if TFT_SME
#include "sme.h"
#endif
