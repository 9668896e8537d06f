/* Codebooks of ggml's types: an index in the file means a vector of 8 levels (IQ2) or 4 (IQ3), to
   multiply by a scale and by signs. An entry has a byte for each level, the first level lowest. */
#ifndef TFT_CODEBOOKS_H
#define TFT_CODEBOOKS_H

#include <stdint.h>

/* The numbers of IQ1 are -1, 0 and 1, each 1/8 less or more. The book has the lesser number, times
   8, plus 16. */
extern const uint64_t tft_book_iq1[2048];
extern const uint64_t tft_book_iq2_xxs[256], tft_book_iq2_xs[512], tft_book_iq2_s[1024];
extern const uint32_t tft_book_iq3_xxs[256], tft_book_iq3_s[512];

/* The bits of the f16 d of IQ1_M: 4 bits of each of the 4 u16 at p, lowest first. */
static inline uint16_t tft_iq1_m_factor(const unsigned char *p)
{
    return (uint16_t)(p[1] >> 4 | (p[3] & 0xf0) | (p[5] & 0xf0) << 4 | (p[7] & 0xf0) << 8);
}

/* Scale g of 16: 3 bits. */
static inline int tft_iq1_m_scale(const unsigned char *p, int g)
{
    return (p[g / 4 * 2] | p[g / 4 * 2 + 1] << 8) >> g % 4 * 3 & 7;
}

#endif
