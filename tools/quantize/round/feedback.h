/*
 * Rounds a matrix with feedback, to numbers of any grid: GPTQ (Frantar et al. 2023) if the metric
 * has the inputs' correlations. Groups of a row are rounded one after another, and the error of a
 * group is passed on to the groups after it. The feedback is LDLQ's (QuIP: Chee et al. 2023, eq. 2
 * and theorem 6), which gives the same numbers from one Cholesky factorization, without an inverse.
 * A second sweep rounds each group again, with all other groups as they are now.
 *
 * The caller rounds a group (low_bits.h: a scale and a zero are chosen with it; grid.h: they are
 * fixed), with the feedback within it.
 */
#ifndef QUANTIZE_ROUND_FEEDBACK_H
#define QUANTIZE_ROUND_FEEDBACK_H

#include "tools/quantize/round/metric.h"

enum { FEEDBACK_GROUP = 128, FEEDBACK_LANES = 8 }; /* the largest group; and see below */

/* Weights of a group in units of the row, in the order of places. Arrays are padded with zeros to
   whole FEEDBACK_LANES. */
struct feedback_group {
    size_t n;
    float weight[FEEDBACK_GROUP]; /* input of the rounding */
    float target[FEEDBACK_GROUP]; /* the weight with the feedback of the groups before */
    float cost[FEEDBACK_GROUP];   /* of an error, squared */
    const float *factor;          /* [n, FEEDBACK_GROUP] L within the group; NULL: no feedback */
};

struct feedback {
    const struct metric *metric;
    size_t rows;
    const float *w;    /* [rows, metric->n] */
    const float *unit; /* [rows] of each row's numbers; NULL: 1 */
    /* Rounds group `which`, in the order of places, of a row, and keeps the result; value:
       [FEEDBACK_GROUP] its numbers, in units. again: after the first sweep, when a change must
       lower feedback_cost. Returns whether there is a new result. Called by several threads, for
       different rows. */
    bool (*round)(void *user, size_t row, size_t which, const struct feedback_group *g, bool again,
                  float *value);
    void *round_user;
    const struct tft_kernels *kern;
    int n_threads;
    /* NULL, or called with the share done; false: stop */
    bool (*progress)(void *user, double done);
    void *user;
};

/* The result does not depend on kern or n_threads. False if memory is short, or if it was
   stopped. */
bool feedback_round(const struct feedback *f);

/* Loads group `which` of the row w: [m->n]. feedback: [n], or NULL: none */
void feedback_load(struct feedback_group *g, const struct metric *m, size_t which, const float *w,
                   float unit, const float *feedback);

/* The cost of the numbers value: [g->n]; g: with a factor. */
float feedback_cost(const struct feedback_group *g, const float *value);

#endif
