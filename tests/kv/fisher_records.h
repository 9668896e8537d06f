/* The records of fisher.h, read by the text of that header and of codes.h, without their code. */
#ifndef TFT_TEST_FISHER_RECORDS_H
#define TFT_TEST_FISHER_RECORDS_H

#include <math.h>

#include "kv/fisher.h"

/* Bits of a place. */
static inline unsigned fisher_bits(float half)
{
    return half == 0      ? 0
           : half == 0.5f ? 1
           : half == 1.5f ? 2
           : half == 3.5f ? 3
           : half == 7.5f ? 4
                          : 8;
}

/* Code number `at` of a quad of `bits`, as codes.h describes it. */
static inline unsigned fisher_quad(const uint8_t *quad, unsigned bits, uint32_t at)
{
    switch (bits) {
    case 1: return quad[at % 8] >> at / 8 & 1;
    case 2: return quad[at % 16] >> 2 * (at / 16) & 3;
    case 3: return (quad[at % 16] >> 2 * (at / 16) & 3) + 4 * (quad[16 + at % 8] >> at / 8 & 1);
    case 4: return at < 32 ? quad[at] & 15 : quad[at - 32] >> 4;
    default: return quad[at];
    }
}

/* The code of a token at place p, found by the widths of the places before. */
static inline unsigned fisher_code(const struct tft_fisher_head *h, enum tft_kv_which which,
                                   const uint8_t *codes, uint32_t token, uint32_t p)
{
    size_t panel = 0, before = 0;
    unsigned bits = fisher_bits(h->half[p]);
    if (which == TFT_KV_K) {
        for (uint32_t q = 0; q < h->end; q += 4) {
            panel += 8 * fisher_bits(h->half[q]);
            before += q < p / 4 * 4 ? 8 * fisher_bits(h->half[q]) : 0;
        }
        return fisher_quad(codes + token / 16 * panel + before, bits, p % 4 * 16 + token % 16);
    }
    for (uint32_t q = 0; q < p / 16 * 16; q += 16)
        before += TFT_FISHER_BLOCK / 4 * 8 * fisher_bits(h->half[q]);
    return fisher_quad(codes + before + token / 4 * 8 * bits, bits, p % 16 * 4 + token % 4);
}

static inline double fisher_gain(const uint8_t *gains, uint32_t token)
{
    const uint8_t *three = gains + token / 4 * 3;
    unsigned all = three[0] | three[1] << 8 | three[2] << 16, code = all >> 6 * (token % 4) & 63;
    return pow(2, ((double)code - 32) / 8);
}

/* A token's channel at place p, as the block has it. */
static inline double fisher_decoded(const struct tft_fisher_head *h, enum tft_kv_which which,
                                    struct tft_fisher_block b, uint32_t token, uint32_t p)
{
    if (p < h->first)
        return (double)h->mean[p];
    double c = fisher_code(h, which, (const uint8_t *)b.codes, token, p) - (double)h->half[p];
    return (double)h->mean[p] +
           fisher_gain((const uint8_t *)b.gains, token) * (double)h->step[p] * c;
}

#endif
