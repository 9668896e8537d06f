/* Packed weights (simd/packed.h): tensors of GGUF's quantized types, 16 rows side by side. */
#include "weights/packed.h"

#include "file/codebooks.h"

/* ------------------------------------------------------------------------------------- products */

static const uint8_t *panel(const struct tft_mat *w, size_t row)
{
    return (const uint8_t *)w->data +
           row / TFT_PANEL * tft_packed_panel(w->format->packing, w->cols);
}

static uint64_t bytes(const struct tft_mat *w)
{
    return tft_packed_bytes(w->format, w->rows, w->cols);
}

/* Unpacks the 16 rows of a panel for one row: little work, compared with a token's pass. */
static void row(const struct tft_kernels *kern, const struct tft_mat *w, uint32_t row, float *y)
{
    enum { GROUPS = TFT_PACKED_BLOCK / TFT_PACKED_GROUP };
    const struct tft_packing *how = w->format->packing;
    const uint8_t *record = panel(w, row);
    uint8_t number[TFT_PACKED_BLOCK * TFT_PANEL];
    float scale[GROUPS * TFT_PANEL], min[GROUPS * TFT_PANEL];
    for (size_t k = 0; k < w->cols; k += how->block, record += tft_packed_record(how)) {
        kern->unpack(&(struct tft_unpack){number, scale, min, how, record, how->block});
        for (size_t i = 0; i < how->block; i++) {
            size_t at = i / how->group * TFT_PANEL + row % TFT_PANEL;
            int n = number[tft_panel_at(row % TFT_PANEL, i, how->block)] - how->zero;
            y[k + i] = how->has_min ? scale[at] * (float)n - min[at] : scale[at] * (float)n;
        }
    }
}

static void product(const struct tft_kernels *kern, const struct tft_mat *w,
                    const struct tft_product *p, size_t begin, size_t end)
{
    kern->gemm_packed(&(struct tft_gemm_packed){
        .y = p->y,
        .ldy = p->ldy,
        .x = p->bytes,
        .ldx = p->ldx,
        .how = w->format->packing,
        .w = panel(w, begin),
        .bias = p->bias ? p->bias + begin : NULL,
        .add = p->add,
        .M = p->n,
        .N = end - begin,
        .K = w->cols,
    });
}

/* ---------------------------------------------------------------------------------------- types */

/* The levels of IQ4 plus 128; twice the levels of MXFP4 and NVFP4 (OCP's E2M1) plus 16; the levels
   of Q1_0 plus 1. */
static const uint8_t iq4_levels[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                       129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t e2m1_levels[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                        16, 15, 14, 13, 12, 10, 8,  4};
static const uint8_t q1_levels[16] = {0, 2};

#define ROW(label, dtype, take_apart, ...)                                                         \
    {                                                                                              \
        .name = label, .type = dtype, .weights = TFT_WEIGHTS_PACKED, .bytes = bytes, .row = row,   \
        .product = product, .split = take_apart,                                                   \
        .packing = &(const struct tft_packing){__VA_ARGS__},                                       \
    }

const struct tft_format tft_packed_formats[TFT_PACKED_FORMATS] = {
    ROW("Q4_0", TFT_Q4_0, tft_split_q4_0,
      .block = 32, .group = 32, .bits = 4, .zero = 8, .unit = 1, .low = TFT_BITS_4,
      .high = TFT_BITS_COUNT),
    ROW("Q4_1", TFT_Q4_1, tft_split_q4_1,
      .block = 32, .group = 32, .bits = 4, .has_min = true, .unit = 1, .low = TFT_BITS_4,
      .high = TFT_BITS_COUNT),
    ROW("Q5_0", TFT_Q5_0, tft_split_q5_0,
      .block = 32, .group = 32, .bits = 5, .zero = 16, .unit = 1, .low = TFT_BITS_4,
      .high = TFT_BITS_1),
    ROW("Q5_1", TFT_Q5_1, tft_split_q5_1,
      .block = 32, .group = 32, .bits = 5, .has_min = true, .unit = 1, .low = TFT_BITS_4,
      .high = TFT_BITS_1),
    ROW("Q8_0", TFT_Q8_0, tft_split_q8_0,
      .block = 32, .group = 32, .bits = 8, .zero = 128, .unit = 1, .low = TFT_BITS_8,
      .high = TFT_BITS_COUNT),
    ROW("IQ4_NL", TFT_IQ4_NL, tft_split_iq4_nl,
      .block = 32, .group = 32, .bits = 8, .zero = 128, .unit = 1, .low = TFT_BITS_4,
      .high = TFT_BITS_COUNT, .levels = iq4_levels),
    ROW("MXFP4", TFT_MXFP4, tft_split_mxfp4,
      .block = 32, .group = 32, .bits = 5, .zero = 16, .exponent = true, .unit = 1,
      .low = TFT_BITS_4, .high = TFT_BITS_COUNT, .levels = e2m1_levels),
    ROW("Q2_K", TFT_Q2_K, tft_split_q2_k,
      .block = 256, .group = 16, .bits = 4, .has_min = true, .scales = TFT_SCALES_NIBBLES,
      .unit = 1, .low = TFT_BITS_2, .high = TFT_BITS_COUNT),
    ROW("Q3_K", TFT_Q3_K, tft_split_q3_k,
      .block = 256, .group = 16, .bits = 4, .zero = 4, .scales = TFT_SCALES_BYTES, .unit = 1,
      .low = TFT_BITS_2, .high = TFT_BITS_1),
    ROW("Q4_K", TFT_Q4_K, tft_split_q4_k,
      .block = 256, .group = 32, .bits = 4, .has_min = true, .scales = TFT_SCALES_BYTES, .unit = 1,
      .low = TFT_BITS_4, .high = TFT_BITS_COUNT),
    ROW("Q5_K", TFT_Q5_K, tft_split_q5_k,
      .block = 256, .group = 32, .bits = 5, .has_min = true, .scales = TFT_SCALES_BYTES, .unit = 1,
      .low = TFT_BITS_4, .high = TFT_BITS_1),
    ROW("Q6_K", TFT_Q6_K, tft_split_q6_k,
      .block = 256, .group = 16, .bits = 6, .zero = 32, .scales = TFT_SCALES_BYTES, .unit = 1,
      .low = TFT_BITS_4, .high = TFT_BITS_2),
    ROW("IQ4_XS", TFT_IQ4_XS, tft_split_iq4_xs,
      .block = 256, .group = 32, .bits = 8, .zero = 128, .scales = TFT_SCALES_BYTES,
      .unit = 1, .low = TFT_BITS_4, .high = TFT_BITS_COUNT, .levels = iq4_levels),
    ROW("IQ2_XXS", TFT_IQ2_XXS, tft_split_iq2_xxs,
      .block = 256, .group = 32, .bits = 8, .zero = 64, .scales = TFT_SCALES_ODD,
      .unit = 0x1p-3f, .book = 8, .book8 = tft_book_iq2_xxs),
    ROW("IQ2_XS", TFT_IQ2_XS, tft_split_iq2_xs,
      .block = 256, .group = 16, .bits = 8, .zero = 64, .scales = TFT_SCALES_ODD,
      .unit = 0x1p-3f, .book = 8, .index_high = 1, .book8 = tft_book_iq2_xs),
    ROW("IQ2_S", TFT_IQ2_S, tft_split_iq2_s,
      .block = 256, .group = 16, .bits = 8, .zero = 64, .scales = TFT_SCALES_ODD,
      .unit = 0x1p-3f, .book = 8, .index_high = 2, .book8 = tft_book_iq2_s),
    ROW("IQ3_XXS", TFT_IQ3_XXS, tft_split_iq3_xxs,
      .block = 256, .group = 32, .bits = 8, .zero = 64, .scales = TFT_SCALES_ODD,
      .unit = 0x1p-2f, .book = 4, .book4 = tft_book_iq3_xxs),
    ROW("IQ3_S", TFT_IQ3_S, tft_split_iq3_s,
      .block = 256, .group = 32, .bits = 8, .zero = 64, .scales = TFT_SCALES_ODD,
      .unit = 1, .book = 4, .index_high = 1, .book4 = tft_book_iq3_s),
    ROW("TQ1_0", TFT_TQ1_0, tft_split_tq1_0,
      .block = 256, .group = 32, .bits = 4, .zero = 1, .unit = 1, .low = TFT_BITS_3_LEVELS,
      .high = TFT_BITS_COUNT),
    ROW("TQ2_0", TFT_TQ2_0, tft_split_tq2_0,
      .block = 256, .group = 32, .bits = 4, .zero = 1, .unit = 1, .low = TFT_BITS_2,
      .high = TFT_BITS_COUNT),
    ROW("Q1_0", TFT_Q1_0, tft_split_q1_0,
      .block = 128, .group = 32, .bits = 4, .zero = 1, .unit = 1, .low = TFT_BITS_1,
      .high = TFT_BITS_COUNT, .levels = q1_levels),
    ROW("Q2_0", TFT_Q2_0, tft_split_q2_0,
      .block = 64, .group = 32, .bits = 4, .zero = 1, .unit = 1, .low = TFT_BITS_2,
      .high = TFT_BITS_COUNT),
    ROW("NVFP4", TFT_NVFP4, tft_split_nvfp4,
      .block = 64, .group = 16, .bits = 5, .zero = 16, .scales = TFT_SCALES_F8, .unit = 0x1p-1f,
      .low = TFT_BITS_4, .high = TFT_BITS_COUNT, .levels = e2m1_levels),
    ROW("IQ1_S", TFT_IQ1_S, tft_split_iq1_s,
      .block = 256, .group = 32, .bits = 5, .zero = 16, .scales = TFT_SCALES_ODD, .unit = 0x1p-3f,
      .book = 8, .shift = 2, .book8 = tft_book_iq1),
    ROW("IQ1_M", TFT_IQ1_M, tft_split_iq1_m,
      .block = 256, .group = 16, .bits = 5, .zero = 16, .scales = TFT_SCALES_ODD, .unit = 0x1p-3f,
      .book = 8, .shift = 2, .book8 = tft_book_iq1),
};

const struct tft_format *tft_format_packed(enum tft_dtype type)
{
    for (size_t i = 0; i < TFT_PACKED_FORMATS; i++)
        if (tft_packed_formats[i].type == type)
            return &tft_packed_formats[i];
    return NULL;
}
