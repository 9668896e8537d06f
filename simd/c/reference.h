/* What the two halves of the reference, reference.c and codes.c, have of each other. */
#ifndef TFT_REFERENCE_H
#define TFT_REFERENCE_H

#include "simd/kernels.h"

/* dot16 of floats, and the sum of x in its order */
float tft_ref_dot16(const float *a, const float *b, size_t n);
float tft_ref_total16(const float *x, size_t n);

tft_score_codes_fn tft_ref_score_codes;
tft_mix_codes_fn tft_ref_mix_codes;
tft_fit_fn tft_ref_fit;
tft_widen_f8_fn tft_ref_widen_f8;

#endif
