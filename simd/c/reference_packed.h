/* The reference's kernels on packed weights, for the table in reference.c. */
#ifndef TFT_REFERENCE_PACKED_H
#define TFT_REFERENCE_PACKED_H

#include "simd/kernels.h"

tft_gemm_packed_fn tft_ref_gemm_packed;
tft_unpack_fn tft_ref_unpack;
tft_quantize_groups_fn tft_ref_quantize_groups;

#endif
