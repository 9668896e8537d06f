/* Splits blocks of GGUF's quantized types into the parts of one row in a record of packed weights
   (simd/packed.h). file/dequant.c describes the blocks. */
#ifndef TFT_WEIGHTS_SPLIT_H
#define TFT_WEIGHTS_SPLIT_H

#include <stdint.h>

#include "simd/packed.h"

/* The parts of one block. A part that the type lacks stays unchanged. */
struct tft_parts {
    uint16_t factor, minimum;            /* bits of f16, or the byte of an exponent */
    int8_t scale[TFT_PACKED_BLOCK / 16]; /* of each group, as in the record */
    int8_t min[TFT_PACKED_BLOCK / 16];
    uint8_t code[TFT_PACKED_BLOCK];      /* of each column; with a book, 1 for a negative number */
    uint16_t index[TFT_PACKED_BLOCK / 4];
};

typedef void tft_split_fn(struct tft_parts *p, const unsigned char *block);

tft_split_fn tft_split_q4_0, tft_split_q4_1, tft_split_q5_0, tft_split_q5_1, tft_split_q8_0,
    tft_split_iq4_nl, tft_split_mxfp4, tft_split_q2_k, tft_split_q3_k, tft_split_q4_k,
    tft_split_q5_k, tft_split_q6_k, tft_split_iq4_xs, tft_split_iq2_xxs, tft_split_iq2_xs,
    tft_split_iq2_s, tft_split_iq3_xxs, tft_split_iq3_s, tft_split_tq1_0, tft_split_tq2_0,
    tft_split_q1_0, tft_split_q2_0, tft_split_nvfp4, tft_split_iq1_s, tft_split_iq1_m;

#endif
