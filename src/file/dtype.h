/* The number types of tensors in files: ggml's types, by ggml's own numbers. */
#ifndef TFT_DTYPE_H
#define TFT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tft_dtype {
    TFT_F32 = 0,
    TFT_F16 = 1,
    TFT_Q4_0 = 2,
    TFT_Q4_1 = 3,
    TFT_Q5_0 = 6,
    TFT_Q5_1 = 7,
    TFT_Q8_0 = 8,
    TFT_Q2_K = 10,
    TFT_Q3_K = 11,
    TFT_Q4_K = 12,
    TFT_Q5_K = 13,
    TFT_Q6_K = 14,
    TFT_IQ2_XXS = 16,
    TFT_IQ2_XS = 17,
    TFT_IQ3_XXS = 18,
    TFT_IQ1_S = 19,
    TFT_IQ4_NL = 20,
    TFT_IQ3_S = 21,
    TFT_IQ2_S = 22,
    TFT_IQ4_XS = 23,
    TFT_I8 = 24,
    TFT_I32 = 26,
    TFT_IQ1_M = 29,
    TFT_BF16 = 30,
    TFT_TQ1_0 = 34,
    TFT_TQ2_0 = 35,
    TFT_MXFP4 = 39,
    TFT_NVFP4 = 40,
    TFT_Q1_0 = 41,
    TFT_Q2_0 = 42,
};

/* A type stores `block` consecutive numbers of a row in `bytes` bytes. */
struct tft_dtype_info {
    const char *name; /* "Q4_K", as ggml writes it */
    uint32_t block, bytes;
    /* y[n] from x, at any address; n is a multiple of block. NULL for integer types. */
    void (*to_f32)(float *y, const void *x, size_t n);
};

/* NULL if `type` is not a type of ggml, or if tuffet cannot read the type. */
const struct tft_dtype_info *tft_dtype_info(uint32_t type);

/* The name of a type of ggml; "unknown" for other numbers. */
const char *tft_dtype_name(uint32_t type);

/* *bytes = the size of n numbers. False if n is not a multiple of the block, or if the size does
   not fit a uint64_t. */
bool tft_dtype_bytes(uint32_t type, uint64_t n, uint64_t *bytes);

#endif
