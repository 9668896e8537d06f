/* The reference's kernels of layers with a state, for the table in reference.c. */
#ifndef TFT_REFERENCE_STATE_H
#define TFT_REFERENCE_STATE_H

#include "simd/kernels.h"

tft_mul_fn tft_ref_mul;
tft_sigmoid_mul_fn tft_ref_sigmoid_mul;
tft_conv_fn tft_ref_conv;
tft_delta_fn tft_ref_delta;
tft_scan_fn tft_ref_scan;
tft_wkv_fn tft_ref_wkv;

#endif
