/* The memory of a batch of queries in attention on codes. Parameters: codes_attention.h. */
#ifndef TFT_TEMPLATE_CODES_BATCH_H
#define TFT_TEMPLATE_CODES_BATCH_H

#include "lanes.h"

enum {
    CODED_BATCH = 32,  /* queries that share the unpacking of a panel */
    CODED_QUERIES = 8, /* the most queries in one product */
    CODED_FOLDS = 4,   /* queries folded in parallel */
    CODED_SPANS = TFT_CODED_DIM / 16,
    CODED_QUAD = TFT_QUAD_CODES,
};

_Static_assert(CODED_TILE >= 1 && CODED_TILE <= CODED_QUERIES, "CODED_CASE has the smaller tiles");
_Static_assert(CODED_DIRECT >= 0 && CODED_DIRECT <= CODED_QUERIES, "DIRECT_CASE has them all");
_Static_assert(CODED_WAYS == 1 || CODED_WAYS == 4, "an accumulator is 1, 2 or 4");

/* The results of factors folded together. */
struct coded_fold {
    float half;    /* step / 2 of kernels.h */
    float base;    /* the sum to multiply by mid, or the product with mid */
    int32_t shift; /* sum of x * (L - 1) */
};

typedef int32_t coded_sum[CODED_QUERIES][TFT_PANEL]; /* sums of a panel's rows for some queries */

struct coded_batch {
    /* Codes of a panel, or of the same panel of several blocks, from c_put. */
    _Alignas(64) uint8_t codes[TFT_CODED_DIM / TFT_QUAD * CODED_QUAD];
    /* Factors of each query, from c_put_x; i8 factors use half of a row. */
    _Alignas(64) uint8_t x[CODED_BATCH][2 * TFT_CODED_DIM];
    _Alignas(64) float weight[TFT_CODED_DIM]; /* L - 1 of each column */
    struct coded_fold fold[CODED_BATCH][CODED_SPANS];
    bool direct; /* codes are not unpacked into `codes` (CODED_DIRECT) */
};

#endif
