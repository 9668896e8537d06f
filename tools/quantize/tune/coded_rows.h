/*
 * The keys and values of a layer as queries see them in a quantized KV cache. The cache quantizes a
 * token at some time; later queries see the token's codes. The runtime's own cache (kv/kv.h)
 * computes time and codes, so a session quantizes the same tokens at the same time, to the same
 * codes.
 */
#ifndef QUANTIZE_TUNE_CODED_ROWS_H
#define QUANTIZE_TUNE_CODED_ROWS_H

#include "model/model.h"
#include "tools/quantize/tune/real.h"

/* Rows that queries see in place of a layer's keys and values. */
struct coded_view {
    const real *row[TFT_KV_SIDES];       /* [n, G, E] keys, and values; set where `since` is */
    const uint32_t *since[TFT_KV_SIDES]; /* [n] the first query that sees this token's codes;
                                            UINT32_MAX: none does */
};

struct coded_rows;

/* For sequences of n tokens after the prefix of m, in m's default cache; codes of the cache fisher
   are not computed yet: such a sequence sees no codes. NULL if memory is short. close accepts
   NULL. */
struct coded_rows *coded_rows_open(const struct tft_model *m, size_t n, int n_threads);
void coded_rows_close(struct coded_rows *r);

/* The rows of layer l of the cache, valid until the next call. NULL if no query of such a sequence
   sees codes, as in a layer with a window. k, v: [n, G, E], G and E of the layer, keys after
   RoPE. */
const struct coded_view *coded_rows_run(struct coded_rows *r, uint32_t l, const real *k,
                                        const real *v);

#endif
