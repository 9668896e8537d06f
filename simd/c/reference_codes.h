/* The reference's kernels on codes, for the table in reference.c. */
#ifndef TFT_REFERENCE_CODES_H
#define TFT_REFERENCE_CODES_H

#include "simd/kernels.h"

tft_score_codes_fn tft_ref_score_codes;
tft_mix_codes_fn tft_ref_mix_codes;
tft_mix_widths_fn tft_ref_mix_widths;
tft_turn_keys_fn tft_ref_turn_keys;
tft_fit_fn tft_ref_fit;

#endif
