/* DRY: a penalty for tokens that would continue a repetition, step 2 of struct tft_sampler_more in
   tuffet.h. */
#ifndef TFT_DRY_H
#define TFT_DRY_H

#include "likely.h"
#include "tuffet.h"

enum { TFT_DRY_MOST = 256 }; /* the longest repetition that counts, in tokens */

/* Returns x[n]: logits[n], which may be x, with the penalties of o for a text that ends with
   tokens[pos]. Takes a time of O(n + pos log n_dry_breakers). scratch: [n] */
const float *tft_dry(const struct tft_sampler_more *o, const float *logits, float *x,
                     struct tft_candidate *scratch, size_t n, const int32_t *tokens, uint32_t pos);

#endif
