/* Codebooks of ggml's types: an index in the file means a vector of 8 levels (IQ2) or 4 (IQ3), to
   multiply by a scale and by signs. An entry has a byte for each level, the first level lowest. */
#ifndef TFT_CODEBOOKS_H
#define TFT_CODEBOOKS_H

#include <stdint.h>

extern const uint64_t tft_book_iq2_xxs[256], tft_book_iq2_xs[512], tft_book_iq2_s[1024];
extern const uint32_t tft_book_iq3_xxs[256], tft_book_iq3_s[512];

#endif
