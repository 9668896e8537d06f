/*
 * Cost of the errors of a row's weights: with the inputs' second moments H = E[x x^T], errors e
 * change the row's output by e H e^T, squared and on average (GPTQ, Frantar et al. 2023, eq. 1).
 *
 * Weights are rounded in an order of columns, places n - 1 down to 0. With H in this order,
 * H = L D L^T where L is lower triangular with ones on its diagonal, and
 *
 *   e H e^T = sum over places i:  D_i (e_i + sum over j > i: e_j L_ji)^2
 *
 * So the best target of place i is its weight plus the sum of e_j L_ji, and D_i is the cost of
 * missing it (QuIP, Chee et al. 2023, section 3).
 *
 * Groups of consecutive columns stay together. Groups with the largest moments are rounded first,
 * and so are the largest columns within a group ("act-order" of GPTQ's code).
 */
#ifndef QUANTIZE_ROUND_METRIC_H
#define QUANTIZE_ROUND_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simd/kernels.h"

struct metric {
    size_t n;       /* channels */
    uint32_t group; /* columns of a group; the last one may be shorter */
    size_t groups;
    uint32_t *column; /* [n] the column at each place */
    uint32_t *begin;  /* [groups + 1] the first place of each group, in the order of places */
    float *weight;    /* [n] D_i of each place */
    /* of metric_open: must stay valid; and the amount added to the diagonal */
    const float *h;
    const uint32_t *map;
    float damp;
    float *factor; /* [n, n] L; only the part below the diagonal is used; NULL: errors count as
                      uncorrelated, and weight is the diagonal of H */
};

/* h: [n, n] = H times any factor, at and below the diagonal; or [n], the diagonal alone, if
   !correlated. map: NULL, or channel map[k] of h is column k's. 10 % of the mean moment is added to
   the diagonal, or more until H is positive definite to the precision of floats (GPTQ, section 3.3,
   step 3). False if memory is short, or H has a NaN or infinity. close accepts all zeros, and a
   failed open. */
bool metric_open(struct metric *m, const float *h, size_t n, bool correlated, const uint32_t *map,
                 uint32_t group, const struct tft_kernels *kern, int n_threads);
void metric_close(struct metric *m);

/* to: [n, m->n] = rows first .. first + n - 1 of H in the order of places. Needs correlations. */
void metric_rows(const struct metric *m, size_t first, size_t n, float *to);

#endif
