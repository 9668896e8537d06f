/* Converts stored numbers to f32: y[n] from x at any address, n a multiple of the type's block.
   Operations and their order are as in ggml's dequantize_row_*, in f32, so a model has the same
   weights as in llama.cpp. */
#ifndef TFT_DEQUANT_H
#define TFT_DEQUANT_H

#include <stddef.h>

void tft_dequant_f32(float *y, const void *x, size_t n);
void tft_dequant_f16(float *y, const void *x, size_t n);
void tft_dequant_bf16(float *y, const void *x, size_t n);
void tft_dequant_q1_0(float *y, const void *x, size_t n);
void tft_dequant_q2_0(float *y, const void *x, size_t n);
void tft_dequant_q4_0(float *y, const void *x, size_t n);
void tft_dequant_q4_1(float *y, const void *x, size_t n);
void tft_dequant_q5_0(float *y, const void *x, size_t n);
void tft_dequant_q5_1(float *y, const void *x, size_t n);
void tft_dequant_q8_0(float *y, const void *x, size_t n);
void tft_dequant_q2_k(float *y, const void *x, size_t n);
void tft_dequant_q3_k(float *y, const void *x, size_t n);
void tft_dequant_q4_k(float *y, const void *x, size_t n);
void tft_dequant_q5_k(float *y, const void *x, size_t n);
void tft_dequant_q6_k(float *y, const void *x, size_t n);
void tft_dequant_iq1_s(float *y, const void *x, size_t n);
void tft_dequant_iq1_m(float *y, const void *x, size_t n);
void tft_dequant_iq2_xxs(float *y, const void *x, size_t n);
void tft_dequant_iq2_xs(float *y, const void *x, size_t n);
void tft_dequant_iq2_s(float *y, const void *x, size_t n);
void tft_dequant_iq3_xxs(float *y, const void *x, size_t n);
void tft_dequant_iq3_s(float *y, const void *x, size_t n);
void tft_dequant_iq4_nl(float *y, const void *x, size_t n);
void tft_dequant_iq4_xs(float *y, const void *x, size_t n);
void tft_dequant_tq1_0(float *y, const void *x, size_t n);
void tft_dequant_tq2_0(float *y, const void *x, size_t n);
void tft_dequant_mxfp4(float *y, const void *x, size_t n);
void tft_dequant_nvfp4(float *y, const void *x, size_t n);

#endif
